"""Draw the users who take part, and split each one's data into test, prior and private examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import UserId, derive
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import examine
from fedleak.population.examine import Examined, Finding
from fedleak.population.population import Examples, Population, Share, User
from fedleak.population.splits import Split

__all__ = ["Draw"]


class Draw:
    """Draw users by the seed, skipping those whose data cannot be split."""

    def __init__(
        self, population: Population, examined: Examined, plan: PopulationPlan, split: Split, seed: int
    ) -> None:
        self.population, self.examined, self.plan, self.split, self.seed = population, examined, plan, split, seed
        self.shares: tuple[Share, ...] = ()
        self.findings: list[Finding] = []
        self._held: dict[UserId, Examples] = {}

    def from_(self, candidates: Sequence[User]) -> None:
        """Find as many users as the plan asks for; `shares` and `findings` say who."""
        wanted = self.plan.users if self.plan.users is not None else len(candidates)
        found: dict[int, Share] = {}
        undivided: list[UserId] = []
        for i in self._order(candidates, wanted):
            if len(found) == wanted:
                break
            parts = self.split_user(candidates[i])
            if parts is None:
                undivided.append(candidates[i].id)
            else:
                found[i], self._held[candidates[i].id] = parts
        if undivided:
            why = "too little data to have some both in the prior and in private"
            if self.split.counts is not None:
                why = "fewer examples of some class than everyone is to have"
            self.findings.append(examine.few(sorted(undivided), self.plan, why))
        if len(found) < (self.plan.users or 2):
            self._too_few(len(found))
        sized = self._same_size(found)
        self.shares = tuple(sized[i] for i in sorted(sized))
        chosen = {share.user.id for share in self.shares}
        self._held = {name: held for name, held in self._held.items() if name in chosen}

    def _order(self, candidates: Sequence[User], wanted: int) -> list[int]:
        """Who is asked first; where seeds have people of their own, only those of this seed.

        The seed's own number says which slice it takes, so that adding seeds to a plan changes no run. People left
        over are shared out among the slices, to stand in for those whose data cannot be divided.
        """
        if not self.plan.disjoint:
            return [int(i) for i in derive(self.seed, "users").permutation(len(candidates))]
        slices = len(candidates) // wanted
        if self.seed >= slices:
            raise DataError(
                f"disjoint = true, but seed {self.seed} would take people {self.seed * wanted + 1} to "
                f"{(self.seed + 1) * wanted} of {len(candidates)} "
                f"({self.population.source.rstrip('.')}). "
                + (f"Use seeds 0 to {slices - 1}, or lower users." if slices else "Lower users.")
            )
        # By name rather than by place, in case a seed reads the data in another order.
        order = sorted(range(len(candidates)), key=lambda i: derive(0, "disjoint", candidates[i].id).random())
        return [int(i) for i in np.array_split(order, slices)[self.seed]]

    def test(self) -> Examples:
        """Pool what was held out, in the order of the users."""
        held = [self._held[share.user.id] for share in self.shares]
        test = Examples.concat(held)
        if not len(test):
            raise DataError(
                f"test_share = {self.plan.test_share} of these users' examples is nothing, so utility cannot be "
                "measured. Raise it, or take users with more examples."
            )
        return test

    def split_user(self, user: User) -> tuple[Share, Examples] | None:
        """Split one user's data, and hold some out to test the model; None if that would leave a side empty."""
        plan, rng = self.plan, derive(self.seed, "divide", user.id)
        examples = user.examples
        if plan.examples is not None and len(examples) > plan.examples and self.split.counts is None:
            # In the order of the data, so that a user without times keeps what order there is.
            examples = examples.take(np.sort(rng.permutation(len(examples))[: plan.examples]))
        sides = self.split(examples, rng, untimed=user.id in self.examined.untimed)
        if sides is None:
            return None
        return _share(user, examples.take(sides.prior), examples.take(sides.private)), examples.take(sides.test)

    def _same_size(self, found: Mapping[int, Share]) -> Mapping[int, Share]:
        """Give every prior the same size, unless the plan says otherwise: its size would tell whose it is."""
        wanted = self.plan.prior_examples
        sizes = [len(share.prior) for share in found.values()]
        if wanted == "all" or not sizes:
            return found
        size = min(sizes) if wanted == "equal" else min(wanted, *sizes)
        if size == max(sizes):
            return found
        # One order for every number, so that a larger prior holds the smaller one.
        order = {
            i: derive(self.seed, "prior_examples", share.user.id).permutation(len(share.prior))
            for i, share in found.items()
        }
        if size == min(sizes):
            smallest = min(found.values(), key=lambda share: len(share.prior)).user.id
            text = (
                f"Every prior holds {size} example(s), as many as that of '{smallest}', so that sizes tell nothing; "
                f"before, the median was {int(np.median(sizes))}. Raise min_examples for larger priors, or keep all "
                "with prior_examples = 'all'."
            )
            self.findings.append(Finding(kind="sizes", count=sum(sizes) - size * len(sizes), action="drop", text=text))
        return {
            i: _share(share.user, share.prior.take(np.sort(order[i][:size])), share.private)
            for i, share in found.items()
        }

    def _too_few(self, found: int) -> None:
        total = len(self.population.users)
        reasons = " ".join(finding.text for finding in (*self.examined.findings, *self.findings))
        asked = f"users = {self.plan.users}" if self.plan.users is not None else "an audit needs at least 2 users"
        if self.plan.disjoint:
            asked += f" and disjoint = true with seed {self.seed}"
        raise DataError(
            f"{asked}, but only {found} of the {total} in this data set can take part "
            f"({self.population.source.rstrip('.')}). "
            f"{reasons or 'No user was left out.'}"
        )


def _share(user: User, prior: Examples, private: Examples) -> Share:
    return Share(replace(user, examples=Examples.concat([prior, private])), prior, private)
