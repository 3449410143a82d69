"""What the defences of a run promise, and whether canaries contradict it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedleak.federation.canaries import put_to_the_test
from fedleak.federation.canary_run import shown_over_run
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import training
from fedleak.federation.record_audit import OneRun, audit_records
from fedleak.plan.plan import FederationPlan

__all__ = ["Promise", "promises"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """The differential privacy that a defence states for a run, or why it states none."""

    defence: str
    epsilon: float | None  # of the whole run
    hidden_epsilon: float | None  # the same while it is secret who took part
    per_round: float | None  # of a round in which the client takes part
    delta: float | None
    unit: str | None  # record or client: what one more or less of cannot be told
    adjacency: str
    against: str
    how: str
    count: int | None = None  # how many of the unit there are, which delta is compared with
    trusted: str = ""  # who has to be trusted
    sampling: str = ""  # how clients or examples are drawn, as far as the accounting uses it
    public: str = ""  # what is assumed to be known to everybody
    composition: str = ""  # what is added up
    accountant: str = ""
    seen: str = ""  # what those who cannot tell see at most: updates or model
    mechanism: str = ""  # which noise, and on what
    noise: float | None = None  # its standard deviation, in units of the clip
    clip: float | None = None  # the bound on what the noise hides
    warning: str = ""  # why the epsilon guarantees little, if it does
    tested: float | None = None  # the epsilon of a round that canaries were held against
    tested_delta: float | None = None  # at which that epsilon is stated: the test has fewer records than the run
    shown: float | None = None  # what they show to be given away at least, with 95% confidence
    most: float | None = None  # what they could show at most: a larger epsilon cannot be contradicted
    shown_over_run: float | None = None  # what canary clients show of the whole run at least, with 95% confidence
    one_run: OneRun | None = None  # what canary records of one training show, where the statement is about records
    contradicted: bool = False


def promises(
    defences: Sequence[Defence],
    plan: FederationPlan,
    clients: int,
    examples: Sequence[int],
    seed: int,
    *,
    taken: int | None = None,
    canaries: bool = False,
) -> list[Promise]:
    """The epsilon of each defence, or why there is none; with `canaries` it is put to the test.

    `clients`, `examples` and `taken` are as in `fedleak.federation.privacy.training`.
    """
    found = []
    known = training(defences, plan, clients, examples, taken=taken)
    for place, stated in enumerate(defence.privacy(known) for defence in defences):
        put = put_to_the_test(defences, place, known, plan, seed) if canaries else None
        over_run = shown_over_run(defences, stated, known, plan, seed) if canaries else None
        one_run = audit_records(defences, place, known, plan, seed) if canaries else None
        too_much = stated.epsilon is not None and over_run is not None and over_run > stated.epsilon
        found.append(
            Promise(
                defence=stated.defence,
                epsilon=stated.epsilon,
                hidden_epsilon=stated.hidden_epsilon,
                per_round=stated.per_round,
                delta=stated.delta,
                unit=stated.unit,
                adjacency=stated.adjacency,
                against=stated.against,
                how=stated.how,
                count=stated.count,
                trusted=stated.trusted,
                sampling=stated.sampling,
                public=stated.public,
                composition=stated.composition,
                accountant=stated.accountant,
                seen=stated.seen if stated.epsilon is not None else "",
                mechanism=stated.mechanism,
                noise=stated.noise,
                clip=stated.clip,
                warning=stated.warning,
                tested=put.claimed if put else None,
                tested_delta=put.delta if put else None,
                shown=put.shown if put else None,
                most=put.most if put else None,
                shown_over_run=over_run,
                one_run=one_run,
                contradicted=too_much
                or (put is not None and put.contradicted)
                or (one_run is not None and one_run.contradicted),
            )
        )
    return found
