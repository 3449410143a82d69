"""The ledger: what each client has spent, by the rounds in which it took part."""

from __future__ import annotations

import pytest

from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation.accountants import gaussian, poisson
from fedleak.federation.hooks import Defence
from fedleak.federation.ledger import Account, TookPart, accounts, spending
from fedleak.federation.privacy import Statement, Training, training
from fedleak.federation.promises import Promise, promises
from fedleak.plan.plan import FederationPlan
from fedleak.results.budget import budgets

PLAN = FederationPlan(rounds=10, weighting="equal", batch=10)
OFTEN, TWICE, NEVER = (
    TookPart("often", 30, tuple(range(1, 11))),
    TookPart("twice", 80, (3, 7)),
    TookPart("never", 0, ()),
)
SIZES = (30, 80)


def given(defence: Defence) -> tuple[Promise, Training, list[Account]]:
    [promise] = promises([defence], PLAN, 3, SIZES, 0, taken=10)
    about = training([defence], PLAN, 3, SIZES, taken=10)
    return promise, about, accounts(defence, promise, about, [OFTEN, TWICE, NEVER])


@pytest.mark.parametrize("where", ["local", "server"])
def test_a_client_that_took_part_twice_has_spent_two_rounds_of_the_gaussian_mechanism(where: str) -> None:
    promise, _, (often, twice, never) = given(DpFedAvg(noise=8.0, clip=1.0, where=where, delta=1e-3))  # type: ignore[arg-type]
    assert twice.after == [gaussian(4.0, n, 1e-3).epsilon for n in (1, 2)]
    assert twice.rounds == [3, 7] and twice.epsilon < often.epsilon == promise.epsilon
    assert often.after == sorted(often.after) and len(often.after) == 10
    assert never.epsilon == 0.0 and never.after == []


def test_records_of_a_client_have_spent_by_its_own_examples_and_rounds() -> None:
    promise, _, (often, twice, never) = given(DpSgd(noise=2.0, delta=1e-3))
    assert often.epsilon == poisson(10 / 30, 2.0, 10 * 3, 1e-3).epsilon == promise.epsilon
    assert twice.epsilon == poisson(10 / 80, 2.0, 2 * 8, 1e-3).epsilon < often.epsilon
    # On the way a faster accountant, which is never below the statement's.
    assert twice.after[0] >= poisson(10 / 80, 2.0, 8, 1e-3).epsilon
    assert twice.after[0] <= twice.after[1] and twice.tight
    assert never.epsilon == 0.0


def test_many_clients_are_counted_fast_and_never_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedleak.federation.ledger._MOST_TIGHT", 1)
    _, _, (often, twice, _) = given(DpSgd(noise=2.0, delta=1e-3))
    assert often.tight and not twice.tight
    assert twice.epsilon >= poisson(10 / 80, 2.0, 16, 1e-3).epsilon


class _OfAnotherPackage(DpFedAvg):
    """States an epsilon, and says nothing of single clients."""

    spent = Defence.spent  # type: ignore[assignment]


def test_without_an_account_of_its_own_each_client_is_charged_what_is_stated() -> None:
    promise, _, (often, twice, never) = given(_OfAnotherPackage(noise=8.0, clip=1.0))
    assert often.epsilon == twice.epsilon == promise.epsilon
    assert never.epsilon == 0.0


def test_a_defence_that_states_nothing_has_no_ledger() -> None:
    from fedleak.defences.clip import Clip
    from fedleak.federation.ledger import ledger_of

    found = promises([Clip()], PLAN, 3, SIZES, 0)
    assert ledger_of({"name": "clip"}, 0, [Clip()], found, training([Clip()], PLAN, 3, SIZES), [OFTEN], 10, {}) == []


def test_the_summary_names_no_client_and_says_what_is_left() -> None:
    promise, _, all_of = given(DpFedAvg(noise=8.0, clip=1.0, delta=1e-3))
    summed = spending({"name": "dp-fedavg"}, 0, promise, all_of, 10, {"client": 5.0})
    assert promise.epsilon is not None
    assert (summed.worst, summed.worst_rounds, summed.least) == (promise.epsilon, 10, 0.0)
    assert summed.median == gaussian(4.0, 2, 1e-3).epsilon
    assert summed.left == pytest.approx(5.0 - promise.epsilon)
    assert [(group.rounds, group.clients) for group in summed.groups] == [(0, 1), (2, 1), (10, 1)]
    assert "often" not in repr(summed)


def test_a_budget_is_held_against_the_client_that_has_spent_most_in_the_worst_seed() -> None:
    promise, _, all_of = given(DpFedAvg(noise=8.0, clip=1.0, delta=1e-3))
    one = spending({"name": "dp-fedavg"}, 0, promise, all_of, 10, {"client": 5.0})
    other = spending({"name": "dp-fedavg"}, 1, promise, all_of[1:], 10, {"client": 5.0})
    assert promise.epsilon is not None
    [within] = budgets([other, one], {"client": promise.epsilon + 0.1}, [0, 1])
    [over] = budgets([other, one], {"client": promise.epsilon - 0.1}, [0, 1])
    assert not within.exceeded and "is left" in within.text and within.seed == 0
    assert over.exceeded and over.spent == promise.epsilon
    # What holds for a client holds for its records; not the other way round.
    [record] = budgets([one], {"record": promise.epsilon + 0.1}, [0])
    assert not record.exceeded
    of_records, _, accounts_of = given(DpSgd(noise=2.0, delta=1e-3))
    spent = spending({"name": "dp-sgd"}, 0, of_records, accounts_of, 10, {})
    [client] = budgets([spent], {"client": 1e6}, [0])
    assert client.exceeded and client.spent is None and "states no epsilon" in client.text
    [early] = budgets([], {"client": 1.0}, [])
    assert not early.exceeded


def test_a_statement_names_its_noise_and_bound() -> None:
    for defence in (DpFedAvg(noise=8.0, clip=0.5), DpSgd(noise=2.0, clip=0.5)):
        [promise] = promises([defence], PLAN, 3, SIZES, 0)
        assert promise.mechanism.startswith("Gaussian") and promise.clip == 0.5 and promise.noise == defence.noise
    assert Statement.none("x", "y").mechanism == ""
