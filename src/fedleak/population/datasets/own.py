"""A data set of the user's own: any callable that returns arrays by user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from fedleak import registry
from fedleak.errors import DataError, FedleakError
from fedleak.population.datasets.arrays import ArrayDataset, to_examples
from fedleak.population.population import Examples, Population

__all__ = ["Own", "call", "background_of"]


@dataclass(frozen=True, kw_only=True)
class Own:
    """Your own data, from a callable that returns `{user: (x, y)}`, as `fedleak.ArrayDataset` takes it.

    It may also return an object with a `load`, such as an ArrayDataset with attributes. Naming it runs its code, as
    importing any module does.
    """

    name: ClassVar[str] = "own"

    target: (
        Annotated[
            str,
            Meta(description='`module:callable`, called without arguments; `name = "module:callable"` is short for it'),
        ]
        | None
    ) = None
    background: (
        Annotated[str, Meta(description="`module:callable` -> (x, y) of other users, the public examples")] | None
    ) = None

    def load(self, seed: int) -> Population:
        """Call it; whatever the seed, it gives the same."""
        if self.target is None:
            raise DataError("the plan gives no data; name a callable that returns {user: (x, y)}")
        given = call(self.target)
        if isinstance(given, Population):
            found = given
        elif hasattr(given, "load"):
            found = given.load(seed)
        elif isinstance(given, Mapping):
            found = _population(given, self.target)
        else:
            raise DataError(f"{self.target} returned {type(given).__name__}; expected a dict {{user: (x, y)}}")
        if self.background is not None:
            found = replace(found, background=background_of(self.background))
        return found


def call(target: str) -> Any:
    """What `module:callable` returns; its own errors are reported as errors of the data."""
    make = registry.resolve_own(target)
    if not callable(make):
        raise DataError(f"{target} is not callable; name a function without arguments")
    try:
        return make()
    except FedleakError:
        raise
    except Exception as error:
        raise DataError(f"{target} failed: {type(error).__name__}: {error}") from error


def background_of(target: str) -> Examples:
    """The examples that `module:callable` returns."""
    return to_examples(call(target), target)


def _population(users: Mapping[Any, Any], target: str) -> Population:
    named = {str(user): value for user, value in users.items()}
    if len(named) < len(users):
        raise DataError(f"{target}: two users have the same name as text; give every user a name of their own")
    return ArrayDataset(named, source=f"Examples of {len(named)} users, from {target}.").load(0)
