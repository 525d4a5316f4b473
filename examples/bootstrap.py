"""Fill a running server with what the example needs; what is there already is left as it is.

    GRISTMILL_PASSWORD=… python examples/bootstrap.py URL --data FOLDER --environment PYTHON

Signs in as `--admin` and makes: the environment `Python 1`, the queues `default` and `long`, a
group with a right, the user `demo`, a credential for the worker `local`, and, as `demo`, the
declarations of the handwritten-digits example. Writes into FOLDER, readable by its owner only:
`demo-password`, `worker-token` and `worker.toml`.

With `--experiment`, also the experiment of the example. It asks for two slots of `default`, which
are there once the worker is: this waits for it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gristmill.client import Client
from gristmill.errors import GristmillError
from gristmill.formats import configured
from gristmill.prefixes import owned_by, read_prefix

DIGITS = Path(__file__).resolve().parent / "digits"
ENVIRONMENT = {
    "name": "Python",
    "version": "1",
    "description": "Python with numpy, pyarrow and scikit-learn.",
}
QUEUES: tuple[dict[str, Any], ...] = (
    {
        "name": "default",
        "description": "For most blocks.",
        "memory_mb": 1024,
        "time_limit_seconds": 3600,
        "slots_per_worker": 4,
    },
    {
        "name": "long",
        "description": "For blocks that take a day or much memory.",
        "memory_mb": 4096,
        "time_limit_seconds": 24 * 3600,
        "slots_per_worker": 1,
    },
)
#: (group, queue) -> slots, priority
RIGHTS = {
    ("default", "default"): (4, 0),
    ("research", "default"): (4, 1),
    ("research", "long"): (1, 0),
}
WORKER = "local"
DEMO = "demo"
WORKER_SECONDS = 60  #: until the first worker must be there


class NoWorker(GristmillError):
    """No worker came to give the queue its slots."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the administrator's part leaves."""

    demo_password: str


def administer(client: Client, data: Path) -> Made:
    """Make environment, queues, rights, the demo user and the worker's credential."""
    environment = client.ensure("/environments", ENVIRONMENT, by=("name", "version"))
    groups = {group["name"]: group for group in client.items("/groups")}
    groups["research"] = client.ensure("/groups", {"name": "research"})
    queues = {
        queue["name"]: client.ensure("/queues", queue | {"environment_ids": [environment["id"]]})
        for queue in QUEUES
    }
    given = {(right["group"], right["queue"]) for right in client.items("/rights")}
    for (group, queue), (slots, priority) in RIGHTS.items():
        if (group, queue) not in given:
            client.set_right(
                groups[group]["id"], queues[queue]["id"], slots=slots, priority=priority
            )
    password = secret(data / "demo-password")
    user = client.ensure("/users", {"username": DEMO, "password": password}, by=("username",))
    client.add_member(groups["research"]["id"], user["id"])
    if not (data / "worker-token").exists():
        keep(data / "worker-token", client.create_worker_credential(WORKER))
    return Made(password)


def publish_example(client: Client) -> str:
    """Publish the digits; say what was done."""
    published = client.publish(DIGITS)
    return f"{len(published.created)} declarations published, {len(published.unchanged)} were there"


def create_experiment(client: Client) -> str:
    """Create the experiment of the digits, once; say what was done."""
    [one] = owned_by(read_prefix(DIGITS), client.me().username).experiments
    if any(found.name == one.name for found in client.experiments(q=one.name)):
        return f"the experiment {one.name!r} is there already"
    wait_for_slots(client, max(each.slots for each in configured(one.declaration)))
    client.create_experiment(one.name, toolchain=one.toolchain, declaration=one.declaration)
    return f"the experiment {one.name!r} is made"


def wait_for_slots(client: Client, slots: int) -> None:
    """Return when the queue `default` has so many slots for the user: when a worker is there."""
    for _ in range(WORKER_SECONDS * 5):
        if any(queue.name == "default" and queue.slots >= slots for queue in client.my_queues()):
            return
        time.sleep(0.2)
    raise NoWorker(
        f"no worker with {slots} slots came within {WORKER_SECONDS} seconds; see its log"
    )


def worker_file(data: Path, python: Path) -> str:
    """Return the configuration of the worker that runs beside the server."""
    text = json.dumps  # TOML's basic strings are JSON's
    return (
        f"name = {text(WORKER)}\n"
        f"token_file = {text(str(data / 'worker-token'))}\n\n"
        "[[environment]]\n"
        f"name = {text(ENVIRONMENT['name'])}\n"
        f"version = {text(ENVIRONMENT['version'])}\n"
        f"executable = [{text(str(python))}, '-m', 'gristmill.runtime']\n"
    )


def secret(path: Path) -> str:
    """Return the secret that a file keeps, made at first use."""
    if not path.exists():
        keep(path, secrets.token_urlsafe(12))
    return path.read_text(encoding="utf-8").strip()


def keep(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def main() -> int:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("url")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder for secrets and worker.toml"
    )
    parser.add_argument("--environment", type=Path, required=True, help="its Python")
    parser.add_argument("--admin", default="admin", help="username; password in GRISTMILL_PASSWORD")
    parser.add_argument("--experiment", action="store_true", help="make the experiment too")
    arguments = parser.parse_args()
    password = os.environ.get("GRISTMILL_PASSWORD")
    if not password:
        parser.error("set GRISTMILL_PASSWORD to the administrator's password")
    try:
        with Client(arguments.url) as admin:
            admin.sign_in(arguments.admin, password)
            made = administer(admin, arguments.data)
        keep(arguments.data / "worker.toml", worker_file(arguments.data, arguments.environment))
        with Client(arguments.url) as demo:
            demo.sign_in(DEMO, made.demo_password)
            print(f"As {DEMO}: {publish_example(demo)}")
            if arguments.experiment:
                print(f"As {DEMO}: {create_experiment(demo)}")
    except GristmillError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
