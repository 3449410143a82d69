"""Sample the users who take part, and split each user's data into test, prior and private examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedleak.core import UserId, rng_for
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import data_quality, splits
from fedleak.population.data_quality import Examined, Finding
from fedleak.population.population import Examples, Population, Share, User
from fedleak.population.splits import Split

__all__ = ["Draw"]

_SHORT = 0.05  # share of users that may be left out rather than cut all priors to less than half


class Draw:
    """Sample users by the seed, skipping those whose data cannot be split."""

    def __init__(
        self, population: Population, examined: Examined, plan: PopulationPlan, split: Split, seed: int
    ) -> None:
        self.population, self.examined, self.plan, self.split, self.seed = population, examined, plan, split, seed
        self.shares: tuple[Share, ...] = ()
        self.findings: list[Finding] = []
        self.outsiders: tuple[Share, ...] = ()  # users who take no part, split like those who do
        self._held: dict[UserId, Examples] = {}
        self._undivided: list[UserId] = []

    def from_(self, candidates: Sequence[User]) -> None:
        """Find as many users as the plan asks for; the result is in `shares` and `findings`."""
        outside = self.plan.outsiders
        wanted = self.plan.users if self.plan.users is not None else len(candidates) - outside
        order = iter(self._order(candidates, wanted))
        found = self._take(order, candidates, wanted)
        if self._undivided:
            why = "too little data for both a prior and a private side"
            if self.split.counts is not None:
                why = "fewer examples of some class than every user needs"
            self.findings.append(data_quality.few(sorted(self._undivided), self.plan, why))
        if len(found) < (self.plan.users or 2):
            self._too_few(len(found))
        size = self._prior_size(found)
        short = {i: share for i, share in found.items() if len(share.prior) < size}
        if short:
            # Others stand in if the plan sets the number; if there are none, all users stay and priors are small.
            more = self._take(order, candidates, len(short), size) if self.plan.users is not None else {}
            if self.plan.users is not None and len(more) < len(short):
                size = min(len(share.prior) for share in found.values())
            else:
                names = sorted(share.user.id for share in short.values())
                self.findings.append(data_quality.few(names, self.plan, f"a prior of fewer than {size} examples"))
                found = {i: share for i, share in (*found.items(), *more.items()) if i not in short}
        self.shares = tuple(self._trimmed(found[i], size) for i in sorted(found))
        self._tell_sizes(found.values(), size)
        if outside:
            others = self._take(order, candidates, outside)
            if len(others) < outside:
                self._too_few(len(found) + len(others))
            self.outsiders = tuple(others[i] for i in sorted(others))

    def _take(self, order: Iterator[int], candidates: Sequence[User], wanted: int, least: int = 0) -> dict[int, Share]:
        """Split the next users in this order until there are `wanted`, with priors of at least `least` examples."""
        found: dict[int, Share] = {}
        while len(found) < wanted and (i := next(order, None)) is not None:
            parts = self.split_user(candidates[i])
            if parts is None:
                self._undivided.append(candidates[i].id)
            elif len(parts[0].prior) >= least:
                found[i], self._held[candidates[i].id] = parts
        return found

    def _order(self, candidates: Sequence[User], wanted: int) -> list[int]:
        """The order in which users are tried; with disjoint seeds, only the users of this seed.

        The seed's number determines its slice, so that adding seeds to a plan changes no run. Left-over users are
        distributed over the slices, to stand in for those whose data cannot be split.
        """
        if not self.plan.disjoint:
            return [int(i) for i in rng_for(self.seed, "users").permutation(len(candidates))]
        wanted += self.plan.outsiders
        slices = len(candidates) // wanted
        if self.seed >= slices:
            raise DataError(
                f"disjoint = true, but seed {self.seed} would take users {self.seed * wanted + 1} to "
                f"{(self.seed + 1) * wanted} of {len(candidates)} "
                f"({self.population.source.rstrip('.')}). "
                + (f"Use seeds 0 to {slices - 1}, or lower users." if slices else "Lower users.")
            )
        # By name rather than by position, in case a seed reads the data in another order.
        order = sorted(range(len(candidates)), key=lambda i: rng_for(0, "disjoint", candidates[i].id).random())
        return [int(i) for i in np.array_split(order, slices)[self.seed]]

    def test(self) -> Examples:
        """Pool the held-out examples, in the order of the users."""
        held = [self._held[share.user.id] for share in self.shares]
        test = Examples.concat(held)
        if not len(test):
            raise DataError(
                f"test_share = {self.plan.test_share} leaves no test examples, so utility cannot be measured. Raise "
                "it, or use users with more examples."
            )
        return test

    def split_user(self, user: User) -> tuple[Share, Examples] | None:
        """Split one user's data, and hold some out to test the model; None if that would leave a side empty."""
        plan, rng = self.plan, rng_for(self.seed, "divide", user.id)
        examples = user.examples.take(~self._out(user))
        if plan.examples is not None and len(examples) > plan.examples and self.split.counts is None:
            # In the order of the data, so that a user without times keeps what order there is.
            examples = examples.take(np.sort(rng.permutation(len(examples))[: plan.examples]))
        sides = self.split(examples, rng, untimed=user.id in self.examined.untimed)
        if sides is None:
            return None
        return _share(user, examples.take(sides.prior), examples.take(sides.private)), examples.take(sides.test)

    def _out(self, user: User) -> npt.NDArray[np.bool_]:
        """Which of a user's examples no client trains on."""
        rng = rng_for(self.seed, "held_out", user.id)
        return splits.at_random(splits.units(user.examples), self.plan.held_out, rng)

    def held_out(self, candidates: Sequence[User]) -> dict[UserId, Examples]:
        """What no client trains on, of the users who take part and of the outsiders; nothing where none is held out."""
        drawn = {share.user.id for share in (*self.shares, *self.outsiders)}
        return {user.id: user.examples.take(self._out(user)) for user in candidates if user.id in drawn}

    def _prior_size(self, found: Mapping[int, Share]) -> int:
        """The common size of all priors: as many as nearly all users can give; 0 leaves them as they are."""
        most = self.plan.prior_examples
        if most == "all":
            return 0
        sizes = [len(share.prior) for share in found.values()]
        usual = int(np.quantile(sizes, _SHORT, method="lower"))
        size = usual if min(sizes) < usual / 2 else min(sizes)
        return size if most == "equal" else min(size, most)

    def _trimmed(self, share: Share, size: int) -> Share:
        if not size or len(share.prior) <= size:
            return share
        # One order for every number, so that a larger prior holds the smaller one.
        order = rng_for(self.seed, "prior_examples", share.user.id).permutation(len(share.prior))
        return _share(share.user, share.prior.take(np.sort(order[:size])), share.private)

    def _tell_sizes(self, found: Collection[Share], size: int) -> None:
        sizes = [len(share.prior) for share in found]
        if self.plan.prior_examples != "equal" or max(sizes) == size:
            return
        text = (
            f"Every prior is cut to {size} example(s), so that its size reveals nothing; before, the median was "
            f"{int(np.median(sizes))}. Raise min_examples for larger priors, or keep all with prior_examples = 'all'."
        )
        self.findings.append(Finding(kind="sizes", count=sum(sizes) - size * len(sizes), action="drop", text=text))

    def _too_few(self, found: int) -> None:
        total = len(self.population.users)
        reasons = " ".join(finding.with_users() for finding in (*self.examined.findings, *self.findings))
        asked = f"users = {self.plan.users}" if self.plan.users is not None else "an audit needs at least 2 users"
        if self.plan.outsiders:
            asked += f" and outsiders = {self.plan.outsiders}"
        if self.plan.disjoint:
            asked += f" and disjoint = true with seed {self.seed}"
        raise DataError(
            f"{asked}, but only {found} of the {total} in this data set can take part "
            f"({self.population.source.rstrip('.')}). "
            f"{reasons or 'No user was left out.'}"
        )


def _share(user: User, prior: Examples, private: Examples) -> Share:
    return Share(replace(user, examples=Examples.concat([prior, private])), prior, private)
