"""Draw the people who take part, and divide each one's data into test, prior and private examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import UserId, derive
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import examine, fingerprint, priors
from fedleak.population.examine import Examined, Finding
from fedleak.population.population import Examples, Population, Share, User

__all__ = ["Draw"]


class Draw:
    """Draw users by the seed, skipping those whose data cannot be divided."""

    def __init__(self, population: Population, examined: Examined, plan: PopulationPlan, seed: int) -> None:
        self.population, self.examined, self.plan, self.seed = population, examined, plan, seed
        self.shares: tuple[Share, ...] = ()
        self.findings: list[Finding] = []
        self._held: dict[UserId, Examples] = {}
        self._copies = self._copiers = 0

    def from_(self, candidates: Sequence[User]) -> None:
        """Find as many users as the plan asks for; `shares` and `findings` say who."""
        wanted = self.plan.users if self.plan.users is not None else len(candidates)
        found: dict[int, Share] = {}
        undivided: list[UserId] = []
        for i in self._order(candidates, wanted):
            if len(found) == wanted:
                break
            share = self._divide(candidates[i])
            if share is None:
                undivided.append(candidates[i].id)
            else:
                found[i] = share
        if undivided:
            why = "too little distinct data to have some both in the prior and in private"
            self.findings.append(examine.few(sorted(undivided), self.plan, why))
        if len(found) < (self.plan.users or 2):
            self._too_few(len(found))
        if self._copies:
            text = (
                f"{self._copies} example(s) of {self._copiers} user(s) had a copy both in the prior and in private; "
                + ("dropped from the prior." if self.plan.overlap == "drop" else "kept.")
            )
            self.findings.append(Finding(kind="overlap", count=self._copies, action=self.plan.overlap, text=text))
        self.shares = tuple(found[i] for i in sorted(found))
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

    def _divide(self, user: User) -> Share | None:
        plan, rng = self.plan, derive(self.seed, "divide", user.id)
        examples = user.examples
        if plan.examples is not None and len(examples) > plan.examples:
            # In the order of the data, so that a user without times keeps what order there is.
            examples = examples.take(np.sort(rng.permutation(len(examples))[: plan.examples]))
        if self.population.test is None:
            held = priors.hold_out(examples, plan.test_share, rng, albums=plan.prior == "album")
            self._held[user.id] = examples.take(held)
            examples = examples.take(~held)
        known = priors.divide(
            examples,
            plan.prior,
            plan.prior_share,
            rng,
            stratify=plan.stratify,
            untimed=user.id in self.examined.untimed,
        )
        if known is None:
            return None
        prior, private = examples.take(known), examples.take(~known)
        copies = fingerprint.shared(fingerprint.of(prior), fingerprint.of(private))
        if copies.any():
            if plan.overlap == "drop":
                prior = prior.take(~copies)
            if not len(prior):
                return None
            self._copies += int(copies.sum())
            self._copiers += 1
        if plan.prior_examples is not None and len(prior) > plan.prior_examples:
            # One order for every number, so that a larger prior holds the smaller one.
            order = derive(self.seed, "prior_examples", user.id).permutation(len(prior))
            prior = prior.take(np.sort(order[: plan.prior_examples]))
        return Share(replace(user, examples=Examples.concat([prior, private])), prior, private)

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
