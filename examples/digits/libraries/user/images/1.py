"""Describes grey images (0 to 16) by their cells."""

import numpy as np
import squares


def means(image, side):
    """Return the mean grey of each cell, 0 to 1."""
    grey = np.asarray(image, dtype=np.float64) / 16.0
    return squares.cells(grey, side).mean(axis=(1, 2))


def directions(image, side, bins):
    """Return, for each cell, how strong its edges are in each of `bins` directions.

    The whole is scaled to length 1, so that thin and thick strokes compare.
    """
    down, right = np.gradient(np.asarray(image, dtype=np.float64))
    strength = np.hypot(down, right)
    angle = np.arctan2(down, right) % (2 * np.pi)
    which = np.minimum((angle * bins / (2 * np.pi)).astype(int), bins - 1)
    histograms = [
        np.bincount(chosen.ravel(), weights=strong.ravel(), minlength=bins)
        for chosen, strong in zip(
            squares.cells(which, side), squares.cells(strength, side), strict=True
        )
    ]
    vector = np.concatenate(histograms)
    return vector / max(np.linalg.norm(vector), 1e-12)
