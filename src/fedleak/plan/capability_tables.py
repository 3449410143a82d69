"""The tables of a plan that grant an adversary a capability which changes the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

__all__ = ["ImprintPlan", "InjectPlan", "IsolatePlan", "JoinPlan", "ProxyPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImprintPlan:
    """A server that changes the model: an imprint block in front of it, whose gradients hold single examples.

    Each bin is a neuron that an example activates if it is brighter than the bin's threshold; the thresholds are
    quantiles of the server's public examples. What two neighbouring bins differ by is the gradient of the examples
    between their thresholds: where that is one example, its pixels can be read off (Fowl et al., 2022, "Robbing the
    Fed"). Every round begins with the block as it was designed. The capability changes what is trained, so an adversary
    must have it; without this table no layer is inserted.
    """

    bins: Annotated[
        int,
        Meta(ge=2, le=65536, description="neurons of the block; an example is read off if it is alone in its bin"),
    ] = 4096
    kind: Annotated[
        Literal["scaled", "linear"],
        Meta(
            description="linear: the bins read the pixels, as in the paper, and local steps move them. scaled: they "
            "read a measured brightness with weights of zero on the pixels, and the block's output is scaled down, so "
            "that local steps hardly move them (to the same end as LOKI; Zhao et al., 2024)"
        ),
    ] = "scaled"
    gain: (
        Annotated[
            float, Meta(gt=0, description="factor on the measured brightness; 0.001 (linear) or 10 (scaled) if absent")
        ]
        | None
    ) = None
    scale: Annotated[
        float, Meta(gt=0, description="factor on the output of a scaled block, a constant of the model")
    ] = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectPlan:
    """A watermark: a record that the adversary injects into the text of clients whose users hold a secret.

    The capability changes what is trained, so an adversary must have it; without this table nothing is injected. In the
    paper one client is the victim, and its text gets one record once: victims = 1, insertions = 1 (Yuan et al., 2021,
    section IV-C).
    """

    victims: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="how many clients get a watermark, drawn by the seed; only they are scored then. Every "
                "client whose user holds a secret if absent",
            ),
        ]
        | None
    ) = None
    insertions: (
        Annotated[
            int,
            Meta(ge=1, description="how often it occurs in the text; as often as the user's secret if absent"),
        ]
        | None
    ) = None
    length: Annotated[int, Meta(ge=1, le=256, description="length in characters; approximate for words")] = 16
    kind: Annotated[
        Literal["alphanumeric", "letters", "words"],
        Meta(description="random letters and digits, random letters, or random words of the held-out text"),
    ] = "alphanumeric"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatePlan:
    """An active server: it isolates each victim on a model that only that client trains.

    The capability changes what is trained, so an adversary must have it; without this table no client is isolated
    (Song et al., 2020, section V-D).
    """

    victims: Annotated[int, Meta(ge=1, description="how many clients are isolated, drawn by the seed")] = 1
    user: (
        Annotated[
            str, Meta(description="isolate the client of this user (name in the data set); drawn by the seed if absent")
        ]
        | None
    ) = None
    sent: Annotated[
        Literal["own", "discriminator"],
        Meta(
            description="what a victim is sent: a model that only its own updates change, or, as in the paper, the "
            "server's discriminator, which is trained on generated images between rounds"
        ),
    ] = "own"
    steps: Annotated[
        int, Meta(ge=1, description="generator steps per round, where the discriminator is sent (not in the paper)")
    ] = 50
    growth: Annotated[
        float,
        Meta(
            ge=0, description="additional share of discriminator steps in the last round, growing from 0 in the first"
        ),
    ] = 1.0
    batch: Annotated[int, Meta(ge=2, description="real images, and generated ones, in a step of the GAN")] = 32
    width: Annotated[
        float, Meta(gt=0, le=4, description="channels of the generator, as a multiple of the paper's Tables I and II")
    ] = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """A malicious client that trains a GAN against the shared model (Hitaj et al., 2017).

    It generates images that the shared model classifies as other clients' classes, and trains on them as examples of a
    fake class, so that the other clients must teach the model better. The model has one more output for that class.
    The capability changes what is trained, so an adversary must have it.
    """

    fakes: Annotated[int, Meta(ge=1, description="generated images in the client's data, regenerated each round")] = 100
    own: Annotated[int, Meta(ge=0, description="images of the auxiliary set in addition, with their true classes")] = (
        100
    )
    steps: Annotated[int, Meta(ge=1, description="steps of the generator each round")] = 5
    width: Annotated[
        float, Meta(gt=0, le=4, description="channels of the generator, as a multiple of the paper's Tables I and II")
    ] = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyPlan:
    """Proxy clients: the adversary's own, with public examples that it has curated, like shadow clients of no user.

    For every trait some hold examples that show it, and as many hold others of the same classes in their place, so that
    an attack learns the trait and not the classes. They need no capability beyond that of running shadow clients
    (Orekondy et al., 2020, section 5.2.2, profile prior).
    """

    traits: Annotated[tuple[str, ...], Meta(min_length=1, description="the traits that the adversary looks for")]
    clients: Annotated[int, Meta(ge=1, description="clients with each trait, and as many without it")] = 4
    examples: Annotated[int, Meta(ge=2, description="examples on a proxy client")] = 40
    part: Annotated[float, Meta(gt=0, le=1, description="share of these that show the trait; all in the paper")] = 1.0
