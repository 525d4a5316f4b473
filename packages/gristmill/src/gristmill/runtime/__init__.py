"""The Python environment executable: runs one block's algorithm inside the sandbox.

User code may call `gristmill.runtime.progress(fraction, message)`; all else it is handed.
"""

from __future__ import annotations


def progress(fraction: float, message: str | None = None) -> None:
    """Tell whoever watches the block how much of it is done (0 to 1), and what it does now."""
    from gristmill.runtime import messages

    messages.current.progress(fraction, message)
