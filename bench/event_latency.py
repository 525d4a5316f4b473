"""From a worker's report to the event in the browser, with 50 browsers open.

A real server process with its own PostgreSQL; 50 WebSockets follow one experiment of 200 jobs; a
worker reports, one after the other, that each of them has started. Measured for every report and
every socket: from just before the report is sent until the event's frame has been read. In
between lie the report's checks, the scheduler's pass, a durable commit, and 50 sends.

The reference, measured in the same run with the same clients: a bare uvicorn application that
passes the body of a POST on to its 50 sockets, with no check, no decision and no database.

    python bench/event_latency.py [--sockets 50] [--reports 200] [--gap 0.02]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

PASSWORD = "a password of the benchmark"
VIEW = "class View:\n    pass\n"
ALGORITHM = "class Algorithm:\n    pass\n"

BARE = textwrap.dedent(
    """
    import asyncio, json, sys
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    queues = set()

    async def post(request):
        body = (await request.body()).decode()
        for queue in queues:
            queue.put_nowait(body)
        return Response(status_code=204)

    async def follow(websocket):
        await websocket.accept(subprotocol="gristmill.v1")
        queue = asyncio.Queue()
        queues.add(queue)
        while True:
            await websocket.send_text(await queue.get())

    app = Starlette(routes=[Route("/post", post, methods=["POST"]), WebSocketRoute("/ws", follow)])
    config = uvicorn.Config(app, port=0, log_level="error", ws="websockets-sansio",
                            ws_per_message_deflate=False, loop="uvloop", http="httptools")
    server = uvicorn.Server(config)

    async def main():
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        print(f"listens on http://127.0.0.1:{port}", flush=True)
        await task

    asyncio.run(main())
    """
)


@dataclass(frozen=True)
class Figures:
    """Milliseconds."""

    median: float
    p95: float
    worst: float

    @staticmethod
    def of(seconds: list[float]) -> Figures:
        """Summarise measurements."""
        ordered = sorted(1000 * one for one in seconds)

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

        return Figures(at(0.5), at(0.95), ordered[-1])


@contextlib.contextmanager
def process(argv: list[str], log: Path) -> Iterator[str]:
    """Run a server; yield the URL that its first line names."""
    with log.open("wb") as errors:
        running = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ.copy()
        )
    assert running.stdout is not None
    try:
        line = running.stdout.readline()
        if "listens on " not in line:
            raise SystemExit(f"the server did not start; see {log}: {log.read_text()[-2000:]}")
        yield line.split("listens on ")[1].strip()
    finally:
        running.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(10)
        running.kill()  # the bare one does not notice that its sockets have gone
        running.wait()
        running.stdout.close()


async def measure(
    sockets: list[ClientConnection],
    reports: int,
    gap: float,
    report: Callable[[int], Awaitable[None]],
    seq_of: Callable[[Any], int | None],
) -> list[float]:
    """Send reports, each when all sockets have heard of the one before; return all delays."""
    delays: list[float] = []
    for number in range(reports):
        heard = asyncio.gather(*(_hear(one, seq_of, number) for one in sockets))
        began = time.perf_counter()
        sent = asyncio.create_task(report(number))
        delays += [arrived - began for arrived in await heard]
        await sent
        await asyncio.sleep(gap)
    return delays


async def _hear(
    socket: ClientConnection, number_of: Callable[[Any], int | None], wanted: int
) -> float:
    """Read frames until the wanted one; return when it had arrived."""
    async with asyncio.timeout(30):
        while True:
            text = await socket.recv()
            arrived = time.perf_counter()
            if number_of(json.loads(text)) == wanted:
                return arrived


async def open_sockets(stack: Any, url: str, number: int, token: str) -> list[ClientConnection]:
    """Open so many sockets."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    protocols: list[Any] = ["gristmill.v1", f"bearer.{encoded}"]
    uri = url.replace("http://", "ws://")
    return [
        await stack.enter_async_context(connect(uri, subprotocols=protocols, compression=None))
        for _ in range(number)
    ]


# ---- our server ----


class House:
    """The server's API, as the benchmark uses it."""

    def __init__(self, url: str, jobs: int) -> None:
        self.url = url
        self.jobs = jobs
        self.client = httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=60)
        self.worker = httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=60)
        self.session = ""
        self.token = ""

    async def post(self, path: str, **body: Any) -> Any:
        """Post, and return the answer's document."""
        answer = await self.client.post(path, json=body)
        if answer.is_error:
            raise SystemExit(f"{path}: {answer.status_code} {answer.text[:1000]}")
        return answer.json()

    async def sign_in(self) -> None:
        """Sign in as the administrator."""
        form = {"username": "root", "password": PASSWORD}
        answer = await self.client.post("/auth/token", data=form)
        self.token = answer.raise_for_status().json()["access_token"]
        self.client.headers["Authorization"] = f"Bearer {self.token}"

    async def furnish(self) -> None:
        """Make a queue with room for all jobs, and a database with a set for each."""
        environment = await self.post("/environments", name="Python", version="1")
        queue = await self.post(
            "/queues",
            name="wide",
            memory_mb=16,
            time_limit_seconds=3600,
            slots_per_worker=self.jobs,
            cores_per_slot=1,
            environment_ids=[environment["id"]],
            default_environment_id=environment["id"],
        )
        groups = (await self.client.get("/groups")).json()["items"]
        group = next(one["id"] for one in groups if one["name"] == "default")
        right = {"slots": self.jobs, "priority": 0}
        answer = await self.client.put(f"/rights/{group}/{queue['id']}", json=right)
        answer.raise_for_status()
        await self.post("/dataformats", name="integer", declaration={"value": "int32"})
        sets = [
            {"name": f"s{number}", "view": "View", "outputs": {"value": "root/integer/1"}}
            for number in range(self.jobs)
        ]
        declaration = {
            "root_folder": "/nowhere",
            "protocols": [{"name": "all", "template": "all", "sets": sets}],
        }
        await self.post("/databases", name="wide", declaration=declaration, source=VIEW)
        analyzer = {
            "schema_version": 2,
            "api_version": 2,
            "type": "sequential",
            "language": "python",
            "groups": [{"inputs": {"value": {"type": "root/integer/1"}}}],
            "results": {"total": {"type": "int32", "display": True}},
        }
        await self.post("/algorithms", name="sum", declaration=analyzer, source=ALGORITHM)
        toolchain = {
            "datasets": [{"name": f"d{n}", "outputs": ["value"]} for n in range(self.jobs)],
            "blocks": [],
            "analyzers": [{"name": "sum", "synchronized_channel": "d0", "inputs": ["value"]}],
            "connections": [{"from": "d0.value", "to": "sum.value", "channel": "d0"}],
            "representation": {"connections": {}, "blocks": {}, "channel_colors": {}},
        }
        await self.post("/toolchains", name="wide", declaration=toolchain)

    async def register(self) -> None:
        """Register a worker with room for all jobs."""
        made = await self.post("/worker-credentials", worker_name="bench")
        body = {
            "protocol": 1,
            "name": "bench",
            "host": "here",
            "cores": self.jobs,
            "memory_mb": 32 * self.jobs,
            "executor": "process",
            "sandbox": "none",
            "limits": "polling",
            "version": "0",
            "environments": [{"name": "Python", "version": "1"}],
        }
        headers = {"Authorization": f"Bearer {made['token']}"}
        answer = await self.worker.post("/worker/register", json=body, headers=headers)
        registered = answer.raise_for_status().json()
        self.worker.headers["Authorization"] = f"Bearer {registered['token']}"
        self.session = registered["session"]

    async def start(self) -> tuple[str, int]:
        """Start the experiment; return its id and its last event."""
        declaration = {
            "datasets": {
                f"d{n}": {"database": "wide/1", "protocol": "all", "set": f"s{n}"}
                for n in range(self.jobs)
            },
            "blocks": {},
            "analyzers": {"sum": {"algorithm": "root/sum/1", "inputs": {"value": "value"}}},
            "globals": {"queue": "wide"},
        }
        made = await self.post(
            "/experiments", name="wide", toolchain="root/wide/1", declaration=declaration
        )
        await self.post(f"/experiments/{made['id']}/start")
        return made["id"], 0

    async def leases(self) -> list[str]:
        """Take all the jobs."""
        running: list[str] = []
        while len(running) < self.jobs:
            body = {"session": self.session, "wait": 5, "running": running}
            answer = await self.worker.post("/worker/poll", json=body)
            found = answer.raise_for_status().json()["assignments"]
            running += [one["attempt"] for one in found]
        return running

    async def report_started(self, attempt: str) -> None:
        """Report that a job has started."""
        report = {"kind": "started", "attempt": attempt, "time": "2026-01-01T00:00:00Z"}
        body = {"session": self.session, "reports": [report]}
        answer = await self.worker.post("/worker/reports", json=body)
        assert answer.json()["answers"] == ["taken"], answer.text

    async def close(self) -> None:
        """Close the clients."""
        await self.client.aclose()
        await self.worker.aclose()


async def measure_ours(url: str, arguments: argparse.Namespace) -> list[float]:
    """Measure the real server."""
    house = House(url, arguments.reports)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(house.close)
        await house.sign_in()
        await house.furnish()
        await house.register()
        experiment, _ = await house.start()
        attempts = await house.leases()
        sockets = await open_sockets(stack, f"{url}/api/v1/ws", arguments.sockets, house.token)
        last = (await house.client.get(f"/experiments/{experiment}")).json()["last_seq"]
        for socket in sockets:
            message = {"type": "subscribe", "experiment": experiment, "after": last}
            await socket.send(json.dumps(message))
        await asyncio.sleep(1)
        numbers: dict[str, int] = {attempt: n for n, attempt in enumerate(attempts)}

        def number_of(frame: Any) -> int | None:
            if frame["type"] != "events":
                return None
            details = [e["details"] for e in frame["events"] if e["kind"] == "block"]
            found = [numbers[d["attempt"]] for d in details if d.get("state") == "running"]
            return found[-1] if found else None

        async def report(number: int) -> None:
            await house.report_started(attempts[number])

        return await measure(sockets, arguments.reports, arguments.gap, report, number_of)


async def measure_bare(url: str, arguments: argparse.Namespace) -> list[float]:
    """Measure the bare application."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60))
        sockets = await open_sockets(stack, f"{url}/ws", arguments.sockets, "none")

        async def report(number: int) -> None:
            await client.post("/post", json={"number": number, "text": "x" * 300})

        return await measure(
            sockets, arguments.reports, arguments.gap, report, lambda frame: frame["number"]
        )


def create_admin(data: Path) -> None:
    """Make the administrator of the benchmark."""
    command = [sys.executable, "-m", "backend.app", "--data", str(data)]
    subprocess.run(
        [*command, "create-admin", "root"],
        input=PASSWORD + "\n",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Measure both, print a table and a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", type=int, default=50)
    parser.add_argument("--reports", type=int, default=200)
    parser.add_argument("--gap", type=float, default=0.02, help="seconds between reports")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gristmill-bench-") as folder:
        Path(folder).chmod(0o755)
        data = Path(folder) / "data"
        serve = [sys.executable, "-m", "backend.app", "--data", str(data), "serve", "--port", "0"]
        with process(serve, Path(folder) / "server.log") as url:
            create_admin(data)
            ours = Figures.of(asyncio.run(measure_ours(url, arguments)))
        with process([sys.executable, "-c", BARE], Path(folder) / "bare.log") as url:
            bare = Figures.of(asyncio.run(measure_bare(url, arguments)))
    print(f"{arguments.sockets} sockets, {arguments.reports} reports; milliseconds")
    print(f"{'':12}{'median':>10}{'p95':>10}{'worst':>10}")
    for name, found in (("gristmill", ours), ("bare", bare)):
        print(f"{name:12}{found.median:10.1f}{found.p95:10.1f}{found.worst:10.1f}")
    print(
        json.dumps(
            {
                "bench": "event_latency",
                "sockets": arguments.sockets,
                "reports": arguments.reports,
                "p95_ms": round(ours.p95, 1),
                "bare_p95_ms": round(bare.p95, 1),
                "ratio_p95": round(ours.p95 / bare.p95, 2),
                "ratio_median": round(ours.median / bare.median, 2),
                "target_p95_ms": 100,
            }
        )
    )


if __name__ == "__main__":
    main()
