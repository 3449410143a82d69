"""Rankings of records: extraction and attribution apart and together, against values worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.core import IntArray
from fedleak.metrics.attack_result import Answers
from fedleak.metrics.records import edit_distances, near
from fedleak.score.score import AttackResult, Measured, decide, verdict
from scored import applies, measure


def played(rankings: Sequence[Sequence[str]], secrets: Sequence[str], seed: int = 0, most: int = 50) -> AttackResult:
    """Records of digits, as ids from 1."""
    claims = np.zeros((len(rankings), most, 4), dtype=np.int32)
    for row, ranking in zip(claims, rankings, strict=True):
        for place, record in zip(row, ranking, strict=False):
            place[: len(record)] = [int(digit) + 1 for digit in record]
    right = np.array([[int(digit) + 1 for digit in secret] for secret in secrets])
    users = tuple(f"{seed}/u{i}" for i in range(len(secrets)))
    return AttackResult(seed, claims, right, (), "extract", np.arange(len(secrets)), users, 10_000)


def found(metric: str, *every: AttackResult) -> Measured:
    return measure(every, metric, level=0.95, permutations=50)


SECRETS = ("1111", "2222", "3333", "4444")


def test_the_right_record_counts_only_for_the_right_client() -> None:
    # The first two are right at places 1 and 2; the third secret is named for the fourth only; the fourth nowhere.
    one = played([["1111", "9999"], ["9999", "2222"], ["1234"], ["3333"]], SECRETS)
    assert found("top1", one).value == 0.25
    assert found("top5", one).value == 0.5
    assert found("extracted", one).value == 0.75
    assert found("attributed", one).value == pytest.approx(2 / 3)
    assert found("top1", one).options == 10_000 and found("top1", one).n == 4


def test_naming_every_secret_for_everybody_extracts_all_and_attributes_nothing() -> None:
    one = played([SECRETS] * 4, SECRETS)
    extracted, top1, attributed = (found(metric, one) for metric in ("extracted", "top1", "attributed"))
    assert extracted.value == 1 and extracted.low > extracted.chance
    assert extracted.chance == pytest.approx(5 / 10_000)  # four records and the empty place
    assert top1.value == top1.chance == 0.25
    assert attributed.value == attributed.chance == 0.25


def test_chance_is_another_clients_ranking_and_never_below_guessing() -> None:
    right = found("top1", played([[secret] for secret in SECRETS], SECRETS))
    assert right.value == 1 and right.chance == pytest.approx(1e-4) and right.low > right.chance
    swapped = found("top1", played([[SECRETS[i ^ 1]] for i in range(4)], SECRETS))
    assert swapped.value == 0 and swapped.chance > 0.2


def test_users_of_all_seeds_are_pooled() -> None:
    hit, miss = played([[s] for s in SECRETS], SECRETS, 0), played([["9999"]] * 4, SECRETS, 1)
    both = found("top1", hit, miss)
    assert both.value == 0.5 and both.users == 8
    assert found("attributed", hit, miss).value == 1  # of what was extracted


def test_where_nothing_was_extracted_there_is_nothing_to_attribute() -> None:
    nothing = [played([["9999"]] * 4, SECRETS)]
    assert not applies(nothing, "attributed") and applies(nothing, "top1")


def test_details_tell_how_near_an_attack_came_and_never_the_secret() -> None:
    one = played([["1119", "1111"], ["2222"], ["9999", "3399"], []], SECRETS)
    rows = near(one)
    assert [(row.place, row.elsewhere) for row in rows] == [(2, 2), (1, 1), (None, None), (None, None)]
    assert [row.distances["top1"] for row in rows] == [1, 0, 4, 4]
    assert [row.distances["top5"] for row in rows] == [0, 0, 2, 4]
    assert not any(secret in str(rows) for secret in SECRETS)


def test_distances_are_to_the_nearest_of_the_first_and_compared_with_other_clients() -> None:
    one = played([["1119", "1111"], ["2222"], ["3933", "9999"], ["4444"]], SECRETS)
    assert [found(f"distance{k}", one).value for k in (1, 5)] == [0.5, 0.25]
    first = found("distance1", one)
    # Another's first record has no digit in common with a secret.
    assert first.chance == first.chance_high == 4 and first.low <= 0.5 <= first.high < 4
    assert said(first, lower_leaks=True) == "no verdict: 4 users are too few (at least 5)"
    more = tuple(digit * 4 for digit in "123456")
    near_all = found("distance1", played([["1119"], *([secret] for secret in more[1:])], more))
    assert said(near_all, lower_leaks=True).startswith("leaks: 0.17")
    lost = found("distance1", played([[more[i ^ 1]] for i in range(6)], more))
    assert lost.value == 4 and said(lost, lower_leaks=True) == "no leak shown by this attack (n=6)"


def said(measured: Measured, *, lower_leaks: bool = False) -> str:
    return verdict(measured, decide(measured, level=0.95, lower_leaks=lower_leaks))


def nine_digits(rankings: Sequence[Sequence[str]], secrets: Sequence[str]) -> AttackResult:
    return replace(played(rankings, secrets), choices=10**9)


def test_one_secret_of_eight_that_nobody_could_guess_is_a_leak() -> None:
    secrets = tuple(digit * 4 for digit in "12345678")
    nothing = [["9999"] for _ in secrets]
    one = found("top1", nine_digits([[secrets[0]], *nothing[1:]], secrets))
    assert one.permuted is not None and (one.permuted >= one.value).mean() > 0.05  # too coarse a test
    assert said(one).startswith("leaks: 0.12") and said(one).endswith("p < 0.001")
    assert said(found("extracted", nine_digits([[secrets[0]], *nothing[1:]], secrets))).endswith("p < 0.001")
    assert said(found("top1", nine_digits(nothing, secrets))) == "no leak shown by this attack (n=8)"


def test_one_of_eight_secrets_is_no_leak_by_attribution_where_others_went_astray() -> None:
    secrets = tuple(digit * 4 for digit in "12345678")
    mixed = [[secrets[0]], [secrets[2]], [secrets[1]], *([secrets[i - 1 if i > 3 else 7]] for i in range(3, 8))]
    assert said(found("top1", nine_digits(mixed, secrets))) == "no leak shown by this attack (n=8)"
    assert said(found("extracted", nine_digits(mixed, secrets))).startswith("leaks")


def test_unanimous_users_still_leave_doubt_about_a_distance() -> None:
    right = found("distance1", played([[secret] for secret in SECRETS], SECRETS))
    assert right.value == right.low == 0 < right.high < right.chance == 4


def test_an_attack_that_attributes_nothing_is_at_chance_in_distance_too() -> None:
    same = found("distance1", played([["1234"]] * 4, SECRETS))
    assert same.value == pytest.approx(same.chance)


def edit_distance(one: str, other: str) -> int:
    return int(edit_distances(ids(one)[None], ids(other))[0])


def ids(text: str) -> IntArray:
    return np.array([*map(ord, text), *[0] * (8 - len(text))])


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edit_distance_is_a_distance(a: str, b: str, c: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(a, a + "b") == 1


def test_edit_distance_counts_insertions_omissions_and_replacements() -> None:
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("abc", "") == 3 and edit_distance("", "abc") == 3
    assert edit_distance("1234", "2341") == 2


def test_where_one_client_is_the_victim_chance_is_the_list_of_a_client_that_is_not_scored() -> None:
    def one(seed: int, own: str, other: str) -> AttackResult:
        every = played([[own], [other], [other], [other]], SECRETS, seed)
        answers = Answers(right=every.right, who=every.about[:, 0], users=every.users, scored=np.array([0]))
        return AttackResult.of(seed, every.claims, "extract", (), 10_000, answers)

    hit = found("top1", *(one(seed, "1111", "1111" if seed < 2 else "2222") for seed in range(8)))
    assert hit.value == 1 and hit.users == hit.n == 8
    assert hit.chance == pytest.approx(0.25)  # two of eight victims are found in the lists of others too
    same = found(
        "top1", *(one(seed, "1111" if seed < 2 else "2222", "1111" if seed < 2 else "2222") for seed in range(8))
    )
    assert same.value == same.chance == 0.25
    near_one = found("distance1", one(0, "1119", "1111"))
    assert (near_one.value, near_one.chance) == (1, 0)
    assert found("extracted", one(0, "9999", "1111")).value == 1
    assert found("attributed", one(0, "1111", "2222")).value == 1
    assert found("attributed", one(0, "1111", "1111")).value == 0.25
    assert [(row.place, row.elsewhere) for row in near(one(0, "9999", "1111"))] == [(None, 1)]
