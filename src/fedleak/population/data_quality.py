"""Data quality checks before training: twins, duplicates, unusable times, too few examples.

Real corpora have users with several accounts. Such twins limit what any attack can achieve and put a victim's private
data into a twin's prior, so an audit that does not look for them reports a wrong number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedleak.core import UserId
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population import copies, fingerprint
from fedleak.population.finding import Finding
from fedleak.population.population import Examples, User

__all__ = ["Finding", "Examined", "examine", "twin_groups", "usable_times"]

_TWIN_SHARE = 0.5  # of what the smaller user holds
_TWIN_LEAST = 2  # one example in common is chance
# What more users than this hold is common property (a chain letter, a row of a table with few different rows), not a
# sign of twins: a fifth of all, but never fewer than the accounts of one user, nor more than fifty.
_COMMON_SHARE, _COMMON_LEAST, _COMMON_MOST = 0.2, 4, 50
_MANY_TWINS = 0.2  # share of the users
_NAMED = 8  # users or groups that a text names before it says "and more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The users who remain, and what was found."""

    users: tuple[User, ...]
    findings: tuple[Finding, ...]
    twins: frozenset[UserId]  # users of `users` who still have a twin among them
    untimed: frozenset[UserId]  # users of `users` whose times are unusable


def examine(users: Sequence[User], plan: PopulationPlan) -> Examined:
    """Look for twins, duplicates, users without usable times or with too few examples, and act as the plan says."""
    findings: list[Finding] = []
    # Before twins: a user with a single example that someone else has too is small, not a twin.
    users = _act_on_few(tuple(users), plan, findings)
    users, twins = _act_on_twins(users, plan, findings)
    untimed: frozenset[UserId] = frozenset()
    if plan.prior != "none":
        users = _act_on_copies(users, plan, findings)
    if plan.prior == "chrono":
        users, untimed = _act_on_times(users, plan, findings)
    users = _act_on_few(users, plan, findings)
    left = frozenset(user.id for user in users)
    return Examined(users=users, findings=tuple(findings), twins=twins & left, untimed=untimed & left)


def few(names: Sequence[UserId], plan: PopulationPlan, why: str) -> Finding:
    """Report users with too little data, or stop if the plan says so."""
    text = f"{len(names)} user(s) with {why}"
    if plan.few == "stop":
        raise DataError(
            f"{text}: {_list(names)}. Remove them from the data, lower min_examples, or set few = 'drop' in "
            "[population]."
        )
    return Finding(
        kind="few", count=len(names), action="drop", text=f"{text}; left out.", users=[[str(name)] for name in names]
    )


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def _act_on_few(users: tuple[User, ...], plan: PopulationPlan, findings: list[Finding]) -> tuple[User, ...]:
    small = [user.id for user in users if len(user.examples) < plan.min_examples]
    if small:
        findings.append(few(small, plan, f"fewer than {plan.min_examples} examples"))
    return tuple(user for user in users if len(user.examples) >= plan.min_examples)


def _act_on_copies(users: tuple[User, ...], plan: PopulationPlan, findings: list[Finding]) -> tuple[User, ...]:
    found = copies.repeated(users)
    count = sum(int(mask.sum()) for mask in found)
    if not count:
        return users
    whose = sum(bool(mask.any()) for mask in found)
    done = {
        "drop": "only the first of each is kept",
        "keep": "all are kept, so the prior may contain duplicates of private data",
    }[plan.copies]
    text = f"{count} example(s) of {whose} user(s) duplicate another one of the same user; {done}."
    findings.append(Finding(kind="copies", count=count, action=plan.copies, text=text))
    return copies.without_copies(users, found) if plan.copies == "drop" else users


def usable_times(examples: Examples) -> bool:
    """Whether times can tell older from newer examples.

    Where more than half of them fall on one day, that day is usually when the data was collected.
    """
    if examples.time is None or not len(examples):
        return False
    days = np.floor(examples.time[~np.isnan(examples.time)])
    if 2 * len(days) < len(examples):
        return False
    counts = np.unique(days, return_counts=True)[1]
    return len(counts) > 1 and 2 * int(counts.max()) <= len(examples)


def _act_on_times(
    users: tuple[User, ...], plan: PopulationPlan, findings: list[Finding]
) -> tuple[tuple[User, ...], frozenset[UserId]]:
    untimed = [user.id for user in users if len(user.examples) and not usable_times(user.examples)]
    if untimed:
        done = "left out" if plan.untimed == "drop" else "kept, and split in the order of the data"
        text = f"{len(untimed)} user(s) without usable times (unknown, or mostly one day); {done}."
        users_named = [[str(user)] for user in untimed]
        findings.append(Finding(kind="untimed", count=len(untimed), action=plan.untimed, text=text, users=users_named))
    without = frozenset(untimed)
    kept, rows = [], 0
    for user in users:
        if user.id in without:
            if plan.untimed == "keep":
                kept.append(user)
            continue
        time = user.examples.time
        known = ~np.isnan(time) if time is not None else np.zeros(0, dtype=np.bool_)
        rows += int((~known).sum())
        kept.append(user if known.all() else replace(user, examples=user.examples.take(known)))
    if rows:
        text = f"{rows} example(s) without a time, of users whose other examples have one; left out."
        findings.append(Finding(kind="untimed", count=rows, action="drop", text=text))
    return tuple(kept), without


def twin_groups(users: Sequence[User]) -> tuple[tuple[int, ...], ...]:
    """Find users (by index) who share more than half of their examples with another user.

    The half refers to the user with fewer examples: an account that was copied early is a twin of the one that
    continued. What a user holds several times (a chain letter, the sentences of one post) counts once.
    """
    parent = list(range(len(users)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    prints = [np.unique(fingerprint.of(user.examples), axis=0) for user in users]
    sizes = np.array([len(p) for p in prints])

    # Users with exactly the same content are twins however many they are; this also keeps the common from hiding them.
    same: dict[bytes, int] = {}
    for i, user in enumerate(users):
        if len(prints[i]) >= _TWIN_LEAST:
            # How often each thing is there counts too: where there are few different things, many users have them all.
            marks = fingerprint.of(user.examples)
            parent[root(i)] = root(same.setdefault(marks[np.lexsort(marks.T)].tobytes(), i))

    for (i, j), count in _in_common(prints).items():
        if count >= _TWIN_LEAST and count > _TWIN_SHARE * sizes[i] and sizes[i] <= sizes[j]:
            parent[root(i)] = root(j)

    clients: dict[int, list[int]] = defaultdict(list)
    for i in range(len(users)):
        clients[root(i)].append(i)
    return tuple(tuple(group) for group in clients.values() if len(group) > 1)


def _in_common(prints: Sequence[fingerprint.Fingerprints]) -> Counter[tuple[int, int]]:
    """Count the examples of one user (first) of which another (second) has a copy."""
    pairs: set[tuple[int, int]] = set()  # (row, other user)
    owner = np.repeat(np.arange(len(prints)), [len(p) for p in prints])
    most = min(_COMMON_MOST, max(_COMMON_LEAST, _COMMON_SHARE * len(prints)))
    if not len(owner):
        return Counter()
    for band in np.concatenate([p for p in prints if len(p)]).T:
        order = np.argsort(band, kind="stable")
        starts = np.flatnonzero(np.diff(band[order])) + 1
        for rows in np.split(order, starts):
            if len(rows) < 2:
                continue
            holders = set(owner[rows].tolist())
            if 2 <= len(holders) <= most:
                pairs.update((row, other) for row in rows.tolist() for other in holders if other != owner[row])
    return Counter((int(owner[row]), other) for row, other in pairs)


def _act_on_twins(
    users: tuple[User, ...], plan: PopulationPlan, findings: list[Finding]
) -> tuple[tuple[User, ...], frozenset[UserId]]:
    found = twin_groups(users)
    if not found:
        return users, frozenset()
    count = sum(len(group) for group in found)
    done = {
        "drop": "the user with the most examples in each group is kept",
        "merge": "each group is merged into one user",
        "keep": "all are kept, so an attack cannot tell them apart and a twin's prior holds the victim's data",
    }[plan.twins]
    text = f"{count} users form {len(found)} group(s) that share most of their examples; {done}."
    if count > _MANY_TWINS * len(users):
        text += (
            " So many seldom have two accounts: rows that few columns tell apart, or the same occasions, look like "
            "this, too. Look at some groups, and set twins = 'keep' if they are different people."
        )
    groups = [[str(users[i].id) for i in group] for group in found]
    findings.append(Finding(kind="twins", count=len(found), action=plan.twins, text=text, users=groups))
    if plan.twins == "keep":
        return users, frozenset(users[i].id for group in found for i in group)
    instead: dict[int, User | None] = {}
    for group in found:
        # Most examples first, then the order of the data.
        ranked = sorted(group, key=lambda i: -len(users[i].examples))
        instead.update(dict.fromkeys(group))
        merged = plan.twins == "merge"
        instead[ranked[0]] = _merge([users[i] for i in ranked]) if merged else users[ranked[0]]
    kept = (instead.get(i, user) for i, user in enumerate(users))
    return tuple(user for user in kept if user is not None), frozenset()


def _merge(twins: Sequence[User]) -> User:
    """Merge twins into one user: everything of the first, and what the others have in addition."""
    first, *others = twins
    merged = first.examples
    for other in others:
        fresh = other.examples.take(~fingerprint.shared(fingerprint.of(other.examples), fingerprint.of(merged)))
        if not len(fresh):
            continue
        # Documents and albums are numbered per user: continue the numbering.
        shifted = {
            name: getattr(fresh, name) + getattr(merged, name).max() - getattr(fresh, name).min() + 1
            for name in ("document", "album")
            if getattr(fresh, name) is not None and getattr(merged, name) is not None
        }
        merged = Examples.concat([merged, replace(fresh, **shifted)])
    return replace(first, examples=merged)
