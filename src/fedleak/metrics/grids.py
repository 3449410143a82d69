"""Image grids for the report: a victim's real images, and the reconstructed ones below."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from fedleak.core import FloatArray
from fedleak.metrics.attack_result import AttackResult
from fedleak.results.detail import Grid

__all__ = ["grids"]

_ACROSS, _DOWN, _VICTIMS = 12, 2, 8
_SIDE = 40  # pixels of an image, at least


def grids(one: AttackResult) -> list[Grid]:
    """A grid for each of the first victims: a row of real images, and rows of predictions."""
    assert one.evidence is not None, "images are shown beside the evidence"
    found = []
    for claims, user in list(zip(one.claims, one.about[:, 0], strict=True))[:_VICTIMS]:
        held = one.evidence.held.examples[user].x
        shown = held[np.linspace(0, len(held) - 1, min(_ACROSS, len(held))).astype(int)]
        rows = [shown, *(claims[row * _ACROSS : (row + 1) * _ACROSS] for row in range(_DOWN))]
        found.append(Grid(user=one.users[user], png=base64.b64encode(png([r for r in rows if len(r)])).decode()))
    return sorted(found, key=lambda grid: grid.user)  # by name, so that pseudonyms are in no telling order


def png(rows: list[FloatArray]) -> bytes:
    """Rows of images (n, channels, height, width) as one image."""
    channels, height, width = rows[0].shape[1:]
    scale = max(1, -(-_SIDE // height))
    gap = 2
    sheet = np.ones((len(rows) * (height + gap), _ACROSS * (width + gap), channels), dtype=np.float32)
    for i, row in enumerate(rows):
        for k, image in enumerate(row[:_ACROSS]):
            top, left = i * (height + gap), k * (width + gap)
            sheet[top : top + height, left : left + width] = np.clip(image, 0, 1).transpose(1, 2, 0)
    whole = (sheet * 255).astype(np.uint8)
    sheet_image = Image.fromarray(whole[..., 0] if channels == 1 else whole[..., :3])
    buffer = io.BytesIO()
    sheet_image.resize((sheet_image.width * scale, sheet_image.height * scale), Image.Resampling.NEAREST).save(
        buffer, "PNG"
    )
    return buffer.getvalue()
