"""Every route of the application, as it is, against who may call it: made from app.routes.

`RULES` says it for each operation; a new endpoint without a rule fails here. The rest of the file
asks every route: without credentials, with everybody else's kind of credential, as somebody who is
no administrator, as somebody to whom the thing does not belong, with a token that only reads.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic import SecretStr

from backend.app.auth.actors import issue_worker_token
from backend.app.db.tables import (
    Algorithm,
    Block,
    Database,
    DataFormat,
    Environment,
    Experiment,
    Library,
    Queue,
    QueueEnvironment,
    Toolchain,
)
from backend.app.main import create_app
from backend.app.services import Services
from backend.app.settings import Settings
from tests.people import BASE_URL, People, Person


class Who(StrEnum):
    """Who may call an operation."""

    ANYBODY = "anybody"
    MACHINE = "this machine, or the bearer of the metrics token"
    USER = "a user"  # and the thing must be visible, or their own to change it
    ADMIN = "an administrator"
    WORKER = "a worker, by the token of its registration"
    CREDENTIAL = "a worker, by its credential"


def _of(who: Who, names: str) -> dict[str, Who]:
    return dict.fromkeys(names.split(), who)


RULES: dict[str, Who] = {
    **_of(Who.ANYBODY, "openapi get_health get_readiness sign_in create_token refresh_token"),
    **_of(Who.MACHINE, "get_metrics"),
    **_of(Who.USER, "sign_out get_me update_me change_password list_usable_queues get_monitor"),
    **_of(Who.USER, "list_personal_tokens create_personal_token delete_personal_token"),
    **_of(Who.USER, "list_environments get_environment list_queues get_queue"),
    **_of(Who.USER, "list_libraries create_library get_library update_library delete_library"),
    **_of(Who.USER, "list_algorithms create_algorithm get_algorithm update_algorithm"),
    **_of(Who.USER, "list_dataformats create_dataformat get_dataformat update_dataformat"),
    **_of(Who.USER, "list_toolchains create_toolchain get_toolchain update_toolchain"),
    **_of(Who.USER, "list_databases create_database get_database update_database"),
    **_of(Who.USER, "delete_algorithm delete_dataformat delete_toolchain delete_database"),
    **_of(Who.USER, "share_library share_algorithm share_dataformat share_toolchain"),
    **_of(Who.USER, "share_database list_database_files upload_database_file"),
    **_of(Who.USER, "delete_database_file"),
    **_of(Who.USER, "create_experiment validate_experiment list_experiments get_experiment"),
    **_of(Who.USER, "update_experiment delete_experiment start_experiment stop_experiment"),
    **_of(Who.USER, "fork_experiment get_experiment_snapshot list_experiment_events"),
    **_of(Who.USER, "get_experiment_results get_block get_block_log preview_block_output"),
    **_of(Who.USER, "explain_block get_block_story share_experiment follow"),
    **_of(Who.ADMIN, "list_users create_user get_user update_user delete_user"),
    **_of(Who.ADMIN, "list_groups create_group get_group update_group delete_group"),
    **_of(Who.ADMIN, "list_group_members add_group_member remove_group_member"),
    **_of(Who.ADMIN, "list_rights set_right delete_right"),
    **_of(Who.ADMIN, "create_environment update_environment delete_environment"),
    **_of(Who.ADMIN, "create_queue update_queue delete_queue"),
    **_of(Who.ADMIN, "list_slot_shares set_slot_share delete_slot_share"),
    **_of(Who.ADMIN, "list_workers get_worker drain_worker resume_worker delete_worker"),
    **_of(Who.ADMIN, "list_worker_credentials create_worker_credential"),
    **_of(Who.ADMIN, "delete_worker_credential get_scheduler_state cancel_all_experiments"),
    **_of(Who.ADMIN, "get_cache clean_cache get_policy set_policy get_log_levels set_log_level"),
    **_of(Who.ADMIN, "list_audit"),
    **_of(Who.WORKER, "send_heartbeat poll_for_work send_reports download_input"),
    **_of(Who.WORKER, "get_upload_offset upload_output"),
    **_of(Who.CREDENTIAL, "register_worker"),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a route."""

    name: str
    method: str
    path: str

    def at(self, **values: object) -> str:
        """Return its path with values for the parameters, ids and names otherwise."""
        filled = self.path.replace(":path}", "}")
        given = {name: values.get(name, _example(name)) for name in _parameters(filled)}
        return filled.format(**given)


def _parameters(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:]]


def _example(parameter: str) -> object:
    if parameter in {"version", "number"}:
        return 1
    return uuid4() if parameter == "id" or parameter.endswith("_id") else "x"


def _operations() -> Iterator[Operation]:
    app = create_app(Settings(database_url=SecretStr("postgresql://nowhere/none")))
    for route in iter_route_contexts(app.routes):
        for method in sorted(getattr(route, "methods", None) or ()):
            if not (method == "HEAD" and route.name == "openapi"):  # a GET without its body
                yield Operation(str(route.name), method, str(route.path))


OPERATIONS = list(_operations())
GUARDED = [o for o in OPERATIONS if RULES.get(o.name) not in (Who.ANYBODY, Who.MACHINE)]


def _with(*who: Who) -> list[Operation]:
    return [o for o in OPERATIONS if RULES.get(o.name) in who]


def _name(value: object) -> str:
    return value.name if isinstance(value, Operation) else str(value)


#: Bodies that are sound in form, where an empty object is not.
BODIES: dict[str, Any] = {
    "update_me": {"email": ""},
    "change_password": {"current_password": "x", "new_password": "0123456789"},
    "create_personal_token": {"name": "x"},
    **{o.name: {"visibility": "private"} for o in OPERATIONS if o.name.startswith("share_")},
}


async def _call(client: httpx.AsyncClient, operation: Operation, path: str) -> httpx.Response:
    body = BODIES.get(operation.name, {})
    content = None if operation.method in {"GET", "HEAD", "DELETE"} else json.dumps(body)
    headers = {"Content-Type": "application/json"} if content else {}
    url = f"{BASE_URL}{path}"
    return await client.request(operation.method, url, content=content, headers=headers)


# ---- the table ----------------------------------------------------------------------------


def test_every_operation_has_a_rule() -> None:
    sockets = {"follow"}  # tests/api/test_socket.py
    assert {o.name for o in OPERATIONS} == RULES.keys() - sockets


def test_operation_ids_are_unique() -> None:
    names = sorted(o.name for o in OPERATIONS)
    assert names == sorted(set(names))


def test_what_is_open_is_few_and_of_exact_names() -> None:
    assert {o.path for o in _with(Who.ANYBODY, Who.MACHINE)} == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/openapi.json",
        "/api/v1/auth/session",
        "/api/v1/auth/token",
        "/api/v1/auth/refresh",
    }


# ---- without, or with the wrong kind of, credentials --------------------------------------


def _is_refusal(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    if answer.request.method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"
        document = answer.json()
        assert document["status"] == status
        assert document["request_id"] == answer.headers["x-request-id"]


async def test_without_credentials_nothing_but_the_open_routes_answers(people: People) -> None:
    client = people.anonymous()
    for operation in GUARDED:
        _is_refusal(await _call(client, operation, operation.at()), 401)


async def test_a_credential_of_another_kind_opens_nothing(
    people: People, services: Services
) -> None:
    """A user's tokens at a worker's door, a worker's at a user's, a refresh token anywhere."""
    admin = await people.admin()
    form = {"username": "admin", "password": admin.password}
    refresh = (await people.anonymous().post("/auth/token", data=form)).json()["refresh_token"]
    body = {"name": "all", "scopes": ["read", "write", "admin"]}
    personal = (await admin.client.post("/me/tokens", json=body)).json()["token"]
    made = await admin.client.post("/worker-credentials", json={"worker_name": "w"})
    credential = made.json()["token"]
    worker = _worker_token(services)
    users, workers = [admin.token, personal], [worker]
    for operation in GUARDED:
        wrong = {
            Who.WORKER: [*users, credential],
            Who.CREDENTIAL: [*users, *workers],
        }.get(RULES[operation.name], [*workers, credential])
        for token in [*wrong, refresh, "", "x", f"{admin.token}x"]:
            answer = await _call(people.bearer(token), operation, operation.at())
            _is_refusal(answer, 401)


def _worker_token(services: Services) -> str:
    token, _ = issue_worker_token(
        services,
        worker=uuid4(),
        name="w",
        session=uuid4(),
        credential=uuid4(),
        now=services.clock(),
    )
    return token


async def test_who_is_no_administrator_gets_nowhere_on_their_routes(people: People) -> None:
    bo = await people.user("bo")
    for operation in _with(Who.ADMIN):
        _is_refusal(await _call(bo.client, operation, operation.at()), 403)


async def test_an_administrators_token_without_the_scope_is_no_administrators(
    people: People,
) -> None:
    admin = await people.admin()
    body = {"name": "t", "scopes": ["read", "write"]}
    token = (await admin.client.post("/me/tokens", json=body)).json()["token"]
    for operation in _with(Who.ADMIN):
        _is_refusal(await _call(people.bearer(token), operation, operation.at()), 403)


async def test_a_token_that_reads_changes_nothing(people: People) -> None:
    bo = await people.user("bo")
    body = {"name": "t", "scopes": ["read"]}
    token = (await bo.client.post("/me/tokens", json=body)).json()["token"]
    for operation in _with(Who.USER):
        if operation.method not in {"GET", "HEAD"}:
            _is_refusal(await _call(people.bearer(token), operation, operation.at()), 403)


async def test_a_worker_that_is_not_registered_gets_nothing(
    people: People, services: Services
) -> None:
    """Its token is sound; its registration is not in force, and no attempt is its own."""
    client = people.bearer(_worker_token(services))
    for operation in _with(Who.WORKER):
        answer = await _call(client, operation, operation.at())
        assert 400 <= answer.status_code < 500, operation
    for operation in _with(Who.WORKER):
        if "{attempt}" in operation.path:
            path = operation.at(attempt=f"{uuid4()}.0.1")
            assert (await _call(client, operation, path)).status_code in {401, 403, 404, 409, 422}


# ---- other people's things ----------------------------------------------------------------


@pytest.fixture
async def bo(people: People, services: Services) -> Person:
    """Somebody who has one of everything, all private."""
    bo = await people.user("bo")
    now = services.clock()
    versioned: dict[str, Any] = {
        "owner_id": bo.id,
        "owner": "bo",
        "name": "x",
        "version": 1,
        "declaration": {},
        "content_hash": "0" * 64,
        "created_at": now,
    }
    environment = Environment(name="e", version="1", created_at=now)
    queue = Queue(
        name="q",
        memory_mb=1,
        time_limit_seconds=1,
        slots_per_worker=1,
        default_environment_id=environment.id,
        created_at=now,
    )
    experiment = Experiment(
        id=EXPERIMENT,
        owner_id=bo.id,
        owner="bo",
        name="x",
        toolchain="bo/x/1",
        toolchain_declaration={},
        declaration={},
        created_at=now,
    )
    block = Block(
        experiment_id=EXPERIMENT,
        name="x",
        kind="block",
        position=0,
        inputs=[],
        parameters={},
        job={},
        queue_id=queue.id,
        environment_name="e",
        environment_version="1",
        key="0" * 64,
    )
    async with services.sessions() as session:
        session.add_all([Algorithm(**versioned), Database(**versioned), DataFormat(**versioned)])
        session.add_all([Library(**versioned, files={}), Toolchain(**versioned), environment])
        await session.flush()
        session.add(queue)
        await session.flush()
        session.add(QueueEnvironment(queue_id=queue.id, environment_id=environment.id))
        session.add(experiment)
        await session.flush()
        session.add(block)
        await session.commit()
    return bo


EXPERIMENT = uuid4()
_OWNED = [
    operation
    for operation in OPERATIONS
    if "{id}" in operation.path or "{version}" in operation.path
]


async def test_what_is_somebody_elses_is_not_there(people: People, bo: Person) -> None:
    """404 for whatever one does with it, and the same answer as for what nobody has."""
    eve = await people.user("eve")
    assert len(_OWNED) > 35
    for operation in _OWNED:
        path = operation.at(id=EXPERIMENT, owner="bo")
        answer = await _call(eve.client, operation, path)
        _is_refusal(answer, 404)
        nowhere = await _call(eve.client, operation, operation.at(id=uuid4(), name="nothing"))
        assert nowhere.status_code == 404
        assert nowhere.json()["code"] == answer.json()["code"]


async def test_one_sees_ones_own(bo: Person) -> None:
    """So that the test above does not pass for want of the things."""
    for operation in _OWNED:
        if operation.method == "GET" and operation.name.startswith(("get_", "list_")):
            path = operation.at(id=EXPERIMENT, owner="bo")
            if operation.name not in {"get_block_story", "get_block_log", "get_block"}:
                assert (await _call(bo.client, operation, path)).status_code == 200, path


async def test_lists_hold_nothing_of_others(people: People, bo: Person) -> None:
    eve = await people.user("eve")
    lists = ("libraries", "algorithms", "dataformats", "toolchains", "databases", "experiments")
    for plural in lists:
        assert (await eve.client.get(f"/{plural}")).json()["items"] == [], plural
        assert len((await bo.client.get(f"/{plural}")).json()["items"]) == 1, plural


# ---- names that look like the open routes -------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/libraries/bo/healthz/1",
        "/api/v1/toolchains/metrics/readyz/1",
        "/api/v1/users/healthz",
        "/api/v1/queues/x-ready",
        "/api/v1/experiments/health",
    ],
)
async def test_a_name_like_an_open_route_opens_nothing(
    client: httpx.AsyncClient, path: str
) -> None:
    assert (await client.get(path)).status_code == 401


@pytest.mark.parametrize(
    "path",
    ["/healthz/", "//healthz", "/healthz/..%2fapi", "/api/v1/healthz", "/HEALTHZ", "/x/healthz"],
)
async def test_open_routes_are_exact(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(f"{BASE_URL}{path}")
    assert answer.status_code in {401, 404}


# ---- methods ------------------------------------------------------------------------------


async def test_a_method_that_is_not_there_is_refused_as_a_problem(
    client: httpx.AsyncClient,
) -> None:
    paths = {o.path for o in OPERATIONS}
    for path, method in itertools.product(sorted(paths), ["PUT", "PATCH", "DELETE", "POST"]):
        there = {o.method for o in OPERATIONS if o.path == path}
        if method not in there:
            url = BASE_URL + Operation("", method, path).at()
            answer = await client.request(method, url)
            # 401: another path with a parameter has the method
            assert answer.status_code in {401, 404, 405}, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert "code" in answer.json()


def test_no_route_is_forgotten(app: FastAPI) -> None:
    """`iter_route_contexts` saw as many HTTP operations as the API's description holds."""
    described = {
        operation["operationId"]
        for path in app.openapi()["paths"].values()
        for operation in path.values()
    }
    assert described == {o.name for o in OPERATIONS} - {"openapi"}
