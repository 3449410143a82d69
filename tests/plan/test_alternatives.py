"""Lists of strengths in [[defence]]."""

from __future__ import annotations

import pytest

from command_line import TINY
from fedleak.defences.noise import Noise
from fedleak.defences.rand_aug import RandomAugmentation
from fedleak.errors import PlanError
from fedleak.plan.configure import to_dict
from fedleak.plan.read import parse


def test_a_list_of_strengths_stands_for_one_defence_each() -> None:
    plan = parse(TINY + '[[defence]]\nname = "noise"\nsigma = [1.0, 2.0]\nrelative = [true, false]\n')
    assert list(plan.defences) == [(Noise(sigma=s, relative=r),) for s in (1, 2) for r in (True, False)]


def test_lists_of_defences_that_act_together_are_combined() -> None:
    text = '[[defence]]\nname = "noise"\nsigma = [1.0, 2.0]\nalso = [{name = "rand-aug", alpha = [1.0, 3.0]}]\n'
    plan = parse(TINY + text)
    assert list(plan.defences) == [(Noise(sigma=s), RandomAugmentation(alpha=a)) for s in (1, 2) for a in (1, 3)]
    assert plan.resolved["defence"] == [[to_dict(d) for d in chosen] for chosen in plan.defences]


def test_what_is_deployed_is_found_among_the_alternatives() -> None:
    text = '[[defence]]\nname = "noise"\nsigma = [1.0, 2.0]\n[[defence]]\nname = "rand-aug"\ndeployed = true\n'
    assert parse(TINY + text).deployed == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sigma = []", "[[defence]] 1 sigma: the list is empty"),
        ("sigma = [1.0, 2.0]\ndeployed = true", "only one defence can be deployed, but this table expands to 2"),
        ("sigma = [1.0, 1.0]", "entry 2 repeats entry 1"),
        ("sigma = [1.0, -2.0]", "[[defence]] 1, value 2 sigma"),
        ('sigma = 1.0\nalso = ["clip"]', "[[defence]] 1 also 1: expected a table with a name"),
    ],
)
def test_a_bad_list_is_explained_with_its_place(table: str, message: str) -> None:
    with pytest.raises(PlanError, match=r"\[\[defence\]\]") as error:
        parse(TINY + f'[[defence]]\nname = "noise"\n{table}\n')
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('name = "embedding-noise"\nsigma = [0.1, 1.0]', "[[defence]] 1, value 1: defence 'embedding-noise' acts on"),
        (
            'name = "dp-fedavg"\nnoise = 1.0\nwhere = "server"\nalso = [{name = "noise", sigma = 1.0}]',
            "[[defence]] 1: defence 'dp-fedavg' cannot be combined like this",
        ),
        ('name = "clip"\nalso = [{name = "clip", bound = 1.0}]', "[[defence]] 1: defence 'clip' is listed twice"),
    ],
)
def test_defences_that_fit_neither_the_model_nor_each_other_are_refused(table: str, message: str) -> None:
    with pytest.raises(PlanError, match=r"\[\[defence\]\]") as error:
        parse(TINY + f"[[defence]]\n{table}\n")
    assert message in str(error.value)
