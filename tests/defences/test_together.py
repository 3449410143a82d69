"""Which defences can be combined, and on which models they act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from fedleak import registry
from fedleak.core import FloatArray, Params
from fedleak.defences.bkg_repl import BackgroundReplacement
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.defences.embedding_noise import EmbeddingNoise
from fedleak.defences.lstm_dropout import LstmDropout
from fedleak.defences.mm_aug import ModeAugmentation
from fedleak.defences.noise import Noise
from fedleak.defences.quantise import Quantise
from fedleak.defences.rand_aug import RandomAugmentation
from fedleak.defences.secure_aggregation import SecureAggregation
from fedleak.defences.shuffle import Shuffle
from fedleak.errors import PlanError
from fedleak.federation.hooks import Defence
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.together import check_together

SERVER = DpFedAvg(noise=1.0, where="server")


@dataclass(frozen=True, kw_only=True)
class Doubled(Defence):
    """Moves the server twice as far."""

    name: ClassVar[str] = "doubled"

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        return {layer: 2 * values for layer, values in aggregate.items()}


@pytest.mark.parametrize(
    "defences",
    [
        (RandomAugmentation(), ModeAugmentation(), BackgroundReplacement()),
        (Quantise(), SERVER, SecureAggregation()),
        (DpFedAvg(noise=1.0), Quantise(), Shuffle()),
        (SERVER, Doubled()),
        (DpSgd(noise=1.0), EmbeddingNoise(sigma=0.1), Clip(), Noise(sigma=1.0)),
    ],
)
def test_what_goes_together_is_let_through(defences: tuple[Any, ...]) -> None:
    check_together(defences, "plan [[defence]] 1")


@pytest.mark.parametrize(
    ("defences", "why"),
    [
        ((SERVER, Noise(sigma=1.0)), "'noise' changes updates after they were clipped"),
        ((Doubled(), SERVER), "'doubled' changes the mean before the noise"),
        ((SERVER, Quantise()), "'quantise' changes updates after they were clipped"),
        ((SecureAggregation(), Shuffle()), "which clients share masks"),
        ((Shuffle(), SecureAggregation()), "which clients share masks"),
        ((Noise(sigma=1.0), Noise(sigma=2.0)), "'noise' is listed twice"),
        ((DpSgd(noise=1.0), DpSgd(noise=2.0)), "'dp-sgd' is listed twice"),
    ],
)
def test_what_undoes_each_other_is_refused_with_the_reason(defences: tuple[Any, ...], why: str) -> None:
    with pytest.raises(PlanError, match=rf"plan \[\[defence\]\] 1: .*{why}"):
        check_together(defences, "plan [[defence]] 1")


@pytest.mark.parametrize(
    ("defence", "model"),
    [(EmbeddingNoise(sigma=0.1), Cnn()), (LstmDropout(), Cnn()), (LstmDropout(), Transformer())],
)
def test_a_defence_at_a_place_that_the_model_lacks_is_refused(defence: Any, model: Any) -> None:
    place = defence.places[0]
    with pytest.raises(PlanError, match=f"the output of the {place} layer, but model '{model.name}' has no such layer"):
        check_together([defence], "plan", model)
    check_together([defence], "plan", CharLm())


@pytest.mark.parametrize("name", registry.names("model"))
def test_an_architecture_has_the_places_of_the_models_it_builds(name: str) -> None:
    architecture = registry.load("model", name)
    texts = {"word-lm", "rating", "char-lm", "transformer"}
    assert bool(getattr(architecture, "places", ())) is (name in texts)
