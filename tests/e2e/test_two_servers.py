"""Two server processes on one database: one schedules, the other serves, and takes over."""

import asyncio
import base64
import json

import pytest
from websockets.asyncio.client import connect

from tests.e2e.conftest import patiently
from tests.server_process import ServerProcess

pytestmark = pytest.mark.e2e


@pytest.fixture
def standby(house):
    """A second process, with the same data folder."""
    server = ServerProcess(house.server.data, house.server.environment)
    server.start()
    yield server
    server.stop()


async def follow(url, token, experiment):
    """Yield the events of an experiment as a browser at that server gets them."""
    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    uri = f"{url.replace('http', 'ws', 1)}/api/v1/ws"
    async with connect(uri, subprotocols=["gristmill.v1", f"bearer.{encoded}"]) as socket:
        await socket.send(json.dumps({"type": "subscribe", "experiment": experiment, "after": 0}))
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "end":
                return
            for event in frame["events"]:
                yield event


async def test_browsers_at_the_other_server_hear_everything_and_it_takes_over(house, standby):
    worker = await house.worker("w1")
    id_ = await house.started("first")
    heard = asyncio.create_task(collect(follow(standby.url, house.token, id_)))
    (dataset,) = (await worker.poll())["assignments"]
    await worker.run(dataset)
    (block,) = (await worker.poll())["assignments"]
    await worker.start(block)
    house.server.kill()
    worker.client = await house.client(url=standby.url)
    root = await house.client(house.token, url=standby.url)
    assert await worker.finish(block) == "taken"
    (analyzer,) = (await worker.poll())["assignments"]
    await worker.run(analyzer)
    found = (await patiently(root, "GET", f"/experiments/{id_}")).json()
    assert (found["state"], found["counts"]) == ("done", {"done": 3})
    async with asyncio.timeout(30):
        events = await heard
    assert [event["seq"] for event in events] == list(range(1, found["last_seq"] + 1))


async def collect(events):
    return [event async for event in events]
