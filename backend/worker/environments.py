"""Finds out which of the configured environments really work, by asking them to describe
themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

import structlog

from backend.worker.config import EnvironmentConfig
from backend.worker.executors.base import Environment
from backend.worker.executors.launch import variables

log = structlog.get_logger()
PATIENCE = 120  #: seconds that `describe` may take, on a cold disk


class Unusable(Exception):
    """An environment does not answer as the Sandboxing API asks."""


def find(configured: Iterable[EnvironmentConfig]) -> tuple[Environment, ...]:
    """Return the environments that work; say of the others why not."""
    found: dict[tuple[str, str], Environment] = {}
    for entry in configured:
        try:
            environment = describe(entry)
        except Unusable as error:
            log.error("environment left out", executable=entry.executable, why=str(error))
            continue
        found.setdefault((environment.name, environment.version), environment)
    return tuple(found.values())


def describe(entry: EnvironmentConfig) -> Environment:
    """Ask one environment what it is. Raises Unusable."""
    told = _ask(entry)
    name, version = entry.name or told.get("name"), entry.version or told.get("version")
    if not name or not version:
        raise Unusable("it tells no name and version, and the configuration gives none")
    packages = told.get("packages") or {}
    return Environment(
        name=str(name),
        version=str(version),
        os=str(told.get("os", "")),
        packages={str(package): str(number) for package, number in packages.items()},
        executable=entry.executable,
        binds=(*entry.bind, *map(str, told.get("paths") or ())),
        standby=told.get("standby") is True,
    )


def _ask(entry: EnvironmentConfig) -> dict[str, Any]:
    try:
        answer = subprocess.run(
            [*entry.executable, "describe"],
            env=variables(1, "/nonexistent"),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        told = json.loads(answer.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"it cannot be started: {error}") from error
    except ValueError as error:
        said = answer.stderr.decode(errors="replace").strip()[-500:]
        raise Unusable(f"`describe` prints no JSON (status {answer.returncode}): {said}") from error
    if not isinstance(told, dict):
        raise Unusable("`describe` prints no JSON object")
    return told
