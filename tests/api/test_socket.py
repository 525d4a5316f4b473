"""The WebSocket on a real server in this process: replay, live, cuts, delays, duplicates."""

import asyncio
import base64
import contextlib
import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
import uvicorn
from sqlalchemy import delete, update
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from backend.app.db import core
from backend.app.db.ids import uuid7
from backend.app.events import queries, socket
from backend.scheduler.ports import PublishedEvent
from tests.lab import experiment

ORIGIN = "http://localhost"


async def eventually(holds, seconds=10):
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
async def served(app):
    """The application on a port; `lifespan` is the fixture's."""
    config = uvicorn.Config(
        app, port=0, lifespan="off", log_config=None, ws="websockets-sansio", ws_ping_interval=20
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


def protocols(person):
    text = base64.urlsafe_b64encode(person.token.encode()).decode().rstrip("=")
    return ["gristmill.v1", f"bearer.{text}"]


class Tab:
    """A client of the socket."""

    def __init__(self, connection):
        self.connection = connection

    async def send(self, **message):
        await self.connection.send(json.dumps(message))

    async def subscribe(self, id_, after=0):
        await self.send(type="subscribe", experiment=str(id_), after=after)

    async def receive(self, seconds=10):
        async with asyncio.timeout(seconds):
            return json.loads(await self.connection.recv())

    async def events_until(self, seq):
        events = []
        while not events or events[-1]["seq"] < seq:
            frame = await self.receive()
            assert frame["type"] == "events", frame
            events += frame["events"]
        return events

    async def silent(self, seconds=0.3):
        with contextlib.suppress(TimeoutError):
            frame = await self.receive(seconds)
            raise AssertionError(f"not silent: {frame}")


@pytest.fixture
async def tab(served):
    """Open tabs; closed at the end."""
    async with contextlib.AsyncExitStack() as opened:

        async def open_(person):
            uri = f"ws://localhost:{served}/api/v1/ws"
            connecting = connect(uri, subprotocols=protocols(person), origin=ORIGIN_OF(served))
            return Tab(await opened.enter_async_context(connecting))

        yield open_


def ORIGIN_OF(port):
    return f"{ORIGIN}:{port}"


async def made(person, name="first", **changes):
    answer = await person.client.post("/experiments", json=experiment(name, **changes))
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def emit(services, id_, number=1, *, publish=True, kind="block", details=None):
    """Write events as the scheduler does, and publish them after the commit."""
    async with services.sessions() as session:
        last = await session.scalar(
            update(core.experiment)
            .where(core.experiment.c.id == id_)
            .values(last_seq=core.experiment.c.last_seq + number)
            .returning(core.experiment.c.last_seq)
        )
        events = [
            PublishedEvent(
                experiment=id_,
                seq=seq,
                time=1_000_000.0 + seq,
                kind=kind,
                block="double" if kind == "block" else None,
                details=details or {"state": "running", "number": seq},
            )
            for seq in range(last - number + 1, last + 1)
        ]
        await queries.add(session, id_, events)
        await session.commit()
    if publish:
        services.hub.publish(id_, events)
    return last


# ---- who may ----


async def test_without_credentials_there_is_no_socket(served, ann, people):
    uri = f"ws://localhost:{served}/api/v1/ws"
    bad = base64.urlsafe_b64encode(b"no token").decode().rstrip("=")
    for offered in (
        ["gristmill.v1"],
        ["gristmill.v1", f"bearer.{bad}"],
        ["gristmill.v1", "bearer.***"],
        [protocols(ann)[1]],
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(uri, subprotocols=offered)
        assert refused.value.response.status_code == 403


async def test_a_cookie_needs_our_own_origin(served, ann, people):
    uri = f"ws://localhost:{served}/api/v1/ws"
    client = people.anonymous()
    sign_in = {"username": "ann", "password": ann.password}
    headers = {"Origin": ORIGIN}
    answer = await client.post("/auth/session", json=sign_in, headers=headers)
    cookie = {"Cookie": f"gristmill_session={answer.cookies['gristmill_session']}"}
    options = {"subprotocols": ["gristmill.v1"], "additional_headers": cookie}
    for origin in (None, "http://evil.example", "null"):
        with pytest.raises(InvalidStatus):
            await connect(uri, origin=origin, **options)
    async with connect(uri, origin=ORIGIN_OF(served), **options) as connection:
        assert connection.subprotocol == "gristmill.v1"


async def test_others_experiments_cannot_be_followed(tab, ann, bob, services):
    id_ = await made(ann)
    theirs = await tab(bob)
    await theirs.subscribe(id_)
    nothing = str(uuid7())
    assert await theirs.receive() == {
        "type": "unsubscribed",
        "experiment": id_,
        "reason": "not found",
    }
    await theirs.subscribe(nothing)
    assert (await theirs.receive())["reason"] == "not found"
    await emit(services, id_)
    await theirs.silent()


async def test_a_right_that_is_lost_ends_what_is_followed(tab, ann, bob, services):
    id_ = await made(ann, visibility="public")
    theirs = await tab(bob)
    await theirs.subscribe(id_)
    await emit(services, id_)
    await theirs.events_until(1)
    etag = (await ann.client.get(f"/experiments/{id_}")).headers["ETag"]
    edit = {"visibility": "private"}
    await ann.client.patch(f"/experiments/{id_}", json=edit, headers={"If-Match": etag})
    frame = await theirs.receive()
    assert (frame["type"], frame["reason"]) == ("unsubscribed", "not visible any more")
    await emit(services, id_)
    await theirs.silent()


async def test_who_is_signed_out_is_closed(tab, ann, services):
    opened = await tab(ann)
    async with services.sessions() as session:
        await session.execute(
            update(core.user_account)
            .where(core.user_account.c.username == "ann")
            .values(active=False)
        )
        await session.commit()
    services.hub.access_changed()
    with pytest.raises(ConnectionClosed) as closed:
        await opened.receive()
    assert closed.value.rcvd.code == 4401


async def test_a_token_that_expires_closes_the_socket(tab, ann, services):
    opened = await tab(ann)
    await opened.subscribe(str(uuid7()))
    await opened.receive()
    real = services.clock
    services.clock = lambda: real() + timedelta(days=1)
    services.hub.access_changed()
    with pytest.raises(ConnectionClosed) as closed:
        await opened.receive()
    assert closed.value.rcvd.code == 4408


# ---- replay and live ----


async def test_replay_then_live_without_a_gap(tab, ann, services):
    id_ = await made(ann)
    await emit(services, id_, 1234)
    opened = await tab(ann)
    await opened.subscribe(id_, after=3)
    events = await opened.events_until(1234)
    for _ in range(20):
        await emit(services, id_)
    events += await opened.events_until(1254)
    assert [event["seq"] for event in events] == list(range(4, 1255))
    assert events[0]["time"] == "1970-01-12T13:46:44Z"
    assert events[0]["details"] == {"state": "running", "number": 4}


async def test_events_between_subscription_and_replay_are_not_lost(tab, ann, services):
    id_ = await made(ann)
    opened = [await tab(ann) for _ in range(5)]
    emitting = asyncio.create_task(emit_many(services, id_, 60))
    for one in opened:
        await one.subscribe(id_)
        await asyncio.sleep(0.02)
    await emitting
    for one in opened:
        events = await one.events_until(60)
        assert [event["seq"] for event in events] == list(range(1, 61))


async def emit_many(services, id_, number):
    for _ in range(number):
        await emit(services, id_)


async def test_batches_doubled_late_or_missing_are_made_good(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    await opened.subscribe(id_)
    await emit(services, id_, 2)
    await opened.events_until(2)
    await emit(services, id_, 3, publish=False)  # another process, and its hint was lost
    await emit(services, id_, 1)
    events = await opened.events_until(6)
    assert [event["seq"] for event in events] == [3, 4, 5, 6]
    async with services.sessions() as session:
        old = await queries.events_after(session, id_, 0, 100)
    services.hub.publish(id_, old[:4])
    services.hub.publish(id_, old[2:])
    await opened.silent()
    await emit(services, id_, 2, publish=False)
    services.hub.hear(f"e{id_}")
    assert [event["seq"] for event in await opened.events_until(8)] == [7, 8]


async def test_a_client_that_is_cut_goes_on_where_it_was(tab, ann, services):
    id_ = await made(ann)
    got = []
    emitting = asyncio.create_task(emit_many(services, id_, 50))
    while len(got) < 50:
        opened = await tab(ann)
        await opened.subscribe(id_, after=len(got))
        frame = await opened.receive()
        got += [event["seq"] for event in frame["events"]]
        opened.connection.transport.abort()
    await emitting
    assert got == list(range(1, 51))


async def test_a_hint_from_another_process_arrives_through_postgres(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    await opened.subscribe(id_)
    await emit(services, id_)
    await opened.events_until(1)
    services.live.me = "another process"  # its own notifications are now somebody else's
    await emit(services, id_, publish=False)
    services.hub.tell_others(f"e{id_}")
    assert [event["seq"] for event in await opened.events_until(2)] == [2]


async def test_what_no_hint_told_is_found_by_looking(tab, ann, services, monkeypatch):
    monkeypatch.setattr("backend.app.events.live.SWEEP_EVERY", 0.1)
    id_ = await made(ann)
    opened = await tab(ann)
    await opened.subscribe(id_)
    await asyncio.sleep(0.1)
    await emit(services, id_, publish=False)
    assert [event["seq"] for event in await opened.events_until(1)] == [1]


async def test_a_cursor_from_the_future_or_of_what_is_pruned_asks_for_a_snapshot(
    tab, ann, services
):
    id_ = await made(ann)
    await emit(services, id_, 10)
    opened = await tab(ann)
    await opened.subscribe(id_, after=11)
    assert await opened.receive() == {"type": "resync", "experiment": id_}
    async with services.sessions() as session:
        await session.execute(delete(core.event).where(core.event.c.seq <= 5))
        await session.commit()
    await opened.subscribe(id_, after=2)
    assert await opened.receive() == {"type": "resync", "experiment": id_}
    await opened.subscribe(id_, after=5)
    assert len(await opened.events_until(10)) == 5


async def test_a_thousand_subscriptions_are_one(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    for _ in range(1000):
        await opened.subscribe(id_)
    await emit(services, id_)
    frame = await opened.receive()
    while frame["type"] != "events":
        frame = await opened.receive()
    await asyncio.sleep(0.5)
    assert len(services.hub.followers[id_]) == 1
    await opened.send(type="unsubscribe", experiment=id_)
    await emit(services, id_)
    await eventually(lambda: id_ not in services.hub.followers)


async def test_nothing_is_left_behind_by_tabs_that_close(tab, ann, services):
    id_ = await made(ann)
    for _ in range(20):
        opened = await tab(ann)
        await opened.subscribe(id_)
        await opened.send(type="subscribe", list=True)
        await opened.connection.close()
    await eventually(lambda: not (services.hub.followers or services.live.lists.readers))
    assert services.hub.access_listeners == set()


async def test_a_reader_that_is_too_slow_begins_anew(ann, services):
    id_ = await made(ann)
    slow = socket.Socket(None, services, None, None)
    slow.followed = {}
    task = asyncio.create_task(asyncio.sleep(60))
    slow.followed[UUID(id_)] = task
    for number in range(socket.QUEUE):
        slow.send(f"frame {number}")
    assert slow.queue.qsize() == socket.QUEUE
    slow.send("one too many")
    assert slow.queue.qsize() == 1
    assert json.loads(slow.queue.get_nowait()) == {"type": "resync", "experiment": id_}
    assert slow.followed == {}
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_reader_that_takes_nothing_is_closed(served, ann, services, monkeypatch):
    monkeypatch.setattr(socket, "SEND_SECONDS", 0.3)
    id_ = await made(ann)
    big = {"state": "running", "text": "x" * 200_000}
    writer = await deaf_tab(served, ann, id_)
    await eventually(lambda: id_ in services.hub.followers)
    event = PublishedEvent(
        experiment=id_, seq=1, time=0.0, kind="block", block="double", details=big
    )
    seq = 0
    async with asyncio.timeout(60):
        while id_ in services.hub.followers:
            seq += 1
            services.hub.publish(id_, [replace(event, seq=seq)])
            await asyncio.sleep(0.01)
    assert seq < 1000  # some megabytes fit into the system's buffers, and then it is over
    writer.transport.abort()


async def deaf_tab(port, person, id_):
    """Open a socket by hand that asks for events and never reads one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = base64.b64encode(b"0" * 16).decode()
    request = [
        "GET /api/v1/ws HTTP/1.1",
        f"Host: localhost:{port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        f"Sec-WebSocket-Protocol: {', '.join(protocols(person))}",
    ]
    text = json.dumps({"type": "subscribe", "experiment": id_, "after": 0}).encode()
    frame = bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
    writer.write("\r\n".join([*request, "", ""]).encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    writer.write(frame)
    return writer


# ---- the end ----


async def test_the_end_is_said_once_and_a_new_run_goes_on(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    await opened.subscribe(id_)
    await emit(services, id_, kind="experiment", details={"state": "running"})
    await opened.events_until(1)
    await emit(services, id_, kind="experiment", details={"state": "done"})
    await opened.events_until(2)
    assert await opened.receive() == {"type": "end", "experiment": id_, "last_seq": 2}
    await opened.silent()
    await emit(services, id_, kind="experiment", details={"state": "pending"})
    assert len(await opened.events_until(3)) == 1
    await opened.silent()


async def test_a_run_that_has_ended_is_replayed_with_its_end(tab, ann, worker, services):
    id_ = await made(ann)
    await ann.client.post(f"/experiments/{id_}/start")

    async def ended():
        return (await ann.client.get(f"/experiments/{id_}")).json()["state"] == "done"

    await worker.work(ended)
    last = (await ann.client.get(f"/experiments/{id_}")).json()["last_seq"]
    opened = await tab(ann)
    await opened.subscribe(id_)
    events = await opened.events_until(last)
    assert [event["seq"] for event in events] == list(range(1, last + 1))
    assert await opened.receive() == {"type": "end", "experiment": id_, "last_seq": last}
    await opened.subscribe(id_, after=last)
    assert await opened.receive() == {"type": "end", "experiment": id_, "last_seq": last}


async def test_deletion_is_told(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    await opened.send(type="subscribe", list=True)
    await opened.subscribe(id_)
    await emit(services, id_)
    assert (await opened.receive())["type"] == "events"
    assert (await opened.receive())["type"] == "experiment"
    await ann.client.delete(f"/experiments/{id_}", headers={"If-Match": '"1"'})
    frame = await opened.receive()
    assert (frame["type"], frame["events"][0]["kind"]) == ("events", "deleted")
    assert await opened.receive() == {
        "type": "unsubscribed",
        "experiment": id_,
        "reason": "deleted",
    }
    assert await opened.receive() == {"type": "deleted", "experiment": id_}


# ---- the list ----


async def test_the_list_shows_changes_to_those_who_may_see_them(tab, ann, bob, root, services):
    tabs = {person.username: await tab(person) for person in (ann, bob, root)}
    for one in tabs.values():
        await one.send(type="subscribe", list=True)
    await eventually(lambda: len(services.live.lists.readers) == 3)
    private = await made(ann, "private")
    for name in ("ann", "root"):
        frame = await tabs[name].receive()
        assert (frame["type"], frame["experiment"]["id"]) == ("experiment", private)
        assert frame["experiment"]["counts"] == {"blocked": 3}
    await tabs["bob"].silent()
    public = await made(ann, "public", visibility="public")
    for one in tabs.values():
        assert (await one.receive())["experiment"]["id"] == public
    await ann.client.delete(f"/experiments/{private}", headers={"If-Match": '"1"'})
    assert (await tabs["ann"].receive()) == {"type": "deleted", "experiment": private}
    await tabs["bob"].silent()


# ---- nonsense ----


NONSENSE = [
    "no JSON",
    "[]",
    "null",
    "{}",
    '{"type": "subscribe"}',
    '{"type": "subscribe", "experiment": 7}',
    '{"type": "subscribe", "experiment": "x", "after": 0}',
    '{"type": "subscribe", "experiment": "01900000-0000-7000-8000-000000000000", "after": -1}',
    '{"type": "subscribe", "experiment": "01900000-0000-7000-8000-000000000000", "after": 1e99}',
    "[" * 4000,
]


async def test_nonsense_is_answered_and_the_socket_lives(tab, ann, services):
    id_ = await made(ann)
    opened = await tab(ann)
    for text in NONSENSE:
        await opened.connection.send(text)
        assert (await opened.receive())["type"] == "error", text
    await opened.subscribe(id_)
    await emit(services, id_)
    await opened.events_until(1)
    await opened.connection.send("x" * 10_000)
    with pytest.raises(ConnectionClosed):
        await opened.receive()


async def test_leaving_a_group_ends_what_was_followed(tab, ann, people, root, services):
    carl = await people.user("carl", groups=["lab"])
    groups = (await root.client.get("/groups")).json()["items"]
    lab = next(group["id"] for group in groups if group["name"] == "lab")
    id_ = await made(ann)
    body = {"visibility": "shared", "groups": [lab]}
    headers = {"If-Match": '"1"'}
    await ann.client.put(f"/experiments/{id_}/sharing", json=body, headers=headers)
    theirs = await tab(carl)
    await theirs.subscribe(id_)
    await emit(services, id_)
    await theirs.events_until(1)
    left = await root.client.delete(f"/groups/{lab}/members/{carl.id}")
    assert left.status_code in (200, 204), left.text
    assert (await theirs.receive())["type"] == "unsubscribed"
