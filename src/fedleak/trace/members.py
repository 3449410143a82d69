"""The records that membership is asked about: what clients trained on, and what nobody trained on.

It is in the folder of the truth, readable by its owner only, and only where a plan asks about membership.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedleak.trace.prior import Prior

if TYPE_CHECKING:
    from fedleak.population.prepare import Prepared

__all__ = ["MemberRecords"]

_USED, _HELD_OUT = "used", "held-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecords:
    """Examples by user, twice, in the same order of users; outsiders are among them, split like everybody else."""

    used: Prior  # what the user's client trained on, or would have, had an outsider taken part
    held_out: Prior  # what no client trained on
    decoys: bool = False  # for the control: records that nobody trained on are declared members

    @staticmethod
    def of(prepared: Prepared) -> MemberRecords:
        """The records of those who take part, then those of the outsiders."""
        shares = (*prepared.shares, *prepared.outsiders)
        nothing = shares[0].private.take([])

        def by_user(parts: tuple[object, ...]) -> Prior:
            return Prior(
                candidates=tuple(share.user.id for share in shares),
                examples=parts,  # type: ignore[arg-type]
                task=prepared.task,
                outputs=prepared.outputs,
            )

        return MemberRecords(
            used=by_user(tuple(share.private for share in shares)),
            held_out=by_user(tuple(prepared.held_out.get(share.user.id, nothing) for share in shares)),
        )

    def save(self, folder: Path) -> None:
        """Write it below the folder of the truth."""
        self.used.save(folder / _USED)
        self.held_out.save(folder / _HELD_OUT)

    @staticmethod
    def load(folder: Path) -> MemberRecords | None:
        """Read it back; None where the run did not keep any."""
        if not (folder / _HELD_OUT).is_dir():
            return None
        return MemberRecords(used=Prior.load(folder / _USED), held_out=Prior.load(folder / _HELD_OUT))
