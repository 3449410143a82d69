"""What a plan can ask for where the federation was trained elsewhere, and why it cannot ask for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedleak.errors import PlanError
from fedleak.plan.plan import AuditPlan
from fedleak.plan.recorded_tables import PriorPlan, TruthPlan

if TYPE_CHECKING:
    from fedleak.games.game import Game

__all__ = ["TRAINING", "possible_controls", "refuse_untrained", "require", "missing_secrets"]

TRAINING = ("epochs", "batch", "lr", "optimizer", "clip", "train")  # keys of [federation] that say how a client trains
_INSTEAD = "`fedleak simulate-like RUN` writes a plan that trains such a federation, where it can be had"

# Table or list of a plan -> why a recorded run cannot have it.
_UNTRAINED: Mapping[str, str] = {
    "defence": "the clients of a recorded run have sent what they sent; a defence would change that",
    "inject": "a record cannot be injected into data that was trained on already",
    "imprint": "no layer can be inserted any more",
    "isolate": "no client can be isolated any more",
    "join": "no client can join any more",
    "proxy": "no client can join any more",
    "population": "its users and their data are as they were, and prior data is used as it is given",
    "record": "it is recorded already",
    "analysis": "analyses train federations of their own",
}


def refuse_untrained(top: Mapping[str, Any], source: str) -> None:
    """Reject what needs a federation that Fedleak trains itself."""
    for key, why in _UNTRAINED.items():
        if top.get(key):
            table = f"[[{key}]]" if key in ("defence", "analysis") else f"[{key}]"
            raise PlanError(f"{source} {table}: cannot be had on a recorded run ([trace]): {why}. {_INSTEAD}")
    if len(top.get("seeds", (0,))) > 1:
        raise PlanError(f"{source}: seeds: a recorded run ([trace]) happened once; give one seed. {_INSTEAD}")
    for key in top.get("federation", {}):
        if key not in TRAINING:
            raise PlanError(
                f"{source} [federation] {key}: a recorded run has its own; here the table only says how a client "
                f"trains ({', '.join(TRAINING)})"
            )
    if isinstance(top["model"], Mapping) and "buffers" in top["model"]:
        raise PlanError(
            f"{source} [model] buffers: a recorded run ([trace]) holds the running statistics that its clients sent, "
            "or none; remove the key"
        )
    if "dataset" in top and "data" in top.get("prior", {}):
        raise PlanError(
            f"{source} [prior] data: the plan has a table [dataset], too; prior data comes from one of them"
        )


def possible_controls(game: Game) -> tuple[str, ...]:
    """The controls of a game that need no other training than what was recorded.

    Where pooled data leaves nothing to find, so do the wrong owners; and where answers are compared with a user's data,
    it is then another's. Any other game that can be won from repeated data can be won whoever the users are.
    """
    others = tuple(name for name in game.controls if name not in ("iid", "fresh-data"))
    if "swapped-secrets" in others:  # which is the same control, and needs no attack to be run again
        return others
    wrong = game.needs_owners and ("iid" in game.controls or game.needs_evidence)
    return ("rotated-owners", *others) if wrong else others


def missing_secrets(truth: TruthPlan, prior: PriorPlan) -> list[str]:
    """What a plan does not say of the secrets in the clients' data, and how to say it.

    [truth] data may return a population that has all of it, as the data set text-clients does.
    """
    if truth.data is not None and truth.secrets is None:
        return []
    wanted = (
        (truth.secrets, "the secrets: [truth] secrets = a CSV file with the columns client and secret"),
        (prior.secret, 'their format: [prior] secret, for instance "my pin is {d4}"'),
        (prior.characters, 'the alphabet: [prior] characters = "module:callable", the character of each token id'),
    )
    return [what for given, what in wanted if given is None]


def require(
    games: Sequence[Game], truth: TruthPlan, prior: PriorPlan, top: Mapping[str, Any], audit: AuditPlan, source: str
) -> None:
    """Reject a game that needs to know more than the plan tells, and say what is missing."""
    known = prior.data is not None or "dataset" in top
    for game in games:
        if game.needs_owners and truth.owners is None:
            raise PlanError(
                f"{source} [truth]: game '{game.name}' asks about users, but the plan does not say whose client is "
                'whose; add owners = "key", or a CSV file with the columns client and user. Without it, link and '
                "disaggregate can be played, whose answers are in the recorded run itself"
            )
        if game.needs_prior and not known:
            raise PlanError(
                f"{source} [prior]: game '{game.name}' needs prior data of the users; add data = \"module:callable\", "
                "which returns {user: (x, y)}, or a table [dataset]"
            )
        if game.needs_prior is False and known and not getattr(game, "hides_prior", False):
            raise PlanError(
                f"{source} [prior]: would give the adversary users' data before game '{game.name}' asks for it; audit "
                "that game in a plan without prior data"
            )
        if getattr(game, "needs_members", False):
            raise PlanError(
                f"{source}: game '{game.name}' asks about records that clients did and did not train on, which a "
                "recorded run does not say; train one like it (fedleak simulate-like)"
            )
        if game.needs_evidence and truth.data is None:
            raise PlanError(
                f"{source} [truth]: answers to game '{game.name}' are compared with the clients' own data; add data = "
                '"module:callable", which returns {user: (x, y)}'
            )
        if "records" in getattr(game, "needs_data", ()) and (lacking := missing_secrets(truth, prior)):
            raise PlanError(f"{source}: game '{game.name}' asks for secrets, but the plan lacks {'; '.join(lacking)}")
    possible = {control for game in games for control in possible_controls(game)}
    for control in audit.controls:
        if control in ("iid", "fresh-data"):
            raise PlanError(
                f"{source} [audit] controls: '{control}' needs another training, which a recorded run ([trace]) cannot "
                f"have; possible here: {', '.join(sorted(possible)) or 'none'}. {_INSTEAD}"
            )
        if control not in possible:
            raise PlanError(
                f"{source} [audit] controls: no game of this plan has the control '{control}' on a recorded run; "
                f"possible: {', '.join(sorted(possible)) or 'none'}"
            )
