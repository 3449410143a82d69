"""NVFlare's filter that leaves layers out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Params
from fedleak.errors import TrainingError
from fedleak.federation.hooks import Defence

__all__ = ["NvflareExcludeVars"]


@dataclass(frozen=True, kw_only=True)
class NvflareExcludeVars(Defence):
    """NVFlare's ExcludeVars: some layers are not sent, so the shared model keeps what it began with there.

    A layer that is left out arrives as zeros here, and counts as such in the mean.
    """

    name: ClassVar[str] = "nvflare-exclude-vars"
    summary: ClassVar[str] = "Leaves layers out of what each client sends, as NVFlare's ExcludeVars does."
    no_epsilon: ClassVar[str] = "the layers that are sent are sent without noise"

    exclude_vars: Annotated[
        tuple[str, ...] | str,
        Meta(description="names of layers, or a regular expression that is searched in the names of layers"),
    ]

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Send zeros for the layers that match."""
        left_out = {layer for layer in update if self._matches(layer)}
        if not left_out:
            raise TrainingError(
                f"defence '{self.name}': no layer matches exclude_vars = {self.exclude_vars!r}; the layers are "
                f"{', '.join(update)}"
            )
        return {layer: np.zeros_like(values) if layer in left_out else values for layer, values in update.items()}

    def _matches(self, layer: str) -> bool:
        if isinstance(self.exclude_vars, str):
            return re.search(self.exclude_vars, layer) is not None
        return layer in self.exclude_vars
