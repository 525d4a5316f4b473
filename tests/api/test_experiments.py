"""Experiments over the API: made, checked, listed, changed, forked, deleted; and isolation."""

import asyncio

import pytest
from sqlalchemy import func, select

from backend.app.db import core
from tests.experiments.cases import EXPERIMENT, with_block
from tests.lab import declare, experiment, make_lab


@pytest.fixture
async def world(services, people):
    lab = await make_lab(services)
    ann = await people.user("ann", groups=["lab"])
    bob = await people.user("bob")
    await declare(services, ann)
    return lab, ann, bob


async def made(person, name="first", **changes):
    answer = await person.client.post("/experiments", json=experiment(name, **changes))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def rows(services, table):
    async with services.sessions() as session:
        return await session.scalar(select(func.count()).select_from(table))


async def test_an_experiment_is_made_as_a_draft_with_its_blocks(world):
    _, ann, _ = world
    found = await made(ann)
    assert (found["state"], found["owner"], found["mine"]) == ("draft", "ann", True)
    assert found["counts"] == {"blocked": 3}
    snapshot = (await ann.client.get(f"/experiments/{found['id']}/snapshot")).json()
    assert snapshot["as_of_seq"] == 0
    assert [(b["name"], b["kind"], b["queue"], b["environment"]) for b in snapshot["blocks"]] == [
        ("numbers", "dataset", "short", "Python/1"),
        ("double", "block", "short", "Python/1"),
        ("sum", "analyzer", "short", "Python/1"),
    ]
    assert snapshot["blocks"][1]["inputs"] == ["numbers"]


async def test_validation_says_what_is_cached_and_stores_nothing(world, services):
    _, ann, _ = world
    answer = await ann.client.post("/experiments/validate", json=experiment())
    body = answer.json()
    assert (answer.status_code, body["ok"], body["problems"]) == (200, True, [])
    assert [(b["name"], b["cached"]) for b in body["blocks"]] == [
        ("numbers", False),
        ("double", False),
        ("sum", False),
    ]
    assert await rows(services, core.experiment) == 0


BAD = {
    "queue without a right": (
        {"declaration": with_block(queue="secret")},
        "/declaration/blocks/double/queue",
    ),
    "more slots than the right": (
        {"declaration": with_block(nb_slots=5)},
        "/declaration/blocks/double/nb_slots",
    ),
    "environment not offered": (
        {"declaration": with_block(environment={"name": "Python", "version": "9"})},
        "/declaration/blocks/double/environment",
    ),
    "unknown algorithm": (
        {"declaration": with_block(algorithm="ann/nothing/1")},
        "/declaration/blocks/double/algorithm",
    ),
    "unknown toolchain": ({"toolchain": "ann/nothing/1"}, "/toolchain"),
    "no toolchain's name": ({"toolchain": "../../etc/passwd"}, "/toolchain"),
    "dangling port": (
        {"declaration": with_block(inputs={"in": "nowhere"})},
        "/declaration/blocks/double/inputs/in",
    ),
    "parameter of another type": (
        {"declaration": with_block(parameters={"factor": "many"})},
        "/declaration/blocks/double/parameters/factor",
    ),
    "block missing": ({"declaration": {**EXPERIMENT, "blocks": {}}}, "/declaration/blocks/double"),
    "not an object": ({"declaration": []}, "/declaration"),
    "name with a path": ({"name": "../x"}, "/name"),
    "name of HTML": ({"name": "<img src=x onerror=alert(1)>"}, "/name"),
    "name of emoji": ({"name": "🌾"}, "/name"),
    "name of 10,000 characters": ({"name": "x" * 10_000}, "/name"),
    "empty name": ({"name": ""}, "/name"),
    "unknown field": ({"colour": "x"}, "/colour"),
    "visibility": ({"visibility": "everybody"}, "/visibility"),
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
async def test_bad_input_names_its_place_and_stores_nothing(world, services, changes):
    _, ann, _ = world
    change, pointer = changes
    answer = await ann.client.post("/experiments", json={**experiment(), **change})
    body = answer.json()
    assert answer.status_code == 422, body
    assert pointer in [place["pointer"] for place in body["errors"]], body["errors"]
    assert await rows(services, core.experiment) == 0
    assert await rows(services, core.block) == 0


async def test_a_queue_is_for_those_with_a_right_alone(world):
    _, ann, bob = world
    body = experiment(declaration=with_block(queue="long"))
    refused = await bob.client.post("/experiments", json=body)
    assert refused.status_code == 422
    message = refused.json()["errors"][0]["message"]
    assert "no right" in message
    assert "short" in message
    assert (await ann.client.post("/experiments", json=body)).status_code == 201


async def test_a_name_is_taken_once(world):
    _, ann, bob = world
    await made(ann)
    await made(bob)
    again = await ann.client.post("/experiments", json=experiment())
    assert (again.status_code, again.json()["code"]) == (409, "name_taken")


async def test_an_idempotency_key_makes_one_experiment(world, services):
    _, ann, _ = world
    key = {"Idempotency-Key": "k1"}
    sent = [ann.client.post("/experiments", json=experiment(), headers=key) for _ in range(5)]
    answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await rows(services, core.experiment) == 1
    other = await ann.client.post("/experiments", json=experiment("other"), headers=key)
    assert other.status_code == 422


async def test_the_list_is_paged_filtered_and_shows_only_what_one_may_see(world):
    _, ann, bob = world
    ids = [(await made(ann, f"e{number}"))["id"] for number in range(5)]
    public = (await made(ann, "open", visibility="public"))["id"]
    seen, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await ann.client.get("/experiments", params=params)).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [public, *reversed(ids)]
    theirs = (await bob.client.get("/experiments")).json()["items"]
    assert [item["id"] for item in theirs] == [public]
    found = (await ann.client.get("/experiments", params={"q": "E3"})).json()["items"]
    assert [item["name"] for item in found] == ["e3"]
    assert (await ann.client.get("/experiments", params={"q": "%"})).json()["items"] == []
    by_owner = (await bob.client.get("/experiments", params={"owner": "ann"})).json()["items"]
    assert len(by_owner) == 1
    none = (await ann.client.get("/experiments", params={"state": "running"})).json()["items"]
    assert none == []


async def test_the_list_costs_the_same_number_of_queries_for_any_length(world, services):
    _, ann, _ = world
    for number in range(6):
        await made(ann, f"e{number}")
    async with counting(services) as one:
        await ann.client.get("/experiments", params={"limit": 1})
    async with counting(services) as many:
        await ann.client.get("/experiments", params={"limit": 6})
    assert many.count == one.count


class counting:
    """Counts the statements of the requests' pool."""

    def __init__(self, services):
        self.engine = services.engines.requests.sync_engine
        self.count = 0

    def _note(self, *_):
        self.count += 1

    async def __aenter__(self):
        from sqlalchemy import event

        event.listen(self.engine, "before_cursor_execute", self._note)
        return self

    async def __aexit__(self, *_):
        from sqlalchemy import event

        event.remove(self.engine, "before_cursor_execute", self._note)


async def test_edits_need_the_present_revision(world):
    _, ann, _ = world
    found = await made(ann)
    url = f"/experiments/{found['id']}"
    etag = (await ann.client.get(url)).headers["ETag"]
    assert (await ann.client.patch(url, json={"description": "x"})).status_code == 428
    edit = {"description": "new", "declaration": with_block(queue="long")}
    changed = await ann.client.patch(url, json=edit, headers={"If-Match": etag})
    assert changed.status_code == 200, changed.text
    assert changed.json()["description"] == "new"
    stale = await ann.client.patch(url, json={"name": "y"}, headers={"If-Match": etag})
    assert stale.status_code == 412
    blocks = (await ann.client.get(f"{url}/snapshot")).json()["blocks"]
    assert {b["name"]: b["queue"] for b in blocks}["double"] == "long"
    wrong = {"declaration": with_block(queue="secret")}
    headers = {"If-Match": changed.headers["ETag"]}
    assert (await ann.client.patch(url, json=wrong, headers=headers)).status_code == 422
    assert (await ann.client.delete(url)).status_code == 428
    assert (await ann.client.delete(url, headers=headers)).status_code == 204
    assert (await ann.client.get(url)).status_code == 404


async def test_a_fork_is_a_draft_of_ones_own(world):
    _, ann, bob = world
    found = await made(ann, visibility="public", declaration=with_block(queue="long"))
    fork = await bob.client.post(f"/experiments/{found['id']}/fork")
    body = fork.json()
    assert fork.status_code == 201
    assert (body["owner"], body["name"], body["visibility"]) == ("bob", "first-fork", "private")
    assert body["forked_from"] == found["id"]
    second = await bob.client.post(f"/experiments/{found['id']}/fork", json={})
    assert second.json()["name"] == "first-fork-2"
    start = await bob.client.post(f"/experiments/{body['id']}/start")
    assert (start.status_code, start.json()["code"]) == (409, "not_runnable")
    assert start.json()["errors"][0]["pointer"] == "/declaration/blocks/double/queue"


READS = [
    ("GET", ""),
    ("GET", "/snapshot"),
    ("GET", "/events"),
    ("GET", "/results"),
    ("GET", "/blocks/double"),
    ("GET", "/blocks/double/log"),
    ("GET", "/blocks/double/outputs/out"),
    ("GET", "/blocks/double/explain"),
    ("GET", "/blocks/double/story"),
    ("POST", "/fork"),
]
WRITES = [("PATCH", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/stop")]


async def call(person, method, path, id_):
    json = {} if method in ("PATCH", "POST") else None
    headers = {"If-Match": '"1"'}
    return await person.client.request(
        method, f"/experiments/{id_}{path}", json=json, headers=headers
    )


@pytest.mark.parametrize(("method", "path"), READS + WRITES)
async def test_what_one_may_not_see_is_not_there(world, method, path):
    _, ann, bob = world
    found = await made(ann)
    answer = await call(bob, method, path, found["id"])
    nothing = await call(bob, method, path, "01900000-0000-7000-8000-000000000000")
    assert (answer.status_code, nothing.status_code) == (404, 404)
    kept = ("title", "status", "code")
    assert {k: answer.json()[k] for k in kept} == {k: nothing.json()[k] for k in kept}
    assert (await ann.client.get(f"/experiments/{found['id']}")).json()["state"] == "draft"


@pytest.mark.parametrize(("method", "path"), WRITES)
async def test_what_one_sees_of_others_one_may_not_change(world, method, path):
    _, ann, bob = world
    found = await made(ann, visibility="public")
    assert (await call(bob, method, path, found["id"])).status_code == 403


async def test_sharing_with_a_group_shows_it_to_its_members(world, services, people):
    _, ann, bob = world
    carl = await people.user("carl", groups=["lab"])
    found = await made(ann, visibility="shared")
    async with services.sessions() as session:
        lab = await session.scalar(
            select(core.user_group.c.id).where(core.user_group.c.name == "lab")
        )
        await session.execute(
            core.share.insert().values(kind="experiment", thing_id=found["id"], group_id=lab)
        )
        await session.commit()
    assert (await carl.client.get(f"/experiments/{found['id']}")).json()["mine"] is False
    assert (await bob.client.get(f"/experiments/{found['id']}")).status_code == 404


async def test_private_algorithms_of_others_are_unknown(services, people):
    await make_lab(services)
    ann, bob = await people.user("ann"), await people.user("bob")
    await declare(services, ann, visibility="private")
    body = experiment()
    assert (await ann.client.post("/experiments", json=body)).status_code == 201
    refused = await bob.client.post("/experiments", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "unknown"


async def test_the_owner_shares_with_groups_of_their_own(world, services, people):
    _, ann, bob = world
    carl = await people.user("carl", groups=["lab"])
    found = await made(ann)
    url = f"/experiments/{found['id']}"
    async with services.sessions() as session:
        lab = await session.scalar(
            select(core.user_group.c.id).where(core.user_group.c.name == "lab")
        )
    body = {"visibility": "shared", "groups": [str(lab)]}
    assert (await ann.client.put(f"{url}/sharing", json=body)).status_code == 428
    headers = {"If-Match": '"1"'}
    shared = await ann.client.put(f"{url}/sharing", json=body, headers=headers)
    assert (shared.status_code, shared.json()["groups"]) == (200, [str(lab)])
    assert (await carl.client.get(url)).json()["groups"] == []
    assert (await bob.client.get(url)).status_code == 404
    headers = {"If-Match": shared.headers["ETag"]}
    assert (await carl.client.put(f"{url}/sharing", json=body, headers=headers)).status_code == 403
    wrong = {"visibility": "public", "groups": [str(lab)]}
    assert (await ann.client.put(f"{url}/sharing", json=wrong, headers=headers)).status_code == 422
    mine = await made(bob, "bobs")
    theirs = await bob.client.put(
        f"/experiments/{mine['id']}/sharing", json=body, headers={"If-Match": '"1"'}
    )
    assert theirs.status_code == 422
