"""Marks for images: the victim's own are found, others' are at chance, and noise is not taken for an image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.games.traces.portraits import CLIENTS, SHAPE, write_images
from fedleak.metrics.grids import grids
from fedleak.metrics.judge import judge
from fedleak.metrics.reconstruction import _own_inception, inception, quality
from fedleak.metrics.unreadable_images import garbage
from fedleak.score.score import AttackResult, Measured
from fedleak.trace.truth import Truth
from scored import measure

SAMPLES = 12


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return Truth.load(write_images(tmp_path_factory.mktemp("run"), 0, leak=True) / "truth")


def played(truth: Truth, whose: IntArray, *, noise: float = 0.05) -> AttackResult:
    """Claims for every client: slightly noisy images of the client in `whose`."""
    assert truth.evidence is not None
    held, rng = truth.evidence.held, rng_for(0, "claims")
    claims: FloatArray = np.stack(
        [held.examples[one].x[rng.integers(len(held.examples[one]), size=SAMPLES)] for one in whose]
    )
    claims = np.clip(claims + rng.normal(0, noise, claims.shape), 0, 1).astype(np.float32)
    everybody = np.arange(CLIENTS)
    users = tuple(str(user) for user in held.candidates)
    values = [truth.attributes[user]["rotation"] for user in held.candidates]
    return AttackResult(
        0,
        claims,
        everybody,
        (),
        "reconstruct",
        everybody,
        users,
        CLIENTS,
        evidence=truth.evidence,
        judged=("rotation", *values),
    )


def found(one: AttackResult, metric: str) -> Measured:
    return measure([one], metric, level=0.95, permutations=100)


@pytest.mark.parametrize("metric", ["nearest", "specific"])
def test_the_victims_own_images_are_found_and_another_clients_are_not(truth: Truth, metric: str) -> None:
    own = found(played(truth, np.arange(CLIENTS)), metric)
    assert own.value > 0.9 and own.low > own.chance
    other = found(played(truth, np.roll(np.arange(CLIENTS), 1)), metric)
    assert other.value < 0.2 and other.low <= other.chance


def test_the_same_images_for_everybody_are_at_chance(truth: Truth) -> None:
    for metric in ("nearest", "specific", "property"):
        one = found(played(truth, np.zeros(CLIENTS, dtype=np.int64), noise=0.0), metric)
        assert one.low <= one.chance, metric


def test_the_property_is_seen_where_it_is(truth: Truth) -> None:
    own = found(played(truth, np.arange(CLIENTS)), "property")
    assert own.value > 0.6 and own.chance >= 0.25
    assert not measure_applies(replace(played(truth, np.arange(CLIENTS)), judged=()))


def measure_applies(one: AttackResult) -> bool:
    from scored import applies

    return applies([one], "property")


def test_the_judge_knows_images_and_rejects_what_shows_nothing(truth: Truth) -> None:
    assert truth.evidence is not None
    kept = judge(truth.evidence, None)
    assert judge(truth.evidence, None) is kept
    x = np.concatenate([e.x for e in truth.evidence.held.examples])
    y = np.concatenate([np.asarray(e.y) for e in truth.evidence.held.examples])
    answers = kept.categories(x)
    assert (answers[:, :-1].argmax(axis=1) == y).mean() > 0.8
    assert (answers.argmax(axis=1) < kept.classes).mean() > 0.8
    assert (kept.categories(garbage(x, 200, rng_for(5))).argmax(axis=1) == kept.classes).mean() > 0.7


def test_quality_tells_images_from_noise_and_many_from_one(truth: Truth) -> None:
    real = {q.name: q for q in quality([played(truth, np.arange(CLIENTS))], 0.95)}
    assert real["readable"].value > 0.7 and real["classes"].value > 0.6
    # Of a victim's own classes alone the score has another ceiling, for its own images as for drawn ones.
    assert 1 <= real["inception, own classes"].value <= real["inception"].value + 1e-9
    assert real["inception"].low <= real["inception"].value <= real["inception"].high
    noise = played(truth, np.arange(CLIENTS))
    noise = replace(noise, claims=rng_for(1).random(noise.claims.shape).astype(np.float32))
    assert {q.name: q.value for q in quality([noise], 0.95)}["readable"] < 0.2
    one = played(truth, np.arange(CLIENTS))
    same = replace(one, claims=np.repeat(one.claims[:, :1], SAMPLES, axis=1))
    assert {q.name: q.value for q in quality([same], 0.95)}["diversity"] == pytest.approx(0.0, abs=1e-6)
    assert real["diversity"].value > 0.2


def test_the_inception_score_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    answers = rng.dirichlet(np.full(4, 0.5), size=30)
    mean = answers.mean(axis=0)
    expected = np.exp(np.mean([np.sum(p * np.log(p / mean)) for p in answers]))
    assert inception(answers) == pytest.approx(expected)


def test_a_grid_shows_real_images_above_claims(truth: Truth) -> None:
    import base64
    import io

    from PIL import Image

    one = played(truth, np.arange(CLIENTS))
    shown = grids(one)
    assert [grid.user for grid in shown] == list(one.users[: len(shown)])
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(shown[0].png))))
    scale = image.shape[0] // (2 * (SHAPE[1] + 2))
    first = image[: SHAPE[1] * scale : scale, : SHAPE[2] * scale : scale] / 255
    assert truth.evidence is not None
    assert np.allclose(first, truth.evidence.held.examples[0].x[0, 0], atol=1 / 255 + 1e-6)


def test_evidence_survives_the_disk(truth: Truth, tmp_path: Path) -> None:
    truth.save(tmp_path)
    again = Truth.load(tmp_path)
    assert again.evidence is not None and truth.evidence is not None
    assert again.evidence.bystanders.attributes == truth.evidence.bystanders.attributes
    assert all(
        np.array_equal(a.x, b.x)
        for a, b in zip(again.evidence.held.examples, truth.evidence.held.examples, strict=True)
    )


def test_the_inception_score_of_own_classes_does_not_reward_other_classes() -> None:
    ten, own = np.eye(10), np.array([2, 5, 7])
    all_classes, three = np.repeat(ten, 3, axis=0), np.repeat(ten[own], 10, axis=0)
    uneven = np.concatenate([np.repeat(ten[[2]], 28, axis=0), ten[[5, 7]]])
    assert (inception(all_classes), inception(three)) == pytest.approx((10.0, 3.0))
    for answers in (all_classes, three, uneven):
        assert _own_inception(answers, answers.argmax(axis=1), own) == pytest.approx(3.0)
    assert _own_inception(ten[[2, 2]], np.array([2, 2]), own) == pytest.approx(1.0)
    assert _own_inception(ten[[1, 3]], np.array([1, 3]), own) == 1.0
