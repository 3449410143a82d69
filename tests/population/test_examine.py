"""What is wrong with a population is found, counted, and treated as the plan says."""

from __future__ import annotations

import numpy as np
import pytest
from users import crowd, numbers, user

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.data_quality import examine, twin_groups, usable_times


def twins() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two accounts of one user: seven examples in common, three and one of their own."""
    return tuple(range(500, 510)), (*range(500, 507), 600)


def test_accounts_that_share_more_than_half_of_the_smaller_are_twins() -> None:
    large, small = twins()
    users = (*crowd(3), user("large", large), user("small", small))
    assert twin_groups(users) == ((3, 4),)


def test_more_twins_than_people_have_accounts_are_told_with_what_else_they_may_be() -> None:
    def told(single: int) -> str:
        large, small = twins()
        users = (*crowd(single), user("large", large), user("small", small))
        return next(one.text for one in examine(users, PopulationPlan()).findings if one.kind == "twins")

    assert "set twins = 'keep' if they are different people" in told(4)
    assert "different people" not in told(12)


def test_half_is_not_most() -> None:
    assert twin_groups((user("a", range(0, 4)), user("b", range(2, 12)))) == ()
    assert twin_groups((user("a", range(0, 5)), user("b", range(2, 12)))) == ((0, 1),)


def test_twins_of_twins_form_one_group() -> None:
    users = (user("a", range(0, 10)), user("b", range(4, 14)), user("c", range(8, 18)), *crowd(2))
    assert twin_groups(users) == ((0, 1, 2),)


def test_a_crowd_of_identical_users_is_found_however_large() -> None:
    users = tuple(user(f"copy{i}", range(10)) for i in range(80))
    assert twin_groups(users) == (tuple(range(80)),)


def test_what_everyone_posts_does_not_make_twins() -> None:
    chain_letters = list(range(6))
    users = tuple(user(f"u{i}", [*chain_letters, *range(100 * i + 100, 100 * i + 104)]) for i in range(60))
    assert twin_groups(users) == ()


def test_one_thing_in_common_does_not_make_twins_however_often_it_is_repeated() -> None:
    assert twin_groups((user("parrot", [7] * 10), user("other", range(10)))) == ()


def test_a_user_with_one_example_is_small_rather_than_a_twin() -> None:
    result = examine((user("small", [1003]), *crowd(2)), PopulationPlan())
    assert [f.kind for f in result.findings] == ["few"]


def test_users_without_examples_are_nobodys_twins() -> None:
    assert twin_groups((user("none", []), user("nothing", []))) == ()


def test_dropping_keeps_the_twin_with_the_most_examples() -> None:
    large, small = twins()
    result = examine((user("small", small), *crowd(2), user("large", large)), PopulationPlan(twins="drop"))
    assert [u.id for u in result.users] == ["u0", "u1", "large"]
    (finding,) = result.findings
    assert (finding.kind, finding.count, finding.action) == ("twins", 1, "drop")
    assert finding.users == [["small", "large"]]


def test_merging_makes_one_user_with_every_example_once() -> None:
    large, small = twins()
    documents = {"document": np.arange(10), "album": np.arange(10)}
    users = (
        user("small", small, document=np.arange(8), album=np.arange(8)),
        user("large", large, {"gender": "x"}, **documents),
        *crowd(1),
    )
    merged = examine(users, PopulationPlan(twins="merge")).users[0]
    assert merged.id == "large"
    assert merged.attributes == {"gender": "x"}
    assert sorted(numbers(merged.examples)) == [*range(500, 510), 600]
    assert merged.examples.document is not None
    assert merged.examples.album is not None
    assert len(set(merged.examples.document)) == len(set(merged.examples.album)) == 11


def test_keeping_twins_says_what_that_does_to_the_audit() -> None:
    large, small = twins()
    users = (user("large", large), user("small", small))
    result = examine(users, PopulationPlan(twins="keep"))
    assert result.users == users
    assert result.twins == {"large", "small"}
    assert "cannot tell them apart" in result.findings[0].text


@pytest.mark.parametrize("count", [0, 1, 3])
def test_users_with_too_few_examples_are_left_out_and_counted(count: int) -> None:
    result = examine((*crowd(2), user("small", range(count))), PopulationPlan(min_examples=4))
    assert [u.id for u in result.users] == ["u0", "u1"]
    assert [(f.kind, f.count, f.action) for f in result.findings] == [("few", 1, "drop")]


def test_users_with_too_few_examples_stop_the_run_if_the_plan_says_so() -> None:
    with pytest.raises(DataError, match=r"fewer than 4 examples: lonely\..*few = 'drop'"):
        examine((*crowd(2), user("lonely", [1])), PopulationPlan(few="stop"))


def test_times_are_unusable_where_most_are_unknown_or_on_one_day() -> None:
    def usable(*days: float) -> bool:
        return usable_times(user("u", range(len(days)), time=np.array(days)).examples)

    assert usable(1.0, 2.0, 3.0, 4.0)
    assert usable(1.1, 1.9, 2.0, 3.0)  # half on one day
    assert not usable(1.1, 1.5, 1.9, 3.0)
    assert not usable(1.0, np.nan, np.nan, np.nan)
    assert not usable(np.nan, np.nan)
    assert not usable()
    assert not usable_times(user("u", [1, 2]).examples)


def test_untimed_users_are_left_out_of_a_chronological_prior() -> None:
    dated = user("dated", range(10), time=np.arange(10.0))
    crawled = user("crawled", range(100, 110), time=np.full(10, 5.0))
    dropped = examine((dated, crawled), PopulationPlan(prior="chrono"))
    assert [u.id for u in dropped.users] == ["dated"]
    assert [(f.kind, f.count, f.action) for f in dropped.findings] == [("untimed", 1, "drop")]
    kept = examine((dated, crawled), PopulationPlan(prior="chrono", untimed="keep"))
    assert len(kept.users) == 2
    assert kept.untimed == {"crawled"}
    assert examine((dated, crawled), PopulationPlan(prior="random")).findings == ()


def test_single_examples_without_a_time_are_left_out_of_a_chronological_prior() -> None:
    time = np.arange(10.0)
    time[3] = np.nan
    result = examine((user("dated", range(10), time=time),), PopulationPlan(prior="chrono"))
    assert numbers(result.users[0].examples) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [(f.kind, f.count) for f in result.findings] == [("untimed", 1)]
