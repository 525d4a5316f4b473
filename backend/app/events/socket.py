"""The WebSocket: one writer and one bounded queue a socket, one task for each thing followed.

A reader that is too slow is not waited for: what is queued for it is dropped, and it is told to
load a snapshot and subscribe anew (`resync`). One that takes nothing at all is closed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from backend.app.auth.actors import Actor, Scope, of_bearer, of_connection
from backend.app.events import frames, queries
from backend.app.events.hub import Batch, Follower
from backend.app.events.lists import Reader
from backend.app.experiments import access
from backend.app.routing import api_router
from backend.app.services import Services
from backend.scheduler.core import experiments

log = structlog.stdlib.get_logger(__name__)

router = api_router("events")

QUEUE = 256  #: frames that wait for one socket
SEND_SECONDS = 10.0  #: that one frame may take
RECHECK_SECONDS = 30.0  #: between looks whether the reader still may
MOST_FOLLOWED = 200  #: experiments on one socket
LONGEST_MESSAGE = 4096  #: characters that a client sends
PAGE = 500  #: events in one frame of a replay
FINAL = frozenset(state.value for state in experiments.FINAL)

UNAUTHENTICATED, EXPIRED, TRY_LATER, TOO_BIG = 4401, 4408, 1013, 1009

Authenticate = Callable[[], Awaitable[Actor | None]]


class Closing(Exception):
    """The socket is to be closed, with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


@router.websocket("/ws")
async def follow(websocket: WebSocket) -> None:
    """Follow experiments: see docs/reference/live-protocol.md."""
    services: Services = websocket.app.state.services
    authenticate = _authenticator(websocket, services)
    actor = await authenticate()
    if actor is None or frames.SUBPROTOCOL not in websocket.scope["subprotocols"]:
        await websocket.close(UNAUTHENTICATED)  # before the accept: the answer is HTTP 403
        return
    await websocket.accept(subprotocol=frames.SUBPROTOCOL)
    await Socket(websocket, services, authenticate, actor).run()


def _authenticator(websocket: WebSocket, services: Services) -> Authenticate:
    """Return what finds out who is there: asked at the beginning, and again and again."""
    token = bearer_of(websocket.scope["subprotocols"])

    async def authenticate() -> Actor | None:
        now = services.clock()
        if token is not None:
            actor = await of_bearer(services, token, now)
        else:
            actor = await of_connection(websocket, services, now)
        return actor if actor is not None and actor.may(Scope.READ) else None

    return authenticate


def bearer_of(subprotocols: list[str]) -> str | None:
    """Return the token of `bearer.<base64url>`; "" when it cannot be read; None without one."""
    found = next((one for one in subprotocols if one.startswith("bearer.")), None)
    if found is None:
        return None
    text = found.removeprefix("bearer.")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


@dataclass(slots=True, eq=False)
class Socket:
    """One browser tab."""

    websocket: WebSocket
    services: Services
    authenticate: Authenticate
    actor: Actor
    queue: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(QUEUE))
    followed: dict[UUID, asyncio.Task[None]] = field(default_factory=dict)
    reader: Reader | None = None
    recheck: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Serve until the client goes, is too slow, or may not be here any more."""
        hub, lists = self.services.hub, self.services.live.lists
        hub.access_listeners.add(self.recheck.set)
        duties = [asyncio.create_task(d) for d in (self._read(), self._write(), self._guard())]
        try:
            done, _ = await asyncio.wait(duties, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.access_listeners.discard(self.recheck.set)
            if self.reader is not None:
                lists.readers.discard(self.reader)
            await _cancel([*duties, *self.followed.values()])
        for duty in done:
            await self._end(duty.exception())

    async def _end(self, error: BaseException | None) -> None:
        if error is None or isinstance(error, WebSocketDisconnect):
            return
        if not isinstance(error, Closing):
            raise error
        try:
            async with asyncio.timeout(1):
                await self.websocket.close(error.code, error.reason)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            return  # it takes nothing, not even this: the server drops the connection

    # ---- out ----

    async def _write(self) -> None:
        while True:
            frame = await self.queue.get()
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self.websocket.send_text(frame)
            except TimeoutError:
                raise Closing(TRY_LATER, "too slow") from None

    def send(self, frame: str) -> None:
        """Queue a frame; on overflow drop all that waits and ask for a new beginning."""
        try:
            self.queue.put_nowait(frame)
        except asyncio.QueueFull:
            self._overflow()

    def _overflow(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
        for experiment, task in self.followed.items():
            task.cancel()
            self.queue.put_nowait(frames.resync(str(experiment)))
        self.followed.clear()
        if self.reader is not None:
            self.queue.put_nowait(frames.resync(None))

    # ---- in ----

    async def _read(self) -> None:
        while True:
            text = await self.websocket.receive_text()
            if len(text) > LONGEST_MESSAGE:
                raise Closing(TOO_BIG, "message too long")
            await self._take(text)

    async def _take(self, text: str) -> None:
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            message = None
        match message:
            case {"type": "subscribe", "list": True}:
                self._subscribe_list()
            case {"type": "unsubscribe", "list": True}:
                self._unsubscribe_list()
            case {"type": "subscribe", "experiment": str(id_), **rest}:
                await self._subscribe(id_, rest.get("after", 0))
            case {"type": "unsubscribe", "experiment": str(id_)}:
                await self._unsubscribe(id_)
            case _:
                await self.queue.put(frames.error("this message is not understood"))

    def _subscribe_list(self) -> None:
        if self.reader is None:
            self.reader = Reader(access.viewer(self.actor), self.send)
            self.services.live.lists.readers.add(self.reader)

    def _unsubscribe_list(self) -> None:
        if self.reader is not None:
            self.services.live.lists.readers.discard(self.reader)
            self.reader = None

    async def _subscribe(self, text: str, after: object) -> None:
        """Follow an experiment; a second subscription takes the place of the first."""
        id_ = _uuid(text)
        if id_ is None or not isinstance(after, int) or not 0 <= after < 2**63:
            await self.queue.put(frames.error("subscribe needs an experiment's id and `after`"))
            return
        await _cancel([task for task in [self.followed.pop(id_, None)] if task])
        if len(self.followed) >= MOST_FOLLOWED:
            await self.queue.put(frames.unsubscribed(text, "too many subscriptions"))
            return
        self.followed[id_] = asyncio.create_task(self._follow(id_, after))

    async def _unsubscribe(self, text: str) -> None:
        id_ = _uuid(text)
        task = self.followed.pop(id_, None) if id_ else None
        if task is not None:
            await _cancel([task])

    # ---- following ----

    async def _follow(self, id_: UUID, after: int) -> None:
        try:
            with self.services.hub.following(str(id_)) as follower:
                reason = await _Following(self, id_, follower, after).run()
        except Exception:
            log.exception("following broke; the client begins anew", experiment=str(id_))
            self.send(frames.resync(str(id_)))
            reason = None
        self.followed.pop(id_, None)
        if reason is not None:
            await self.queue.put(frames.unsubscribed(str(id_), reason))

    # ---- may it be here ----

    async def _guard(self) -> None:
        """Look again whether the reader may be here, and may see what it follows."""
        while True:
            await self._wait_to_recheck()
            actor = await self.authenticate()
            if actor is None:
                raise self._not_any_more()
            self.actor = actor
            if self.reader is not None:
                self.reader.viewer = access.viewer(actor)
            await self._recheck_followed()

    async def _wait_to_recheck(self) -> None:
        seconds = RECHECK_SECONDS
        if self.actor.expires_at is not None:
            left = (self.actor.expires_at - self.services.clock()).total_seconds()
            seconds = min(seconds, max(0.0, left) + 0.05)
        try:
            async with asyncio.timeout(seconds):
                await self.recheck.wait()
        except TimeoutError:
            return
        self.recheck.clear()

    def _not_any_more(self) -> Closing:
        if _past(self.actor.expires_at, self.services.clock()):
            return Closing(EXPIRED, "what you signed in with has expired")
        return Closing(UNAUTHENTICATED, "you are not signed in any more")

    async def _recheck_followed(self) -> None:
        if not self.followed:
            return
        async with self.services.sessions() as session:
            seen = await queries.visible_of(session, list(self.followed), access.viewer(self.actor))
        for id_ in [one for one in self.followed if one not in seen]:
            await _cancel([self.followed.pop(id_)])
            await self.queue.put(frames.unsubscribed(str(id_), "not visible any more"))


@dataclass(slots=True, eq=False)
class _Following:
    """One experiment on one socket: replay from the table, then what comes."""

    socket: Socket
    id: UUID
    follower: Follower
    cursor: int
    final: bool = False  #: the experiment rests, as of the cursor
    ended: int = -1  #: the cursor at which `end` was sent

    async def run(self) -> str | None:
        """Pass on events until cancelled; return why there are no more."""
        reason = await self._begin()
        while reason is None:
            await self._say_end()
            self.follower.cursor = self.cursor
            await self.follower.wait()
            reason = await self._pass_on()
        return reason or None

    async def _begin(self) -> str | None:
        standing = await self._standing()
        if standing is None:
            return "not found"
        if self.cursor > standing.last_seq:  # a client from another time: of a restored database
            return self._resync()
        self.final = standing.state in FINAL
        return await self._replay()

    async def _standing(self) -> queries.Standing | None:
        viewer = access.viewer(self.socket.actor)
        async with self.socket.services.sessions() as session:
            return await queries.standing(session, self.id, viewer)

    def _resync(self) -> str:
        self.socket.send(frames.resync(str(self.id)))
        return ""

    async def _replay(self) -> str | None:
        """Send what the table has; wait for the socket where it is slow."""
        self.follower.behind = False
        while True:
            async with self.socket.services.sessions() as session:
                found = await queries.events_after(session, self.id, self.cursor, PAGE)
            if not found:
                return None
            if found[0].seq != self.cursor + 1:
                return self._resync()
            batch = Batch(experiment=str(self.id), events=tuple(found))
            await self.socket.queue.put(batch.text)
            self._note(batch)
            if len(found) < PAGE:
                return None

    async def _pass_on(self) -> str | None:
        """Send what was offered, and what the table has where there is a gap."""
        while True:
            batch = self.follower.next_after(self.cursor)
            if batch is None:
                return await self._catch_up() if self.follower.behind else None
            self.socket.send(batch.text)
            self._note(batch)
            if batch.events[-1].kind == "deleted":
                return "deleted"

    async def _catch_up(self) -> str | None:
        if await self._standing() is None:
            return "deleted"
        self.follower.batches.clear()
        return await self._replay()

    def _note(self, batch: Batch) -> None:
        self.cursor = batch.last
        for event in batch.events:
            final = frames.is_final(event)
            self.final = self.final if final is None else final

    async def _say_end(self) -> None:
        if self.final and self.ended != self.cursor:
            self.ended = self.cursor
            await self.socket.queue.put(frames.end(str(self.id), self.cursor))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
