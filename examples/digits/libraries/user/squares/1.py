"""Cuts images into square cells."""


def cells(image, side):
    """Return the cells of an image, rows first, as an array of shape (cells, side, side)."""
    height, width = image.shape
    if height % side or width % side:
        raise ValueError(f"an image of {height} by {width} has no whole cells of {side} by {side}")
    cut = image.reshape(height // side, side, width // side, side)
    return cut.swapaxes(1, 2).reshape(-1, side, side)
