"""The epsilon ledger of a plan's runs, finished or not, and the machine-readable statement that goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedleak.federation.hooks import Defence
from fedleak.federation.ledger import Ledger, Spending, TookPart, ledger_of
from fedleak.federation.privacy import training
from fedleak.federation.promises import Promise, promises
from fedleak.pipeline.runs import Run, facts
from fedleak.plan.plan import Plan
from fedleak.results.budget import Budget, budgets
from fedleak.score.labels import described
from fedleak.trace.reader import Trace

__all__ = [
    "STATEMENT_SCHEMA",
    "EpsilonStatement",
    "RunLedger",
    "StatementFile",
    "budgets_of",
    "ledgers",
    "spendings",
    "statement_file",
]

STATEMENT_SCHEMA = 1

_IMPLEMENTATION = (
    "Noise is drawn in single precision from a generator with a seed (NumPy's PCG64), so that the audit can be "
    "repeated; a deployment needs a cryptographic generator and a discrete or rounded mechanism"
)
_NOT_COVERED = (
    "other releases about the same people (earlier runs, tuning, evaluation results), the choice of settings on "
    "private data, how the data was collected and who can reach it, and side channels such as timing"
)


class EpsilonStatement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement with everything that it depends on, under the headings of NIST SP 800-226."""

    defence: str
    stated: bool
    why_not: str = ""  # why no epsilon can be stated
    variant: str = ""  # of differential privacy
    epsilon: float | None = None  # of the whole run
    delta: float | None = None
    epsilon_of_a_round: float | None = None
    epsilon_while_participation_is_secret: float | None = None
    unit: str | None = None
    units: int | None = None  # how many of the unit there are
    adjacency: str = ""
    trust_model: str = ""
    trusted: str = ""
    protects_against: str = ""
    mechanism: str = ""
    noise_multiplier: float | None = None
    clipping_norm: float | None = None
    sampling: str = ""
    composition: str = ""
    accountant: str = ""
    public: str = ""
    implementation: str = ""
    not_covered: str = ""
    weakness: str = ""
    tested: dict[str, float | bool | None] = {}  # lower bounds that canaries show, with 95% confidence


class RunLedger(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what its defences state, and what each client has spent."""

    defence: dict[str, Any]
    seed: int
    deployed: bool
    finished: bool
    rounds: int  # recorded
    of: int  # planned
    statements: list[EpsilonStatement]
    ledgers: list[Ledger]


class StatementFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `fedleak ledger --json` writes; documented in docs/reference/epsilon.md."""

    schema: int
    title: str
    runs: list[RunLedger]
    budgets: list[Budget]


def ledgers(plan: Plan, every: Sequence[Run]) -> list[RunLedger]:
    """The ledger of every run with a defence whose federation has recorded a round; resumed or not."""
    found = []
    for run in every:
        named = described(run.variant.defences)
        # An adversary that knows the defence changes nothing about what it states.
        if named is None or run.variant.adaptive or run.variant.control or not (run.folder / "trace").exists():
            continue
        one = _of_run(plan, run, named)
        if one is not None:
            found.append(one)
    return found


def spendings(found: Sequence[RunLedger]) -> list[Spending]:
    """The part that says nothing of single clients: who took part when may be what an epsilon rests on."""
    return [ledger.spending for run in found for ledger in run.ledgers]


def statement_file(plan: Plan, every: Sequence[Run]) -> StatementFile:
    """Everything that `fedleak ledger` knows."""
    found = ledgers(plan, every)
    return StatementFile(schema=STATEMENT_SCHEMA, title=plan.title, runs=found, budgets=budgets_of(plan, found))


def budgets_of(plan: Plan, found: Sequence[RunLedger]) -> list[Budget]:
    """The plan's limits on epsilon against its deployed run."""
    mine = [run for run in found if run.deployed]
    return budgets(spendings(mine), plan.limits.get("epsilon", {}), [run.seed for run in mine])


def _of_run(plan: Plan, run: Run, named: dict[str, Any]) -> RunLedger | None:
    known = facts(run)
    if known is None and not (run.folder / "trace" / "header.json").exists():
        return None
    trace = Trace.open(run.folder / "trace")
    if not trace.rounds:
        return None
    present = took_part(trace)
    sizes = [one.examples for one in present if one.examples]
    clients = len(trace.header.clients)
    busiest = max(1, max(len(one.rounds) for one in present))
    # Until a run is over, only those that have taken part are known by their number of examples.
    given = promises(run.variant.defences, plan.federation, clients, sizes, run.seed, taken=busiest)
    if known is not None:
        given = known.promises
    about = training(run.variant.defences, plan.federation, clients, sizes, taken=busiest)
    limits: Mapping[str, float] = plan.limits.get("epsilon", {}) if run.variant.deployed else {}
    return RunLedger(
        defence=named,
        seed=run.seed,
        deployed=run.variant.deployed,
        finished=known is not None,
        rounds=trace.rounds,
        of=plan.federation.rounds,
        statements=[statement(one, defence) for one, defence in zip(given, run.variant.defences, strict=True)],
        ledgers=ledger_of(named, run.seed, run.variant.defences, given, about, present, trace.rounds, limits),
    )


def took_part(trace: Trace) -> list[TookPart]:
    """Every client on which the defences act, with its rounds; not those in which its update was left out."""
    rounds: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for client, number, size in zip(trace.client.tolist(), trace.round.tolist(), trace.size.tolist(), strict=True):
        rounds.setdefault(client, []).append(number)
        sizes[client] = size
    return [
        TookPart(name, sizes.get(index, 0), tuple(rounds.get(index, ())))
        for index, (name, shadow) in enumerate(zip(trace.header.clients, trace.header.shadow, strict=True))
        if shadow < 0
    ]


def statement(given: Promise, defence: Defence) -> EpsilonStatement:
    """A promise under the headings of NIST SP 800-226."""
    if given.epsilon is None:
        return EpsilonStatement(defence=given.defence, stated=False, why_not=given.how)
    central = given.seen == "model"
    shown = given.one_run
    return EpsilonStatement(
        defence=given.defence,
        stated=True,
        variant="approximate differential privacy: (epsilon, delta)",
        epsilon=given.epsilon,
        delta=given.delta,
        epsilon_of_a_round=given.per_round,
        epsilon_while_participation_is_secret=given.hidden_epsilon,
        unit=given.unit,
        units=given.count,
        adjacency=given.adjacency,
        trust_model="central: a trusted server adds the noise" if central else "local: each client adds its own noise",
        trusted=given.trusted,
        protects_against=given.against,
        mechanism=given.mechanism or given.how,
        noise_multiplier=given.noise,
        clipping_norm=given.clip,
        sampling=given.sampling,
        composition=given.composition,
        accountant=given.accountant,
        public=given.public,
        implementation=_IMPLEMENTATION,
        not_covered=_NOT_COVERED,
        weakness=given.warning,
        tested={
            "one_round": given.shown,
            "whole_run_clients": given.shown_over_run,
            "one_run_records": None if shown is None else shown.shown,
            "contradicted": given.contradicted,
        },
    )
