"""What this environment is: its name and version, the system, the packages, the folders it needs.

Name and version stand in `gristmill-environment.json` in the environment's own folder
(`sys.prefix`), where somebody put one; otherwise they are Python's.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Return what `EXECUTABLE describe` prints."""
    return {
        **_name(Path(sys.prefix) / "gristmill-environment.json"),
        "os": _os(),
        "packages": _packages(),
        "paths": _paths(),
        "standby": True,
    }


def _name(path: Path) -> dict[str, str]:
    own = {"name": "Python", "version": f"{sys.version_info.major}.{sys.version_info.minor}"}
    if path.is_file():
        given = json.loads(path.read_text())
        own.update({key: str(given[key]) for key in own if key in given})
    return own


def _os() -> str:
    try:
        release = platform.freedesktop_os_release()
        return f"{release.get('PRETTY_NAME', 'Linux')} ({platform.machine()})"
    except OSError:
        return f"{platform.system()} {platform.release()} ({platform.machine()})"


def _packages() -> dict[str, str]:
    from importlib.metadata import distributions

    found = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    return {"python": platform.python_version(), **dict(sorted(found.items()))}


def _paths() -> list[str]:
    """Folders that the interpreter reads: its prefixes and this package, wherever installed."""
    import gristmill

    package = Path(str(gristmill.__file__)).resolve().parent.parent
    folders = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix), package}
    return sorted(
        str(folder)
        for folder in folders
        if not any(other != folder and folder.is_relative_to(other) for other in folders)
    )
