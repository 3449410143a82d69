import typing

import msgspec
import pytest

from fedleak import registry
from fedleak.core import Capability, Observation
from fedleak.errors import PlanError

NAMED = [(kind, name) for kind in ("attack", "defence", "dataset", "model") for name in registry.names(kind)]


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_everything_registered_has_its_name_a_docstring_and_settings_that_can_be_checked(
    kind: registry.Kind, name: str
) -> None:
    cls = registry.load(kind, name)
    assert cls.name == name
    assert cls.__doc__
    for hint in typing.get_type_hints(cls, include_extras=True).values():
        if typing.get_origin(hint) is not typing.ClassVar:
            msgspec.json.schema(hint)  # raises where a range stands on a type that has none


@pytest.mark.parametrize("name", registry.names("adversary"))
def test_every_adversary_has_its_name_and_says_who_it_is(name: str) -> None:
    adversary = registry.load("adversary", name)
    assert adversary.name == name
    assert adversary.summary
    assert isinstance(adversary.observations, Observation)
    assert isinstance(adversary.capabilities, Capability)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(PlanError, match=r"unknown attack 'reid-mpl'; did you mean 'reid-mlp'\?"):
        registry.load("attack", "reid-mpl")
