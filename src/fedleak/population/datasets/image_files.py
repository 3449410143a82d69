"""Reading images: any size and mode in, a fixed size out, and a clear error for what is no image."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from fedleak.errors import DataError

__all__ = ["ENDINGS", "read_image"]

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".pgm", ".ppm"})
_FORMATS = ("PNG", "JPEG", "PPM")  # Pillow's PPM reads PGM too; its many other readers are not let near the files


def read_image(file: Path, size: int, *, colour: bool, content: bytes | None = None) -> npt.NDArray[np.float32]:
    """Read an image as (channel, size, size) with values in [0, 1]; `content` is of a file that lies in an archive."""
    try:
        with warnings.catch_warnings():
            # Pillow only warns of an image that is small on disk and enormous in memory.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file if content is None else io.BytesIO(content), formats=_FORMATS) as opened:
                image: Image.Image = ImageOps.exif_transpose(opened)
                if image.mode.startswith("I"):  # 16 bits, which Pillow would clip rather than scale
                    image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).astype(np.uint8))
                image = image.convert("RGB" if colour else "L")
                image = image.resize((size, size), Image.Resampling.BILINEAR)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{file}: too large an image ({error}); make it smaller or remove it") from error
    # A damaged image may fail anywhere within Pillow, hence its whole range of errors.
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError) as error:
        raise DataError(f"{file}: not a readable PNG, JPEG or PGM image ({error}); replace or remove it") from error
    values = np.asarray(image, dtype=np.float32) / np.float32(255)
    return np.moveaxis(values.reshape(size, size, -1), -1, 0)
