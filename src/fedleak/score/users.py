"""What an attack of a plan does to single users."""

from __future__ import annotations

from collections.abc import Sequence

from fedleak.games.game import Game
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.per_user import user_tail
from fedleak.plan.plan import Plan
from fedleak.results.users import UserTail
from fedleak.views.adversaries import Adversary

__all__ = ["tail_of"]


def tail_of(plan: Plan, played: Sequence[AttackResult], game: Game, adversary: Adversary) -> UserTail | None:
    """The users of one attack on one run; None where the game does not score single users.

    The report picks one attack on a question, so the intervals and the test are corrected for all of them.
    """
    each = game.metrics[0].each_user
    if any(one.behind is not None for one in played):
        return None  # users of one client share its updates: none of them has a score of their own
    if each is None or game.metrics[0].applies(played) is not True:
        return None
    attacks = sum(asked == game and by.name == adversary.name for _, asked, by in plan.plays)
    return user_tail(played, each, level=plan.audit.level, permutations=plan.audit.permutations, attacks=attacks)
