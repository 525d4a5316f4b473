"""The client for asyncio. `scripts/make_sync_client.py` makes `synchronous.py` of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from gristmill.client import errors, models, requests
from gristmill.client.models import (
    AnalyzerResults,
    Event,
    Experiment,
    Explanation,
    LogPiece,
    PersonalToken,
    Published,
    Snapshot,
    UsableQueue,
    User,
    Validation,
)
from gristmill.client.requests import Request, path_id
from gristmill.prefixes import Declared

LONG_POLL = 25.0  #: seconds that the server holds a question for news
PIECE = 1024 * 1024  #: bytes of a file that are sent at a time
Json = dict[str, Any]


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PIECE):
            yield piece


class AsyncClient:
    """A user's connection to a server.

    `token` is a personal access token; without one, `sign_in` gets a token that renews itself.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = requests.base_url(url)
        self._token = token
        self._refresh: str | None = None
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=self.url + requests.API, timeout=timeout, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # ---- sending ----

    async def send(self, request: Request) -> httpx.Response:
        """Send a call and return the answer. Raises ApiError, or Unreachable."""
        answer = await self._send(request)
        if answer.status_code == 401 and self._refresh:
            await self._renew(self._refresh)
            answer = await self._send(request)
        if answer.status_code >= 400:
            raise errors.of_answer(
                answer.status_code, answer.content, answer.headers.get("X-Request-Id")
            )
        return answer

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call any endpoint below /api/v1; return its JSON, or None when it says nothing."""
        request = Request(
            method=method, path=path, body=body, query=query or {}, headers=headers or {}
        )
        answer = await self.send(request)
        return answer.json() if answer.content else None

    async def _send(self, request: Request) -> httpx.Response:
        for tries in range(requests.MOST_TRIES):
            last = tries == requests.MOST_TRIES - 1
            try:
                answer = await self._once(request)
            except httpx.TransportError as error:
                # nothing was sent when no connection was made
                if last or not (request.repeatable or isinstance(error, httpx.ConnectError)):
                    why = str(error) or type(error).__name__
                    raise errors.Unreachable(f"{self.url} does not answer: {why}") from error
                await asyncio.sleep(requests.pause(tries, None))
                continue
            if last or not requests.again(request, answer.status_code):
                return answer
            await asyncio.sleep(requests.pause(tries, answer.headers.get("Retry-After")))
        raise AssertionError("the last try returns or raises")

    async def _once(self, request: Request) -> httpx.Response:
        headers = dict(request.headers)
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if request.file is not None:
            headers["Content-Length"] = str(request.file.stat().st_size)
        query = {key: value for key, value in request.query.items() if value is not None}
        return await self._http.request(
            request.method,
            request.path,
            params=query,
            json=request.body,
            data=request.form,
            content=None if request.file is None else _pieces(request.file),
            headers=headers,
            timeout=self._timeout + request.wait,
        )

    async def _get(self, path: str, **query: Any) -> Any:
        return await self.call("GET", path, query=query)

    async def items(self, path: str, **query: Any) -> list[Json]:
        """Return everything of a list, over all its pages."""
        found: list[Json] = []
        cursor: str | None = None
        while True:
            page = await self._get(path, **query, cursor=cursor, limit=200)
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                return found

    async def _edit(self, method: str, path: str, body: Any = None) -> Any:
        """Change or delete what is there now: nobody else's change is overwritten."""
        there = await self.send(Request(method="GET", path=path))
        return await self.call(method, path, body, headers={"If-Match": there.headers["ETag"]})

    # ---- who asks ----

    async def sign_in(self, username: str, password: str) -> User:
        """Sign in; the token is renewed by itself from then on."""
        form = {"grant_type": "password", "username": username, "password": password}
        answer = await self.send(Request(method="POST", path="/auth/token", form=form))
        self._remember(answer.json())
        return await self.me()

    async def _renew(self, refresh: str) -> None:
        self._token, self._refresh = None, None
        body = {"refresh_token": refresh}
        answer = await self.send(Request(method="POST", path="/auth/refresh", body=body))
        self._remember(answer.json())

    def _remember(self, tokens: Json) -> None:
        self._token, self._refresh = tokens["access_token"], tokens["refresh_token"]

    async def me(self) -> User:
        """Return who is signed in."""
        return models.read(User, await self._get("/me"))

    async def my_queues(self) -> list[UsableQueue]:
        """Return the queues that one may use."""
        return [models.read(UsableQueue, told) for told in await self._get("/me/queues")]

    async def create_personal_token(
        self, name: str, scopes: tuple[str, ...] = ("read", "write")
    ) -> PersonalToken:
        """Make a personal token; its secret is told this once."""
        body = {"name": name, "scopes": list(scopes)}
        return models.read(PersonalToken, await self.call("POST", "/me/tokens", body))

    # ---- declarations ----

    async def publish(
        self, folder: str | Path, *, update: bool = False, visibility: str = "private"
    ) -> Published:
        """Bring a folder in BEAT's layout to the server, as one's own.

        What is there already is left alone; where it differs, Conflict is raised before anything
        is changed, unless `update` says to change it (versions that experiments used never are).
        """
        me = await self.me()
        prefix = requests.owned(folder, me.username)
        there = {one: await self._there(one) for one in requests.in_order(prefix)}
        different = {one: requests.differences(one, found) for one, found in there.items() if found}
        requests.refuse_different([one.ref for one, parts in different.items() if parts], update)
        created = [one for one, found in there.items() if not found]
        updated = [one for one, parts in different.items() if parts]
        for one in there:
            if one in created:
                await self.send(requests.declare(one, visibility))
            elif one in updated:
                path = requests.path_of(one.kind, one.ref)
                await self._edit("PATCH", path, different[one])
            await self._upload(one)
        return Published(
            created=tuple(f"{one.kind}/{one.ref}" for one in created),
            updated=tuple(f"{one.kind}/{one.ref}" for one in updated),
            unchanged=tuple(
                f"{one.kind}/{one.ref}" for one in there if one not in (*created, *updated)
            ),
        )

    async def _there(self, one: Declared) -> Json | None:
        try:
            found: Json = await self._get(requests.path_of(one.kind, one.ref))
        except errors.NotFound:
            return None
        return found

    async def _upload(self, one: Declared) -> None:
        """Upload the files of a database that are not there yet."""
        if not one.data:
            return
        path = requests.path_of(one.kind, one.ref) + "/files"
        there = {file["path"]: file["sha256"] for file in await self.items(path)}
        for name, file in one.data.items():
            digest = requests.sha256(file)
            if there.get(name) != digest:
                target = requests.path_of(path.removeprefix("/"), name)
                query = {"sha256": digest}
                await self.send(Request(method="PUT", path=target, file=file, query=query))

    # ---- experiments ----

    async def create_experiment(
        self,
        name: str,
        *,
        toolchain: str,
        declaration: Mapping[str, Any],
        description: str = "",
        visibility: str = "private",
    ) -> Experiment:
        """Make an experiment, a draft. Raises Invalid with each wrong place."""
        body = requests.experiment(name, toolchain, declaration, description, visibility)
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        request = Request(method="POST", path="/experiments", body=body, headers=headers)
        return models.read(Experiment, (await self.send(request)).json())

    async def validate_experiment(
        self, name: str, *, toolchain: str, declaration: Mapping[str, Any]
    ) -> Validation:
        """Say what is wrong with an experiment, and which blocks the cache has."""
        body = requests.experiment(name, toolchain, declaration, "", "private")
        return models.read(Validation, await self.call("POST", "/experiments/validate", body))

    async def experiments(
        self, *, state: str | None = None, owner: str | None = None, q: str | None = None
    ) -> list[Experiment]:
        """Return the experiments that one may see, newest first."""
        found = await self.items("/experiments", state=state, owner=owner, q=q)
        return [models.read(Experiment, told) for told in found]

    async def experiment(self, id: str) -> Experiment:
        """Return an experiment."""
        return models.read(Experiment, await self._get(f"/experiments/{path_id(id)}"))

    async def find_experiment(self, name: str) -> Experiment:
        """Return one's own experiment of that name, or the one of that id. Raises NotFound."""
        if requests.is_id(name):
            return await self.experiment(name)
        me = await self.me()
        for one in await self.experiments(owner=me.username, q=name):
            if one.name == name:
                return one
        raise errors.NotFound(404, f"You have no experiment called {name!r}", code="not_found")

    async def start_experiment(self, id: str) -> Experiment:
        """Submit an experiment; what the cache has is not run again."""
        return models.read(Experiment, await self.call("POST", f"/experiments/{path_id(id)}/start"))

    async def stop_experiment(self, id: str) -> Experiment:
        """Stop an experiment; `wait` for the end of its processes."""
        return models.read(Experiment, await self.call("POST", f"/experiments/{path_id(id)}/stop"))

    async def fork_experiment(self, id: str, name: str | None = None) -> Experiment:
        """Copy an experiment into a draft of one's own."""
        path = f"/experiments/{path_id(id)}/fork"
        return models.read(Experiment, await self.call("POST", path, {"name": name}))

    async def delete_experiment(self, id: str) -> None:
        """Delete an experiment; one that runs is stopped first."""
        await self._edit("DELETE", f"/experiments/{path_id(id)}")

    async def snapshot(self, id: str) -> Snapshot:
        """Return an experiment and its blocks as of one event."""
        return models.snapshot(await self._get(f"/experiments/{path_id(id)}/snapshot"))

    async def watch(self, id: str, after: int | None = None) -> AsyncIterator[Event]:
        """Yield what happens, until the experiment rests.

        Begins after event number `after`, or else with the first one that is kept.
        """
        seen = after or 0
        path = f"/experiments/{path_id(id)}/events"
        while True:
            query = {"after": seen, "wait": LONG_POLL}
            request = Request(method="GET", path=path, query=query, wait=LONG_POLL)
            page = (await self.send(request)).json()
            for told in page["events"]:
                seen = told["seq"]
                yield models.read(Event, told)
            if page["ended"] and seen >= page["last_seq"]:
                return

    async def wait(self, id: str) -> Experiment:
        """Return the experiment when it rests: done, failed, cancelled, or never started."""
        experiment = await self.experiment(id)
        while not experiment.ended:
            async for _ in self.watch(id, after=experiment.last_seq):
                pass
            experiment = await self.experiment(id)
        return experiment

    async def results(self, id: str) -> list[AnalyzerResults]:
        """Return what the analyzers found."""
        return models.analyzers(await self._get(f"/experiments/{path_id(id)}/results"))

    async def block(self, id: str, name: str) -> Json:
        """Return everything about a block, as the server tells it."""
        found: Json = await self._get(f"/experiments/{path_id(id)}/blocks/{name}")
        return found

    async def explain(self, id: str, block: str) -> Explanation:
        """Say why a block does not run."""
        told = await self._get(f"/experiments/{path_id(id)}/blocks/{block}/explain")
        return models.read(Explanation, told)

    async def story(self, id: str, block: str) -> list[str]:
        """Return what happened to a block, a line for each thing."""
        told = await self._get(f"/experiments/{path_id(id)}/blocks/{block}/story")
        return [f"{line['time']} {line['text']}" for line in told["lines"]]

    async def log(self, id: str, block: str, *, follow: bool = False) -> AsyncIterator[LogPiece]:
        """Yield a block's output; with `follow`, until there will be no more."""
        path = f"/experiments/{path_id(id)}/blocks/{block}/log"
        wait, offset, attempt = LONG_POLL if follow else 0.0, 0, None
        while True:
            query = {"offset": offset, "wait": wait, "attempt": attempt}
            request = Request(method="GET", path=path, query=query, wait=wait)
            page = (await self.send(request)).json()
            for told in page["pieces"]:
                yield models.read(LogPiece, told)
            more = page["next"] > offset
            offset, attempt = page["next"], page["attempt"]
            if page["complete"] or not (more or follow):
                return

    # ---- administration ----

    async def ensure(
        self, path: str, body: Mapping[str, Any], *, by: tuple[str, ...] = ("name",)
    ) -> Json:
        """Return the item of a list that has the body's `by`; make it when there is none."""
        for item in await self.items(path):
            if all(item[key] == body[key] for key in by):
                return item
        made: Json = await self.call("POST", path, dict(body))
        return made

    async def set_right(self, group: str, queue: str, *, slots: int, priority: int = 0) -> None:
        """Let the members of a group (id) hold so many slots of a queue (id)."""
        body = {"slots": slots, "priority": priority}
        await self.call("PUT", f"/rights/{path_id(group)}/{path_id(queue)}", body)

    async def add_member(self, group: str, user: str) -> None:
        """Put a user (id) into a group (id)."""
        await self.call("PUT", f"/groups/{path_id(group)}/members/{path_id(user)}")

    async def create_worker_credential(self, worker_name: str) -> str:
        """Make a credential for a worker's name; return the secret, told this once."""
        body = {"worker_name": worker_name}
        made = await self.call("POST", "/worker-credentials", body)
        return str(made["token"])

    async def drain_worker(self, id: str) -> Json:
        """Give a worker nothing new."""
        found: Json = await self.call("POST", f"/workers/{path_id(id)}/drain")
        return found

    async def resume_worker(self, id: str) -> Json:
        """Give a draining worker new work again."""
        found: Json = await self.call("POST", f"/workers/{path_id(id)}/resume")
        return found

    async def scheduler_state(self) -> Json:
        """Return what the scheduler holds: queues, users' slots, jobs, workers, policy."""
        found: Json = await self._get("/admin/state")
        return found

    async def cancel_all(self) -> Json | None:
        """Stop every experiment of everybody."""
        found: Json | None = await self.call("POST", "/admin/cancel-all", {"confirm": "cancel all"})
        return found

    async def cache(self) -> Json:
        """Return what the cache holds."""
        found: Json = await self._get("/admin/cache")
        return found

    async def clean_cache(
        self,
        *,
        older_than_seconds: int | None = None,
        max_bytes: int | None = None,
        dry_run: bool = True,
    ) -> Json:
        """Remove what no live experiment needs; with `dry_run`, say only how much that is."""
        limits = {"older_than_seconds": older_than_seconds, "max_bytes": max_bytes}
        found: Json = await self.call("POST", "/admin/cache/clean", limits | {"dry_run": dry_run})
        return found

    async def policy(self) -> Json:
        """Return the policy by which jobs are chosen."""
        found: Json = await self._get("/admin/policy")
        return found

    async def set_policy(self, policy: str) -> Json:
        """Choose jobs by another policy from the next pass on."""
        found: Json = await self.call("PUT", "/admin/policy", {"policy": policy})
        return found

    async def set_log_level(self, level: str, *, logger: str = "", seconds: int = 900) -> Json:
        """Let a logger of the server say more or less for a while; `""` is all of them."""
        body = {"logger": logger, "level": level, "seconds": seconds}
        found: Json = await self.call("PUT", "/admin/log-levels", body)
        return found

    async def monitor(self) -> Json:
        """Return queues and workers as everybody may see them."""
        found: Json = await self._get("/monitor")
        return found
