"""From a data set to the participating users: checked, sampled, and split into prior and private data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.plan.plan import InjectPlan, PopulationPlan
from fedleak.population import background as public_data
from fedleak.population import data_quality, splits, traits
from fedleak.population.data_quality import Examined, Finding
from fedleak.population.inject import inject as injected
from fedleak.population.population import Dataset, Examples, Population, Records, Share, User
from fedleak.population.redeal import redeal
from fedleak.population.sampling import Draw
from fedleak.population.splits import Split

__all__ = ["Prepared", "Finding", "prepare", "salted_seed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything about the users that a federation and its audit need."""

    shares: tuple[Share, ...]
    test: Examples
    background: Examples | None
    task: Task
    outputs: int
    source: str
    findings: tuple[Finding, ...]
    input_shape: tuple[int, ...]
    outputs_named: tuple[str, ...] = ()
    traits: Mapping[UserId, Mapping[str, float]] = field(default_factory=dict)  # share of the private data showing it
    records: Records | None = None  # what is public about the secrets that users hold
    injected: Mapping[UserId, str] = field(
        default_factory=dict
    )  # records that the adversary injected into users' texts
    # Some of the background, for an adversary to learn from: where there are traits, or one has no prior data.
    public: Examples | None = None
    shows: Mapping[str, npt.NDArray[np.int8]] = field(default_factory=dict)  # which of these show what
    held_out: Mapping[UserId, Examples] = field(default_factory=dict)  # what no client trains on, where some is
    outsiders: tuple[Share, ...] = ()  # users drawn and split like those who take part
    bystanders: tuple[User, ...] = ()  # users of the data set who do not take part and are not twins of one who does


def salted_seed(prepared: Prepared, seed: int) -> int:
    """A seed for everything that happens in a run, which nobody without the users' private data can derive.

    Seeds of plans are small. With the plan's own, an attack could try them all, compare the initial weights, and draw
    again who is selected and which client is whose.
    """
    digest = hashlib.blake2b(str(seed).encode(), digest_size=16)
    for share in prepared.shares:
        digest.update(str(share.user.id).encode())
        for column in (share.private.x, share.private.y):
            if column is not None:
                digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return int.from_bytes(digest.digest(), "little")


def prepare(
    dataset: Dataset,
    plan: PopulationPlan,
    seed: int,
    *,
    iid: bool = False,
    inject: InjectPlan | None = None,
    auxiliary: bool = False,
) -> Prepared:
    """Load, check, sample and split a population; the same seed gives the same users and the same split.

    With `iid` all data is pooled and redistributed first: the control without user-specific data. With `inject` an
    adversary has injected records into users' texts beforehand; everything else stays the same. With `auxiliary` some
    users of the background are public as a whole, for an adversary that has no prior data and imitates clients.
    """
    population = dataset.load(seed)
    _check(population, plan)
    examined = data_quality.examine(population.users, plan)
    own = {user.id: user.examples for user in examined.users}
    test_share = plan.test_share if population.test is None else 0.0
    # Chosen before the data is redistributed, so that the control is split like the run.
    split = splits.choose(examined.users, plan, test_share=test_share)
    if iid:
        examined = replace(examined, users=_redealt(examined, split, seed))
    marks: Mapping[UserId, str] = {}
    if inject is not None:
        tampered, marks = injected(replace(population, users=examined.users), inject, seed, own)
        examined = replace(examined, users=tampered.users)
    candidates, background = _set_aside(population, examined, plan, seed)
    drawn = Draw(population, examined, plan, split, seed)
    drawn.from_(candidates)
    if plan.prior != "none":
        told = Finding(kind="split", count=len(drawn.shares), action=split.name, text=split.told)
        drawn.findings.insert(0, told)
    shares, findings = drawn.shares, [*drawn.findings, *population.findings, *examined.findings]
    marks = {share.user.id: marks[share.user.id] for share in shares if share.user.id in marks}
    if marks:
        text = f"The adversary injected a record into the texts of {len(marks)} user(s), which changes the run."
        findings.append(Finding(kind="injected", count=len(marks), action="keep", text=text))
    held_out = drawn.held_out(candidates) if plan.held_out else {}
    if background is not None:
        public_data.check(background, population, shares[0].private)
        owners = [*shares, *drawn.outsiders]
        aside = [
            Share(replace(share.user, examples=held), held, held)
            for share in owners
            if len(held := held_out.get(share.user.id, share.private.take([])))
        ]
        background = public_data.without_users(background, [*owners, *aside], findings)
    auxiliary = auxiliary or plan.prior == "none"
    public = None
    if background is not None and (auxiliary or population.traits):
        public = public_data.sample(background, seed, whole_users=auxiliary)
    return Prepared(
        shares=shares,
        test=population.test if population.test is not None else drawn.test(),
        background=background,
        task=population.task,
        outputs=population.outputs,
        source=population.source,
        findings=tuple(findings),
        input_shape=tuple(shares[0].private.x.shape[1:]),
        outputs_named=population.outputs_named,
        # From the users' original data, in the control too: redistributed data must not show who fits a profile.
        traits=_traits(population, drawn, own if iid else None),
        records=population.records,
        injected=marks,
        public=public,
        shows={} if public is None else {name: trait(public) for name, trait in population.traits.items()},
        held_out=held_out,
        outsiders=drawn.outsiders,
        bystanders=_bystanders(candidates, (*shares, *drawn.outsiders), examined),
    )


def _bystanders(candidates: Sequence[User], shares: Sequence[Share], examined: Examined) -> tuple[User, ...]:
    present = {share.user.id for share in shares} | set(examined.twins)
    return tuple(user for user in candidates if user.id not in present and len(user.examples))


def _check(population: Population, plan: PopulationPlan) -> None:
    """Reject data that lacks what the task or the prior needs, before anything is computed."""
    owners = [user for user in population.users if len(user.examples)]
    if not owners:
        raise DataError(f"no user in this data set has any examples ({population.source.rstrip('.')})")
    if population.task is not Task.NEXT_TOKEN:
        for user in owners:
            if user.examples.y is None:
                raise DataError(
                    f"user '{user.id}' has examples without labels, but the task is to {population.task.value}. "
                    "Give every example a label, or choose a task that needs none."
                )
            _check_labels(user.id, user.examples.y, population)
    for column in (column.name for column in fields(Examples)):
        without = [user.id for user in owners if getattr(user.examples, column) is None]
        if 0 < len(without) < len(owners):
            raise DataError(
                f"{len(without)} of {len(owners)} users have examples without {column} (first: '{without[0]}') "
                f"({population.source.rstrip('.')}). Give it for all users or for none."
            )
    for user in owners:
        splits.require(user.examples, plan.prior, population.source)
    if plan.disjoint and plan.users is None:
        raise DataError("disjoint = true needs users = N in [population]; without it every run has all users")


def _check_labels(user: UserId, y: npt.NDArray[Any], population: Population) -> None:
    """Reject labels of the wrong shape; the loss would broadcast them into nonsense."""
    if population.task is not Task.MULTI_LABEL:
        if y.ndim != 1:
            raise DataError(f"user '{user}': labels of shape {y.shape} where each example needs exactly one")
    elif y.ndim != 2 or y.shape[1] != population.outputs or not np.isin(y, (0, 1)).all():
        raise DataError(
            f"user '{user}': labels of shape {y.shape}, but the task is multi-label: each example needs a row of "
            f"{population.outputs} values, 1 where it shows a class and 0 where it does not"
        )


def _set_aside(
    population: Population, examined: Examined, plan: PopulationPlan, seed: int
) -> tuple[tuple[User, ...], Examples | None]:
    """Turn some users into background data, if the data set has none and the plan asks for it."""
    if population.background is not None or not plan.background_users:
        return examined.users, population.background
    # A twin of a user who takes part would carry that user's data into the background.
    free = [i for i, user in enumerate(examined.users) if user.id not in examined.twins]
    if len(free) < plan.background_users + 2:
        raise DataError(
            f"background_users = {plan.background_users} leaves no user to audit: the data has {len(free)} users "
            "to choose from. Lower it."
        )
    # With different users for every seed, the users set aside must be the same for all: no user is in two runs.
    chosen = set(
        rng_for(0 if plan.disjoint else seed, "background")
        .choice(free, size=plan.background_users, replace=False)
        .tolist()
    )
    background = Examples.concat(
        replace(examined.users[i].examples, owner=np.full(len(examined.users[i].examples), i)) for i in sorted(chosen)
    )
    return tuple(user for i, user in enumerate(examined.users) if i not in chosen), background


def _traits(
    population: Population, drawn: Draw, own: Mapping[UserId, Examples] | None
) -> Mapping[UserId, Mapping[str, float]]:
    """How much of each user's private data shows each trait; of the original data, if it was redistributed."""
    found = {}
    for share in drawn.shares if population.traits else ():
        private = share.private
        if own is not None:
            mine = own[share.user.id]
            parts = drawn.split_user(replace(share.user, examples=mine))
            private = mine if parts is None else parts[0].private
        found[share.user.id] = {name: traits.share(trait(private)) for name, trait in population.traits.items()}
    return found


def _redealt(examined: Examined, split: Split, seed: int) -> tuple[User, ...]:
    """Redistribute all data; users with times among themselves, because the others are split differently."""
    timed = [user for user in examined.users if user.id not in examined.untimed]
    others = [user for user in examined.users if user.id in examined.untimed]
    dealt = {
        user.id: user
        for name, part in (("timed", timed), ("untimed", others))
        for user in redeal(part, rng_for(seed, "iid", name), within_classes=split.by_design)
    }
    return tuple(dealt[user.id] for user in examined.users)
