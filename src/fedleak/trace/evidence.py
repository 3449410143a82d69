"""What reconstructed images are compared with: users' private data, and data of users who did not take part.

It is in the folder of the truth, readable by its owner only, and only where a plan reconstructs images: other runs do
not keep users' data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedleak.trace.prior import Background, Prior

if TYPE_CHECKING:
    from fedleak.population.prepare import Prepared

__all__ = ["Evidence"]

_HELD, _BYSTANDERS = "held", "bystanders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Examples by user, twice."""

    held: Prior  # what each client trained on
    bystanders: Prior  # users of the same data set who did not take part, with their attributes, followed by the test
    # set: the classifier that judges images learns from these, since they are not victims

    @staticmethod
    def of(prepared: Prepared) -> Evidence:
        """The data of those who take part, of those who do not, and the test set."""
        return Evidence(
            held=Prior(
                candidates=tuple(share.user.id for share in prepared.shares),
                examples=tuple(share.private for share in prepared.shares),
                task=prepared.task,
                outputs=prepared.outputs,
            ),
            bystanders=Prior(
                candidates=tuple(user.id for user in prepared.bystanders),
                examples=tuple(user.examples for user in prepared.bystanders),
                task=prepared.task,
                outputs=prepared.outputs,
                attributes=tuple(dict(user.attributes) for user in prepared.bystanders),
                background=Background(examples=prepared.test, shows={}),
            ),
        )

    def save(self, folder: Path) -> None:
        """Write it below the folder of the truth."""
        self.held.save(folder / _HELD)
        self.bystanders.save(folder / _BYSTANDERS)

    @staticmethod
    def load(folder: Path) -> Evidence | None:
        """Read it back; None where the run did not keep any."""
        if not (folder / _BYSTANDERS).is_dir():
            return None
        return Evidence(held=Prior.load(folder / _HELD), bystanders=Prior.load(folder / _BYSTANDERS))
