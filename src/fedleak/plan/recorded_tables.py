"""The tables of a plan about a run that another framework trained and a recorder wrote down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

__all__ = ["TracePlan", "TruthPlan", "PriorPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePlan:
    """A run that Fedleak did not train but recorded, in Flower, NVFlare or pfl.

    With this table nothing is trained but the auditor's own imitation of the clients, on the recorded models.
    """

    path: Annotated[str, Meta(min_length=1, description="the folder that a recorder wrote")]
    shadow_rounds: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="in how many rounds the prior data of each candidate is trained; about as many as a client "
                "takes part in, and at least 4, if absent",
            ),
        ]
        | None
    ) = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthPlan:
    """Who is who in a recorded run; only for scoring, no attack sees it."""

    owners: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="whose client is whose. key: the partition id is the user's name (without `identify`, the "
                "id of the node); a CSV file with the columns client and user, where client is a pseudonym, a "
                "partition id or a node id, and several lines of one client are several users behind it; or "
                "`module:callable`, which returns such a dict. Without it only games are played that need no "
                "user, such as link",
            ),
        ]
        | None
    ) = None
    unit: Annotated[
        Literal["user", "client"],
        Meta(
            description="what games ask for, where the owners name several users of one client (a hospital with its "
            "patients). client: which client sent an update; it stands for all users behind it, and their prior data "
            "is its own. user: whether a client holds a user's data, in games that can ask this (match, between = "
            '"prior"). With one user per client both are the same'
        ),
    ] = "user"
    data: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="`module:callable` -> {user: (x, y)}: what clients trained on, for games whose answers are "
                "compared with it (reconstruct)",
            ),
        ]
        | None
    ) = None
    secrets: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="which secret is in which client's data, for the game extract: a CSV file with the columns "
                "client and secret, or `module:callable`, which returns such a dict; clients are named as in owners. "
                "Every secret has the format that [prior] secret gives. Neither an attack nor a report gets them",
            ),
        ]
        | None
    ) = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorPlan:
    """What the adversary already knows about the users of a recorded run."""

    data: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="`module:callable` -> {user: (x, y)}, as in `fedleak.ArrayDataset`; with a table [dataset] "
                "instead, all data of its users",
            ),
        ]
        | None
    ) = None
    background: (
        Annotated[str, Meta(min_length=1, description="`module:callable` -> (x, y) of other users, the auxiliary set")]
        | None
    ) = None
    secret: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="the format of the secrets, which the adversary knows: text with slots, as in [dataset] "
                "text-clients",
            ),
        ]
        | None
    ) = None
    words: Annotated[tuple[str, ...], Meta(description="the values of the slot {word}")] = ()
    characters: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="the alphabet of a language model over characters: `module:callable` -> the character of "
                "each token id, as a list, or {character: id}",
            ),
        ]
        | None
    ) = None
    context: Annotated[
        str, Meta(min_length=1, max_length=256, description="the text before a secret, such as the end of a line")
    ] = "\n"
    watermarks: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="records that the adversary got into clients' data before the run, for the attack "
                "watermark: a CSV file with the columns client and watermark, or `module:callable`, which returns such "
                "a dict",
            ),
        ]
        | None
    ) = None
