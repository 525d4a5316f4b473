"""Folders that user code wrote into: it may nest them deeper than Python's own calls can follow."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

LONGEST = 3000  #: characters of a path that are followed; the kernel takes 4095


def use(folder: Path, limit: int, skipped: frozenset[str]) -> tuple[int, int]:
    """Return bytes and number of files below a folder; holes count, since copies fill them.

    Not counted: what `skipped` names at the top. Counting ends past `limit` files; what is nested
    too deep to be looked at counts as more than that.
    """
    size, files = 0, 0
    waiting = [(str(folder), skipped)]
    while waiting and files <= limit:
        path, left_out = waiting.pop()
        if len(path) > LONGEST:
            return size, limit + 1
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in left_out:
                        waiting.append((entry.path, frozenset()))
                else:
                    found = entry.stat(follow_symlinks=False)
                    size += max(found.st_blocks * 512, found.st_size)
                files += 1
    return size, files


def remove(folder: Path) -> None:
    """Remove a folder, however deep and whatever its modes; never raises."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
    if not folder.is_dir():
        return
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):  # these go from folder to folder
        with contextlib.suppress(OSError):
            subprocess.run([*command, "--", str(folder)], check=False, stderr=subprocess.DEVNULL)
