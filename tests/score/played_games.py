"""Made-up attacks on games whose truth is known, with users who differ and updates that go together."""

from __future__ import annotations

import numpy as np

from fedleak.core import IntArray
from fedleak.score.score import AttackResult


def users(count: int, prefix: str = "u") -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(count))


def sent(rng: np.random.Generator, count: int, most: int = 8) -> IntArray:
    """Who sent each update: everyone at least one."""
    return np.repeat(np.arange(count), rng.integers(1, most, size=count))


def profile(seed: int, skill: float, count: int = 30, fitting: int = 10, prefix: str = "u") -> AttackResult:
    """Whoever fits gets higher claims; claims about one user go together whether they fit or not."""
    rng = np.random.default_rng(seed)
    fits = rng.permutation(np.arange(count) < fitting).astype(np.int64)
    who = sent(rng, count)
    claims = (skill * fits + rng.normal(size=count))[who] + rng.normal(size=len(who))
    return AttackResult(
        seed, claims[:, None].astype(np.float32), fits[who], ("fits",), "profile", who, users(count, prefix)
    )


def match(seed: int, skill: float, count: int = 20, pairs: int = 200) -> AttackResult:
    """Some users are easier to match than others, and some look like everybody."""
    rng = np.random.default_rng(seed)
    right = np.arange(pairs) % 2
    first = rng.integers(count, size=pairs)
    second = np.where(right == 1, first, (first + rng.integers(1, count, size=pairs)) % count)
    common, own = 0.4 * rng.normal(size=count), rng.gamma(2.0, 0.5, size=count)
    claims = skill * right * own[first] + common[first] + common[second] + rng.normal(size=pairs)
    who = np.stack([first, second], axis=1)
    return AttackResult(seed, claims[:, None].astype(np.float32), right, ("same",), "match", who, users(count))


def attribute(seed: int, skill: float, count: int = 30) -> AttackResult:
    """Three groups, the largest with half of the users."""
    rng = np.random.default_rng(seed)
    value = rng.permutation(np.repeat([0, 1, 2], [count // 2, count // 3, count - count // 2 - count // 3]))
    who = sent(rng, count)
    claims = (skill * np.eye(3)[value] + rng.normal(size=(count, 3)))[who] + rng.normal(size=(len(who), 3))
    return AttackResult(seed, claims.astype(np.float32), value[who], ("a", "b", "c"), "attribute", who, users(count))


def open_world(seed: int, skill: float, seen: int = 8, unseen: int = 8) -> AttackResult:
    """Updates of seen users deserve their name, those of others `unseen`."""
    rng = np.random.default_rng(seed)
    who = sent(rng, seen + unseen)
    right = np.minimum(who, seen)
    claims = rng.normal(size=(seen + unseen, seen + 1))[who] + 0.5 * rng.normal(size=(len(who), seen + 1))
    claims[np.arange(len(who)), right] += skill
    names = users(seen + unseen)
    return AttackResult(seed, claims.astype(np.float32), right, (*names[:seen], "unseen"), "identify", who, names)
