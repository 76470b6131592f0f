"""Whether a picture shows anything."""

from io import BytesIO

import numpy as np
from matplotlib.image import imread


def blank(png: bytes) -> bool:
    """Nearly all of it has one colour."""
    pixels = imread(BytesIO(png), format="png")
    colours, counts = np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0, return_counts=True)
    return len(colours) < 8 or bool(counts.max() > 0.995 * counts.sum())
