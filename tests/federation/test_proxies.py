"""Proxy clients hold curated public examples, and belong to no user."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.core import UserId
from fedleak.errors import PlanError
from fedleak.federation.federation import Client
from fedleak.federation.proxies import proxies
from fedleak.plan.plan import ProxyPlan
from fedleak.plan.read import parse
from fedleak.population.population import Examples

# The first column says whether an example shows the trait, and the label whether it could.
PUBLIC = Examples(
    x=np.stack([np.arange(40) % 2, np.arange(40)], axis=1).astype(np.float64),
    y=np.arange(40) // 20,
    owner=np.arange(40),
)
SHOWS = {"odd": (np.arange(40) % 2).astype(np.int8), "even": 1 - (np.arange(40) % 2).astype(np.int8)}
OWN = Examples(x=np.zeros((3, 2), np.float32), y=np.zeros(3, np.int64))
USERS = [Client("d-000001", UserId("a"), -1, OWN), Client("d-000002", UserId("a"), 0, OWN, defended=False)]


def test_for_each_trait_some_show_it_and_as_many_hold_others_of_the_same_classes() -> None:
    found = proxies(ProxyPlan(traits=("odd", "even"), clients=2, examples=10), PUBLIC, SHOWS, USERS, 0)
    assert [client.shadow for client in found] == [1, 2, 1, 2, 3, 4, 3, 4], "after the only candidate"
    assert len({client.id for client in (*USERS, *found)}) == len(USERS) + len(found)
    assert {client.user for client in found} == {UserId("adversary")} and not any(c.defended for c in found)
    for client in found:
        assert (client.data.x[:, 0] == (client.shadow in (1, 4))).all() and len(client.data) == 10
        assert client.data.x.dtype == OWN.x.dtype and client.data.owner is None, "as everybody's data"
    for first, second in zip(found[0::2], found[1::2], strict=True):
        assert first.data.y is not None and second.data.y is not None
        assert first.data.y.tolist() == second.data.y.tolist()


def test_a_part_of_the_examples_may_be_anybodys() -> None:
    plan = ProxyPlan(traits=("odd",), clients=1, examples=20, part=0.5)
    fits, others = proxies(plan, PUBLIC, SHOWS, USERS, 0)
    assert (fits.data.x[:10, 0] == 1).all() and (others.data.x[:10, 0] == 0).all()
    assert np.array_equal(fits.data.x[10:], others.data.x[10:]), "a pair differs in the profile only"


def test_they_defend_themselves_where_the_other_shadow_clients_do() -> None:
    aware = [USERS[0], Client("d-000002", UserId("a"), 0, OWN, defended=True)]
    assert all(client.defended for client in proxies(ProxyPlan(traits=("odd",)), PUBLIC, SHOWS, aware, 0))


def test_a_trait_without_public_examples_is_refused() -> None:
    with pytest.raises(PlanError, match=r"unknown trait 'od'; did you mean 'odd'\?"):
        proxies(ProxyPlan(traits=("od",)), PUBLIC, SHOWS, USERS, 0)
    with pytest.raises(PlanError, match="no traits with public background data"):
        proxies(ProxyPlan(traits=("odd",)), None, {}, USERS, 0)
    with pytest.raises(PlanError, match="0 public examples show 'odd' and 40 of the same kind do not"):
        proxies(ProxyPlan(traits=("odd",)), PUBLIC, {"odd": np.zeros(40, np.int8)}, USERS, 0)


PLAN = """
[dataset]
name = "mnist-writers"
[model]
name = "cnn"
[[game]]
name = "profile"
trait = "slanted"
[[attack]]
name = "profile-proxy"
"""


def test_a_plan_has_proxy_clients_where_an_attack_learns_from_them() -> None:
    assert parse(PLAN + '[proxy]\ntraits = ["slanted"]\n').trained["proxy"]["clients"] == 4
    with pytest.raises(PlanError, match=r"'profile-proxy' learns from proxy clients .* add a table \[proxy\]"):
        parse(PLAN)
    with pytest.raises(PlanError, match=r"a game asks for 'slanted', but no proxy client has it"):
        parse(PLAN + '[proxy]\ntraits = ["bold"]\n')


def test_proxy_clients_are_refused_in_a_game_about_users_only() -> None:
    with pytest.raises(PlanError, match=r"\[proxy\]: proxy clients belong to no user, so game 'identify' cannot ask"):
        parse(PLAN + '[[attack]]\nname = "reid-knn"\n[proxy]\ntraits = ["slanted"]\n')
