"""What the rules see in examples, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from users import Given, examples, numbers, user

from fedleak.core import UserId
from fedleak.plan.plan import PopulationPlan
from fedleak.population.population import Examples, Population
from fedleak.population.prepare import prepare
from fedleak.population.traits import HANDWRITING, share, topics


def seven(*, bar: bool = False, lean: float = 0.4, width: int = 2, hook: bool = False) -> npt.NDArray[np.float32]:
    image = np.zeros((28, 28), dtype=np.float32)
    image[4:6, 7:21] = 1
    if hook:
        image[4:12, 7:9] = 1
    for y in range(4, 25):
        x = 19 - round(lean * (y - 4))
        image[y, x : x + width] = 1
    if bar:
        image[14:16, 10:22] = 1
    return image


def drawn(*images: npt.NDArray[np.float32], label: int = 7) -> Examples:
    return Examples(x=np.stack(images)[:, None], y=np.full(len(images), label))


def test_a_bar_is_seen_across_the_stem_and_not_in_a_hook_or_another_digit() -> None:
    see = HANDWRITING["barred-seven"]
    images = (seven(bar=True), seven(), seven(hook=True), seven(bar=True, width=4), seven(bar=True, lean=0.1))
    assert see(drawn(*images)).tolist() == [1, 0, 0, 1, 1]
    assert see(drawn(*images, label=1)).tolist() == [-1] * 5
    assert see(drawn(np.zeros((28, 28), np.float32))).tolist() == [0], "an empty image shows nothing"


def test_slanted_and_bold_strokes_are_seen() -> None:
    def stroke(lean: float, width: int) -> npt.NDArray[np.float32]:
        image = np.zeros((28, 28), dtype=np.float32)
        for y in range(4, 24):
            x = 14 + round(lean * (14 - y))
            image[y, x : x + width] = 1
        return image

    images = drawn(stroke(0, 1), stroke(0.5, 1), stroke(-0.5, 1), stroke(0, 5))
    assert HANDWRITING["slanted"](images).tolist() == [0, 1, 0, 0]
    assert HANDWRITING["bold"](images).tolist() == [0, 0, 0, 1]


def test_a_topic_is_seen_by_its_words_and_only_if_the_vocabulary_has_one() -> None:
    found = topics(["<pad>", "<unknown>", "the", "teacher", "church"])
    assert set(found) == {"school", "faith"}
    rows = Examples(x=np.array([[2, 3, 0], [2, 4, 3], [2, 2, 0]]))
    assert found["school"](rows).tolist() == [1, 1, 0]
    assert found["faith"](rows).tolist() == [0, 1, 0]


@dataclass(frozen=True, kw_only=True)
class Observed(Given):
    """A data set in which it can be seen whether a number is odd, for those above 1,000."""

    def load(self, seed: int) -> Population:
        def odd(rows: Examples) -> npt.NDArray[np.int8]:
            return np.where(rows.x[:, 0] > 1000, rows.x[:, 0] % 2, -1).astype(np.int8)

        return replace(super().load(seed), traits={"odd": odd})


def test_the_truth_is_about_private_data_and_the_public_examples_are_other_peoples() -> None:
    # All odd, all even, and half of each: divided into five and five, whose private ones are then not half.
    users = (user("u0", range(1001, 1021, 2)), user("u1", range(2002, 2022, 2)), user("u2", range(3001, 3011)))
    data = Observed(users=users, background=examples([*range(9001, 9007), 2002]))
    real, control = (prepare(data, PopulationPlan(), 0, iid=iid) for iid in (False, True))
    private = numbers(real.shares[2].private)
    mixed = sum(number % 2 for number in private) / len(private)
    assert len(private) == 5
    assert real.traits == {UserId("u0"): {"odd": 1.0}, UserId("u1"): {"odd": 0.0}, UserId("u2"): {"odd": mixed}}
    assert control.traits == real.traits, "who fits is a fact about users; the control mixes their data only"
    assert real.public is not None
    assert numbers(real.public) == [9001, 9002, 9003, 9004, 9005, 9006], "2002 is the second user's"
    assert real.shows["odd"].tolist() == [1, 0, 1, 0, 1, 0]


def test_a_data_set_without_traits_keeps_no_public_examples() -> None:
    users = tuple(user(f"u{i}", range(1000 * (i + 1), 1000 * (i + 1) + 10)) for i in range(3))
    prepared = prepare(Given(users=users, background=examples(range(9001, 9007))), PopulationPlan(), 0)
    assert (prepared.public, dict(prepared.shows)) == (None, {})


def test_a_share_counts_only_examples_that_could_show_it() -> None:
    assert share(np.array([-1, -1], dtype=np.int8)) == 0
    assert share(np.array([-1, 1, 0, 0], dtype=np.int8)) == 1 / 3
