"""The ground truth of a run, which predictions are scored against, in a separate folder that no attack can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fedleak.core import UserId
from fedleak.errors import TraceError
from fedleak.trace.evidence import Evidence
from fedleak.trace.files import private_folder
from fedleak.trace.members import MemberRecords
from fedleak.trace.sealed import seal, unseal

__all__ = ["Truth"]

_KIND, _VERSION, _FILE = "fedleak-truth", 1, "truth.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The users behind the clients."""

    users: tuple[UserId, ...]
    client_user: Mapping[str, UserId]  # pseudonym of a client -> its user
    attributes: Mapping[UserId, Mapping[str, str]]
    class_counts: Mapping[UserId, list[int]] | None = None  # of the private data; None where there are no classes
    traits: Mapping[UserId, Mapping[str, float]] = field(
        default_factory=dict
    )  # share of the private data that shows it
    secrets: Mapping[UserId, tuple[str, ...]] = field(default_factory=dict)  # records planted in the private data
    decoys: Mapping[UserId, tuple[str, ...]] = field(default_factory=dict)  # records that were planted nowhere
    evidence: Evidence | None = None  # users' data, where images are reconstructed
    members: MemberRecords | None = None  # users' data, where membership is asked about
    # Where a client holds the data of many users, as a hospital does: pseudonym of a client -> its silo, and user ->
    # the silo that holds the user's data. Such a client is not in `client_user`: no single user is behind it. A silo
    # may have several clients, one after the other: a client that starts again is a new one.
    silos: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[UserId, str] = field(default_factory=dict)
    # Of all randomness of the run, of the questions about it and of attacks on it; 0: recorded without one.
    seed: int = 0

    def save(self, folder: Path) -> None:
        """Write truth.json, readable by its owner only."""
        private_folder(folder)
        if self.evidence is not None:
            self.evidence.save(folder)
        if self.members is not None:
            self.members.save(folder)
        kept = {name: getattr(self, name) for name in self.__slots__ if name not in ("evidence", "members", "seed")}
        seal(folder / _FILE, _KIND, _VERSION, _Content(**kept, seed=f"{self.seed:x}"))

    @staticmethod
    def load(folder: Path) -> Truth:
        """Read truth.json back."""
        content = unseal(folder / _FILE, _KIND, _VERSION, _Content)
        known = set(content.users)
        strangers = (
            set(content.client_user.values())
            | set(content.attributes)
            | set(content.class_counts or ())
            | set(content.traits)
            | set(content.secrets)
            | set(content.decoys)
            | set(content.homes)
        ) - known
        if strangers:
            raise TraceError(f"{folder / _FILE} names '{min(strangers)}', who is not among its users")
        if homeless := set(content.homes.values()) - set(content.silos.values()):
            raise TraceError(f"{folder / _FILE} names the silo '{min(homeless)}', which has no client")
        return Truth(
            users=tuple(UserId(user) for user in content.users),
            client_user={client: UserId(user) for client, user in content.client_user.items()},
            attributes={UserId(user): values for user, values in content.attributes.items()},
            class_counts=None
            if content.class_counts is None
            else {UserId(user): counts for user, counts in content.class_counts.items()},
            traits={UserId(user): shares for user, shares in content.traits.items()},
            secrets={UserId(user): records for user, records in content.secrets.items()},
            decoys={UserId(user): records for user, records in content.decoys.items()},
            evidence=Evidence.load(folder),
            members=MemberRecords.load(folder),
            silos=content.silos,
            homes={UserId(user): silo for user, silo in content.homes.items()},
            seed=_hexadecimal(content.seed, folder / _FILE),
        )


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    users: tuple[str, ...]
    client_user: Mapping[str, str]
    attributes: Mapping[str, Mapping[str, str]]
    class_counts: Mapping[str, list[int]] | None
    traits: Mapping[str, Mapping[str, float]] = {}
    secrets: Mapping[str, tuple[str, ...]] = {}
    decoys: Mapping[str, tuple[str, ...]] = {}
    silos: Mapping[str, str] = {}
    homes: Mapping[str, str] = {}
    seed: str = "0"  # hexadecimal: JSON readers represent so large an integer inexactly


def _hexadecimal(text: str, path: Path) -> int:
    try:
        return int(text, 16)
    except ValueError as error:
        raise TraceError(f"{path} has the seed '{text}', which is no hexadecimal number") from error
