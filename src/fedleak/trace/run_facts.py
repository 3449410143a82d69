"""What a trained run says about itself: `run.json`, beside its trace."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedleak.errors import TraceError
from fedleak.federation.promises import Promise
from fedleak.population.data_quality import Finding
from fedleak.trace.files import read_whole, write_atomic

__all__ = ["RunFacts"]

_NAME = "run.json"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a trained run says about itself, kept beside its trace."""

    fingerprint: str
    source: str
    users: int
    silos: int = 0  # clients with several users behind them; 0: each client has one user
    private_examples: int
    prior_examples: int
    test_examples: int
    parameters: int
    layers: dict[str, int]
    utility_metric: str = ""
    higher_is_better: bool = True
    utility: float | None = None  # None: the run was recorded, and nobody kept test data of it
    chance: float = 0.0
    centralised: float | None = None
    knn: float | None = None
    matched: float | None = None  # utility after as many local steps as the undefended run takes, if it takes more
    local_steps: int = 0  # of all clients over all rounds
    client_seconds: float | None = None  # computing time of one update
    promises: list[Promise] = []  # of each defence
    rounds: int | None = None  # of a recorded run; otherwise the plan says how many
    clients: int | None = None  # of a recorded run, without shadow clients
    shadow_updates: int | None = None  # that were trained beside a recorded run
    origin: dict[str, str] = {}  # what another framework trained it; empty: Fedleak
    dropped: int  # updates left out because they were not finite
    findings: list[Finding]
    data: str = ""  # SHA-256 of the users' data
    task: str = ""  # what the model learns
    # What the data has besides examples: attributes, traits, images, records, background; None: an older run
    offers: list[str] | None = None

    def save(self, folder: Path) -> None:
        """Write it last: it marks the run in this folder as trained."""
        write_atomic(folder / _NAME, msgspec.json.encode(self))

    @staticmethod
    def load(folder: Path) -> RunFacts | None:
        """None if the run in this folder is not trained to the end."""
        path = folder / _NAME
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(read_whole(path), type=RunFacts)
        except msgspec.DecodeError as error:
            raise TraceError(f"{path} is damaged ({error}); delete {folder} and train again") from error
