"""Run Gristmill here: server with its own database, one worker, the example. Ctrl-C ends all.

Settings: GRISTMILL_DATA (default .gristmill/data), GRISTMILL_PORT (default 8000, or the next free
one). Started by `make up`, which has installed everything before.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("GRISTMILL_DATA", ROOT / ".gristmill/data")).resolve()
ENVIRONMENT = ROOT / ".gristmill/environments/python/bin/python"
FIRST_PORT = int(os.environ.get("GRISTMILL_PORT", "8000"))
ADMIN = "admin"
GREETING = """
  Gristmill runs at {url}

    sign in as   demo    with the password   {demo_password}    (has the example experiment)
    or as        admin   with the password   {admin_password}

  Logs are in {data}; Ctrl-C stops everything.
"""


def free_port() -> int:
    """Return the first free port from FIRST_PORT on."""
    for port in range(FIRST_PORT, FIRST_PORT + 50):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    sys.exit(f"No free port from {FIRST_PORT} to {FIRST_PORT + 49}: set GRISTMILL_PORT.")


def secret_file(name: str, make: bool = True) -> str:
    """Return the secret kept in the data folder, made at first use; only its owner reads it."""
    path = DATA / name
    if not path.exists() and make:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(12))
    return path.read_text().strip()


def wait_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return when the server answers /readyz; exit when it ends instead."""
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"The server ended with status {server.returncode}; see {DATA}/server.log.")
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"The server did not become ready in a minute; see {DATA}/server.log.")


def die_with_parent() -> None:
    """Have the kernel send SIGTERM when `make up` is gone, even killed (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def start(name: str, command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a part of the product in a session of its own, its output in <data>/<name>.log."""
    with (DATA / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=env, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent,
        )  # fmt: skip


def run_filling(command: list[str], env: dict[str, str]) -> None:
    """Add what the example needs; an older server's data may refuse parts of it, and goes on."""
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=False)
    if done.returncode and not (DATA / "worker.toml").exists():
        sys.exit("The example could not be set up (see above), and there is no worker.toml yet.")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a part to end, and wait for it."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()


def main() -> int:
    """Run until Ctrl-C, SIGTERM, or the end of a part."""
    DATA.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "GRISTMILL_DATA": str(DATA),
        "GRISTMILL_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
    }
    password = secret_file("admin-password")
    parts: list[subprocess.Popen[bytes]] = []
    try:
        server = start("server", ["-m", "backend.app", "serve"], env)
        parts.append(server)
        wait_ready(url, server)
        subprocess.run(
            [sys.executable, "-m", "backend.app", "create-admin", ADMIN, "--if-missing"],
            cwd=ROOT, env=env, input=password.encode(), check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        fill = [sys.executable, "examples/bootstrap.py", url, "--data", str(DATA),
                "--environment", str(ENVIRONMENT)]  # fmt: skip
        filling = {**env, "GRISTMILL_PASSWORD": password}
        run_filling(fill, filling)
        worker = start(
            "worker",
            ["-m", "backend.worker", "--server", url, "--config", str(DATA / "worker.toml"),
             "--cache", str(DATA / "cache"), "--work", str(DATA / "work")],
            env,
        )  # fmt: skip
        parts.append(worker)
        run_filling([*fill, "--experiment"], filling)
        print(GREETING.format(url=url, data=DATA, admin_password=password,
                              demo_password=secret_file("demo-password", make=False)),
              flush=True)  # fmt: skip
        while all(part.poll() is None for part in parts):
            time.sleep(0.5)
        print(f"A part ended by itself; see the logs in {DATA}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopping …", flush=True)
        return 0
    finally:
        for part in reversed(parts):
            stop(part)


if __name__ == "__main__":
    sys.exit(main())
