"""A worker for tests: it speaks the real protocol over HTTP and makes up the data.

Every dataset writes the numbers 0..9 as data units, every block writes its units doubled in
content, every analyzer says their sum. No process, no sandbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

UNITS = 10
SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("value", pa.struct([("value", pa.int32())])),
    ]
)


def arrow(values: dict[int, int]) -> bytes:
    """Return an Arrow file of one number a data unit."""
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        starts = list(values)
        column = [{"value": value} for value in values.values()]
        writer.write_batch(pa.record_batch([starts, starts, column], schema=SCHEMA))
    return sink.getvalue()


def numbers(data: bytes) -> dict[int, int]:
    """Return what `arrow` was given."""
    table = pa.ipc.open_file(io.BytesIO(data)).read_all()
    values = (value["value"] for value in table["value"].to_pylist())
    return dict(zip(table["start"].to_pylist(), values, strict=True))


@dataclass
class FakeWorker:
    """One worker process."""

    client: httpx.AsyncClient  #: based at /api/v1, without credentials
    credential: str
    name: str = "w1"
    cores: int = 8
    cache: Path | None = None  #: when it shares the server's cache folder
    environments: tuple[tuple[str, str], ...] = (("Python", "1"), ("Python", "2"))
    running: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)  #: names of blocks, as they ended
    registered: dict[str, Any] = field(default_factory=dict)
    token: str = ""
    patient: bool = False  #: tries again when the server is not there, as real workers do

    async def _request(self, method: str, url: str, **more: Any) -> httpx.Response:
        while True:
            try:
                answer = await self.client.request(method, url, headers=self.headers, **more)
            except httpx.TransportError:
                if not self.patient:
                    raise
            else:
                if answer.status_code != 503 or not self.patient:
                    return answer
            await asyncio.sleep(0.05)

    async def register(self, **changes: Any) -> httpx.Response:
        """Register; return the answer."""
        body = {
            "protocol": 1,
            "name": self.name,
            "host": "here",
            "cores": self.cores,
            "memory_mb": 65_536,
            "executor": "process",
            "sandbox": "none",
            "limits": "polling",
            "version": "0",
            "environments": [{"name": n, "version": v} for n, v in self.environments],
            "running": list(self.running),
            "cache_nonce": self._nonce(),
        }
        headers = {"Authorization": f"Bearer {self.credential}"}
        answer = await self.client.post(
            "/worker/register", json={**body, **changes}, headers=headers
        )
        if answer.status_code == 200:
            self.registered = answer.json()
            self.token = self.registered["token"]
        return answer

    def _nonce(self) -> str | None:
        if self.cache is None:
            return None
        nonce = hashlib.sha256(self.name.encode()).hexdigest()
        (self.cache / "proof" / nonce).write_text(nonce)
        return nonce

    @property
    def headers(self) -> dict[str, str]:
        """What every call carries."""
        return {"Authorization": f"Bearer {self.token}"}

    async def call(self, path: str, **body: Any) -> httpx.Response:
        """Call a protocol endpoint under the registration."""
        json = {"session": self.registered["session"], **body}
        return await self._request("POST", f"/worker/{path}", json=json)

    async def heartbeat(self, **more: Any) -> dict[str, Any]:
        """Say that it lives."""
        answer = await self.call("heartbeat", running=list(self.running), **more)
        found: dict[str, Any] = answer.raise_for_status().json()
        self.token = found["token"]
        return found

    async def poll(self, wait: float = 5.0) -> dict[str, Any]:
        """Ask for work; what comes is running from now on."""
        answer = await self.call("poll", wait=wait, running=list(self.running))
        found: dict[str, Any] = answer.raise_for_status().json()
        for assignment in found["assignments"]:
            self.running[assignment["attempt"]] = assignment
        return found

    async def report(self, *reports: dict[str, Any]) -> list[str]:
        """Report; return the answers."""
        stamped = [{"time": "2026-01-01T00:00:00Z", **report} for report in reports]
        answer = await self.call("reports", reports=stamped)
        found: list[str] = answer.raise_for_status().json()["answers"]
        return found

    # ---- doing the work ----

    async def start(self, assignment: dict[str, Any]) -> None:
        """Report that an attempt started."""
        await self.report({"kind": "started", "attempt": assignment["attempt"]})

    async def finish(self, assignment: dict[str, Any]) -> str:
        """Write outputs, report the end; return the answer."""
        answer = (await self.report(await self.end_of(assignment)))[0]
        self.running.pop(assignment["attempt"], None)
        self.done.append(assignment["block"])
        return answer

    async def run(self, assignment: dict[str, Any]) -> str:
        """Start and finish."""
        await self.start(assignment)
        return await self.finish(assignment)

    async def end_of(self, assignment: dict[str, Any]) -> dict[str, Any]:
        """Return the report of an attempt's end, its outputs delivered."""
        outputs, results = await self._compute(assignment)
        files = [await self._deliver(assignment, name, values) for name, values in outputs.items()]
        return {
            "kind": "finished",
            "attempt": assignment["attempt"],
            "outcome": "done",
            "exit_code": 0,
            "usage": {"wall_seconds": 1.0, "cpu_user_seconds": 0.5, "peak_memory_mb": 10},
            "outputs": files,
            "results": results,
        }

    async def _compute(
        self, assignment: dict[str, Any]
    ) -> tuple[dict[str, dict[int, int]], dict[str, Any] | None]:
        job = assignment["job"]
        if job["kind"] == "dataset":
            return {port["name"]: {i: i for i in range(UNITS)} for port in job["outputs"]}, None
        values = await self._inputs(assignment)
        if job["range"]:
            first, last = job["range"]
            values = {unit: value for unit, value in values.items() if first <= unit <= last}
        if job["kind"] == "analyzer":
            total = {"type": "int32", "value": sum(values.values()), "display": True}
            return {}, {"total": total}
        twice = {unit: 2 * value for unit, value in values.items()}
        return {port["name"]: twice for port in job["outputs"]}, None

    async def _inputs(self, assignment: dict[str, Any]) -> dict[int, int]:
        values: dict[int, int] = {}
        for number, file in enumerate(assignment["inputs"]):
            if file["path"].startswith("inputs/"):
                values |= numbers(await self.fetch(assignment["attempt"], number, file))
        return values

    async def fetch(self, attempt: str, number: int, file: dict[str, Any]) -> bytes:
        """Return an input, from the shared cache or over HTTP."""
        stored = file["stored"]
        if self.cache is not None:
            data = (self.cache / stored["path"]).read_bytes()
        else:
            url = f"/worker/attempts/{attempt}/inputs/{number}"
            answer = await self._request("GET", url)
            data = answer.raise_for_status().content
        assert hashlib.sha256(data).hexdigest() == stored["sha256"]
        return data

    async def _deliver(
        self, assignment: dict[str, Any], output: str, values: dict[int, int]
    ) -> dict[str, Any]:
        data = arrow(values)
        number = [port["name"] for port in assignment["job"]["outputs"]].index(output)
        file = {
            "output": output,
            "first": min(values),
            "last": max(values),
            "rows": len(values),
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "path": f"{number}.arrow",
        }
        await self.send(assignment["attempt"], file, data)
        return file

    async def send(self, attempt: str, file: dict[str, Any], data: bytes) -> None:
        """Deliver an output, into the shared cache or over HTTP."""
        if self.cache is not None:
            folder = self.cache / "incoming" / attempt
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file["path"]).write_bytes(data)
            return
        answer = await self.upload(attempt, file, data)
        answer.raise_for_status()

    async def upload(
        self, attempt: str, file: dict[str, Any], data: bytes, *, offset: int = 0
    ) -> httpx.Response:
        """Send (a part of) an output over HTTP."""
        return await self._request(
            "PUT",
            f"/worker/attempts/{attempt}/outputs/{file['path']}",
            params={"offset": offset, "size": file["size"], "sha256": file["sha256"]},
            content=data,
        )

    async def work(self, until: Callable[[], Awaitable[bool]]) -> None:
        """Run whatever comes, one after the other, until something holds."""
        while not await until():
            found = await self.poll(wait=0.5)
            for attempt in found["cancel"]:
                self.running.pop(attempt, None)
                await self.report({"kind": "finished", "attempt": attempt, "outcome": "cancelled"})
            for assignment in found["assignments"]:
                await self.run(assignment)


async def wait_for(
    person: Any, experiment: str, *states: str, seconds: float = 30
) -> dict[str, Any]:
    """Follow an experiment by long polls until it is in one of some states; return it."""
    after, found = 0, {}
    async with asyncio.timeout(seconds):
        while True:
            found = (await person.client.get(f"/experiments/{experiment}")).json()
            if found["state"] in states:
                return found
            params = {"after": after, "wait": 5}
            url = f"/experiments/{experiment}/events"
            page = (await person.client.get(url, params=params)).json()
            after = page["events"][-1]["seq"] if page["events"] else after
