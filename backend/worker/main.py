"""Starts a worker: reads its configuration, looks at the machine, and hands over to the agent."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from backend.worker import environments
from backend.worker.agent import REFUSED, Agent
from backend.worker.config import BadConfig, Config, read
from backend.worker.connection import Connection, Refused
from backend.worker.executors import spool
from backend.worker.executors.base import Executor
from backend.worker.executors.launch import Bare, Bubblewrap, Sandbox
from backend.worker.executors.process import ProcessExecutor
from backend.worker.folders import Folders, InUse
from backend.worker.messages import BadAnswer
from backend.worker.sandbox import bubblewrap, cgroups
from gristmill.errors import GristmillError

log = structlog.get_logger()
WRONG = 2  #: exit status when the worker cannot start as asked

WITHOUT_SANDBOX = """
*******************************************************************************
*  THIS WORKER RUNS JOBS WITHOUT A SANDBOX (--sandbox none).                  *
*  Everybody who may submit an experiment can read and change whatever this   *
*  user can on this machine. Use it only where all of them are trusted.       *
*******************************************************************************
"""


class NoSandbox(Exception):
    """Jobs cannot be shut in on this machine, and nobody said to go without."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is told to stop; return its exit status."""
    log_to_stderr()
    try:
        config = read(sys.argv[1:] if argv is None else argv, os.environ, sys.executable)
        # the credential is ours alone now; programs that we start must not find it
        os.environ.pop("GRISTMILL_WORKER_TOKEN", None)
        return run(config)
    except (BadConfig, NoSandbox, InUse) as error:
        sys.stderr.write(f"gristmill worker: {error}\n")
        return WRONG
    except (Refused, BadAnswer) as error:
        sys.stderr.write(f"gristmill worker: the server refuses this worker: {error}\n")
        return REFUSED


def run(config: Config) -> int:
    """Run a worker with this configuration."""
    sandbox = choose_sandbox(config)
    folders = Folders(config.work)
    outlive = config.executor != "process"
    folders.take(keep=spool.attempts(config.work) if outlive else None)
    described = environments.find(config.environments)
    found = environments.try_inside(described, sandbox, config.work)
    if not found:
        raise BadConfig("no environment works on this machine, so there is nothing to offer")
    executor = _cluster(config) if outlive else _process(config, sandbox)
    connection = Connection(config.server)
    agent = Agent(config, socket.gethostname(), found, executor, folders, connection)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.drain())
    try:
        return agent.run()
    finally:
        connection.close()
        folders.release()


def _process(config: Config, sandbox: Sandbox) -> Executor:
    groups = cgroups.probe(config.cgroup)
    groups.sweep()
    return ProcessExecutor(config.work, sandbox, groups, config.quotas, config.standby)


def _cluster(config: Config) -> Executor:
    # the library's client is only loaded where a manager is used
    from backend.worker.executors.cluster import connected

    try:
        return connected(config)
    except GristmillError as error:
        raise BadConfig(f"executor {config.executor!r}: {error}") from error


def choose_sandbox(config: Config) -> Sandbox:
    """Return the sandbox asked for. Raises NoSandbox where there is none."""
    if config.sandbox == "none":
        sys.stderr.write(WITHOUT_SANDBOX)
        log.warning("no sandbox: jobs are not shut in", sandbox="none")
        return Bare()
    problem = bubblewrap.problem()
    if problem is not None:
        raise NoSandbox(
            f"{problem}. Jobs would not be shut in. Install bubblewrap and allow user "
            "namespaces, or, where everybody is trusted, start with --sandbox none"
        )
    return Bubblewrap(hidden(config))


def hidden(config: Config) -> tuple[Path, ...]:
    """Return the folders that no job may see."""
    own = (config.work, config.cache, config.token_file)
    return tuple(path for path in own if path is not None)


def log_to_stderr() -> None:
    """Log JSON lines to standard error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
