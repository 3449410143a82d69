"""Linking without training: the cosine similarity of two updates or of their representatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.link.base import Linker
from fedleak.attacks.link.representative_features import OfRepresentatives
from fedleak.core import FloatArray, Params
from fedleak.errors import AttackError, did_you_mean
from fedleak.federation.model import Model
from fedleak.views.view import View

__all__ = ["LinkCosine", "LinkRepresentativesCosine"]


@dataclass(frozen=True, kw_only=True)
class LinkCosine(Linker):
    """Compare one layer of two updates by cosine similarity: a baseline that learns only a threshold."""

    name: ClassVar[str] = "link-cosine"
    summary: ClassVar[str] = "Links two updates by the cosine similarity of their last layers, without training."

    layer: Annotated[str, Meta(description="layer of the update to use; `last` is the output layer")] = "last"

    def describe(self, view: View, model: Model, before: Params, updates: Params) -> FloatArray:
        """The layer as it is."""
        names = [part.name for part in model.layout]
        if self.layer != "last" and self.layer not in names:
            raise AttackError(f"the model has no layer '{self.layer}'{did_you_mean(self.layer, names)}")
        return np.asarray(updates[names[-1] if self.layer == "last" else self.layer], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class LinkRepresentativesCosine(OfRepresentatives):
    """Compare representatives pixel by pixel, class by class, without a network."""

    name: ClassVar[str] = "link-rep-cosine"
    summary: ClassVar[str] = "Links two updates by the cosine similarity of their representatives, without training."
