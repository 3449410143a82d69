"""Users under their pseudonyms, wherever a result would name them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.identification import UNSEEN
from fedleak.population.finding import Finding
from fedleak.trace.pseudonyms import Pseudonyms

__all__ = ["under_pseudonyms", "hidden_users"]


def under_pseudonyms(played: AttackResult, names: Pseudonyms, unit: str = "user") -> AttackResult:
    """The same predictions and answers about users with pseudonyms.

    Options are users where all of them are users of the questions; otherwise they are values, which stay as they are.
    """
    known = {name: names.of(name, unit) for name in played.users}
    offered = [option for option in played.options if option != UNSEEN]
    options = played.options
    if not known or set(offered) <= set(known):
        options = tuple(option if option == UNSEEN else names.of(option, unit) for option in options)
    users = tuple(known[name] for name in played.users)
    answers = None if played.answers is None else replace(played.answers, users=users)
    return replace(played, options=options, users=users, answers=answers)


def hidden_users(finding: Finding, names: Pseudonyms) -> Finding:
    """A finding of the data checks without the names of the users that it is about."""
    groups = [[names.of(user) for user in group] for group in finding.users]
    return msgspec.structs.replace(finding, users=groups)
