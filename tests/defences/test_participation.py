"""Who takes part, what the server can tell of it, and sums instead of updates, in small federations on real rounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import FloatArray, Task, UserId
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dynamic_participation import DynamicParticipation
from fedleak.defences.secure_aggregation import SecureAggregation
from fedleak.defences.shuffle import Shuffle
from fedleak.federation.federation import Client, Round, initial, train
from fedleak.federation.hooks import Defence, hidden
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples
from fedleak.trace.header import Header
from fedleak.trace.writer import TraceWriter
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER
from fedleak.views.view import View

MODEL = Mlp(hidden=(6,)).build(Signature(Task.CLASSIFY, (5,), 3))
PLAN = FederationPlan(rounds=12, fraction=0.5, batch=4, lr=0.1)


def clients(count: int = 8) -> list[Client]:
    rng = np.random.default_rng(0)
    data = [Examples(x=rng.random((4 + n, 5), dtype=np.float32), y=rng.integers(0, 3, 4 + n)) for n in range(count)]
    return [Client(f"d-{n:06x}", UserId(f"u{n}"), -1, mine) for n, mine in enumerate(data)]


def run(
    *defences: Defence, plan: FederationPlan = PLAN, who: list[Client] | None = None, start: int = 0
) -> list[Round]:
    weights = None if not start else run(*defences, plan=plan, who=who)[start - 1].weights
    return list(train(MODEL, who or clients(), plan, defences, None, 3, start=start, weights=weights))


def film(folder: Path, *defences: Defence) -> Path:
    header = Header(
        fingerprint="participation",
        rounds=PLAN.rounds,
        task=Task.CLASSIFY,
        model="mlp",
        layout=MODEL.layout,
        clients=tuple(client.id for client in clients()),
        shadow=(-1,) * 8,
        defences=tuple(to_dict(defence) for defence in defences),
        hidden=tuple(str(observation.name) for observation in hidden(defences)),
    )
    writer = TraceWriter.open(folder, header)
    writer.start(initial(MODEL, 3))
    for done in run(*defences):
        writer.append(done)
    return folder


def flat(values: dict[str, FloatArray]) -> FloatArray:
    return np.concatenate(list(values.values()))


@given(st.integers(1, 4), st.floats(0.2, 1))
@settings(max_examples=10, deadline=None)
def test_nobody_takes_part_more_often_than_allowed(at_most: int, share: float) -> None:
    rounds = run(DynamicParticipation(share=share, at_most=at_most), plan=replace(PLAN, fraction=1.0))
    counts = Counter(int(client) for done in rounds for client in done.clients)
    assert max(counts.values(), default=0) <= at_most
    if share == 1:
        assert set(counts.values()) == {at_most}


def test_clients_stay_out_of_as_many_rounds_as_they_like() -> None:
    plan = replace(PLAN, rounds=60, fraction=1.0)
    taking = [len(done.clients) for done in run(DynamicParticipation(share=0.3), plan=plan)]
    assert np.mean(taking) == pytest.approx(0.3 * 8, abs=0.5)
    assert len(set(taking)) > 2


def test_who_left_stays_away_when_a_run_is_resumed() -> None:
    defence = DynamicParticipation(share=0.7, at_most=3)
    whole, rest = run(defence), run(defence, start=5)
    for a, b in zip(whole[5:], rest, strict=True):
        np.testing.assert_array_equal(a.clients, b.clients)
        np.testing.assert_array_equal(a.weights["out"], b.weights["out"])


def test_the_adversarys_own_clients_do_not_stay_away() -> None:
    who = [replace(client, defended=n < 4) for n, client in enumerate(clients())]
    rounds = run(DynamicParticipation(at_most=1), plan=replace(PLAN, fraction=1.0), who=who)
    assert [sorted(done.clients.tolist()) for done in rounds[1:]] == [[4, 5, 6, 7]] * 11


def test_a_shuffled_run_shows_the_server_no_client_twice_and_trains_the_same(tmp_path: Path) -> None:
    open_, shuffled = film(tmp_path / "open"), film(tmp_path / "shuffled", Shuffle())
    with_links, without = View(open_, SERVER).updates, View(shuffled, SERVER).updates
    assert len(set(with_links.handle.tolist())) == 8
    assert len(set(without.handle.tolist())) == len(without)
    np.testing.assert_array_equal(without.layer("out"), with_links.layer("out"))
    # What it never had is not given to it either, and sizes still arrive.
    np.testing.assert_array_equal(View(shuffled, ANONYMOUS_SERVER).updates.handle, without.handle)
    assert without.size is not None


def test_masked_sums_train_the_same_model_and_record_noise() -> None:
    open_, masked = run(), run(SecureAggregation(precision=30))
    np.testing.assert_allclose(flat(dict(masked[-1].weights)), flat(dict(open_[-1].weights)), atol=1e-5)
    for a, b in zip(open_, masked, strict=True):
        np.testing.assert_array_equal(a.clients, b.clients)
        assert np.abs(np.corrcoef(a.updates["fc1"].ravel(), b.updates["fc1"].ravel())[0, 1]) < 0.4
        assert b.updates["fc1"].std() == pytest.approx(1 / np.sqrt(3), rel=0.2)


def test_masked_updates_come_without_their_sizes(tmp_path: Path) -> None:
    assert View(film(tmp_path / "open"), SERVER).updates.size is not None
    assert View(film(tmp_path / "masked", SecureAggregation()), SERVER).updates.size is None


def test_who_drops_out_is_told_and_counts_for_nothing() -> None:
    rounds = run(SecureAggregation(dropout=0.4), plan=replace(PLAN, fraction=1.0, rounds=20))
    assert any(done.dropped for done in rounds)
    for done in rounds:
        lost = {client for client, why in done.dropped if "secure-aggregation" in why}
        assert len(lost) + len(done.clients) == 8
        assert not lost & {f"d-{n:06x}" for n in done.clients}
        assert all(len(rows) == len(done.clients) == len(done.sizes) for rows in done.updates.values())


def test_a_round_with_too_few_left_moves_nothing() -> None:
    first, *_ = run(SecureAggregation(threshold=5))
    assert len(first.clients) == 0
    assert all((values == 0).all() for values in first.aggregate.values())
    assert len(first.dropped) == 4


def test_noise_of_the_server_goes_on_top_of_a_masked_sum() -> None:
    quiet = run(Clip(bound=0.05), SecureAggregation())[0]
    noisy = run(DpFedAvg(noise=1.0, clip=0.05, where="server"), SecureAggregation())[0]
    added = flat(dict(noisy.aggregate)) - flat(dict(quiet.aggregate))
    shares = noisy.sizes / noisy.sizes.sum()
    assert added.std() == pytest.approx(0.05 * shares.max(), rel=0.35)
