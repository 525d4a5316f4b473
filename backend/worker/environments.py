"""Finds out which of the configured environments really work, by asking them to describe
themselves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import structlog

from backend.worker import processes
from backend.worker.config import EnvironmentConfig
from backend.worker.executors.base import CannotStart, Environment, Quotas
from backend.worker.executors.launch import Request, Sandbox, variables

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


def try_inside(
    found: Iterable[Environment], sandbox: Sandbox, work: Path
) -> tuple[Environment, ...]:
    """Return those environments that also work shut in, where they see only what they named."""
    good = []
    for environment in found:
        why = _trial(environment, sandbox, work / "trial")
        if why is None:
            good.append(environment)
        else:
            why = f"it does not work in the sandbox (is a `bind` missing?): {why}"
            log.error("environment left out", name=environment.name, why=why)
    return tuple(good)


def _trial(environment: Environment, sandbox: Sandbox, folder: Path) -> str | None:
    """Let an environment describe itself inside the sandbox; return what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    request = Request(
        call="describe",
        folder=folder,
        environment=environment,
        cores=1,
        mark="trial",
        quotas=Quotas(),
    )
    try:
        started = sandbox.start(request)
    except CannotStart as error:
        return str(error)
    try:
        for pipe in (started.stdout, started.stderr):
            os.set_blocking(pipe.fileno(), True)
        told, said = started.process.communicate(timeout=PATIENCE)
        json.loads(told)
    except subprocess.TimeoutExpired:
        killed = processes.destroy(started.process.pid)
        started.process.wait()
        processes.wait_gone(killed)
        return f"no answer within {PATIENCE} s"
    except ValueError:
        return said.decode(errors="replace").strip()[-500:] or "it prints no JSON"
    finally:
        started.close()
        shutil.rmtree(folder, ignore_errors=True)
    return None


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
