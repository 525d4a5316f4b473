"""The description of the API: in step with the code, complete, and true (schemathesis)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from backend.app.main import create_app
from backend.app.openapi import operations, written
from backend.app.settings import Settings
from gristmill import protocol
from tests.server_process import ServerProcess, open_folder

FILE = Path(__file__).parents[2] / "openapi" / "openapi.json"
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
EXAMPLES = 12  #: of each operation, sound and unsound ones
DESCRIBED = json.loads(FILE.read_text())
SCHEMA = schemathesis.openapi.from_dict(DESCRIBED)
SCHEMA.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
FOUND: list[Any] = list(SCHEMA.get_all_operations())
OPERATIONS = [found.ok() for found in FOUND]  # an unsound description raises here


def test_the_file_is_what_the_code_says() -> None:
    assert FILE.read_text() == written(create_app(Settings()).openapi()), "run `make openapi`"


def test_operation_ids_are_unique_and_plain() -> None:
    ids = [operation["operationId"] for operation in operations(DESCRIBED)]
    assert len(ids) == len(set(ids))
    assert all(name.isidentifier() and name == name.lower() for name in ids)


def test_every_operation_says_what_it_does_and_how_it_fails() -> None:
    for operation in operations(DESCRIBED):
        assert operation.get("description"), operation["operationId"]
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        assert "422" not in operation["responses"], "FastAPI's own form, which we do not send"


def test_every_property_of_a_list_is_paged() -> None:
    """A list either is a page, or is short by its nature."""
    short = {"list_usable_queues", "list_personal_tokens"}
    for operation in operations(DESCRIBED):
        name = operation["operationId"]
        if name.startswith("list_") and name not in short | {"list_experiment_events"}:
            parameters = {parameter["name"] for parameter in operation["parameters"]}
            assert {"limit", "cursor"} <= parameters, name


# ---- what the server answers is what the description says ----------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with open_folder() as folder:
        started = ServerProcess(folder / "data", {"GRISTMILL_LOG_LEVEL": "WARNING"})
        started.start()
        yield started
        started.stop()


@pytest.fixture(scope="module")
def tokens(server: ServerProcess) -> dict[str, str]:
    """An administrator's token, a worker's credential, and a registered worker's token."""
    user = server.create_admin()
    with server.client(user) as client:
        made = client.post("/worker-credentials", json={"worker_name": "w1"})
        credential: str = made.raise_for_status().json()["token"]
    hello = protocol.Register(
        protocol=protocol.VERSION,
        name="w1",
        host="h",
        cores=1,
        memory_mb=1000,
        executor="process",
        sandbox="none",
        limits="polling",
        version="0",
        environments=(),
    )
    with server.client(credential) as client:
        answer = client.post("/worker/register", json=protocol.dump(hello))
        worker: str = answer.raise_for_status().json()["token"]
    return {"user": user, "credential": credential, "worker": worker}


def _token(tokens: dict[str, str], path: str) -> str:
    if path == "/api/v1/worker/register":
        return tokens["credential"]
    return tokens["worker" if path.startswith("/api/v1/worker/") else "user"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_no_answer_is_our_fault_or_undescribed(
    operation: Any, server: ServerProcess, tokens: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {_token(tokens, operation.path)}"}
    strategy = operation.as_strategy(generation_mode=GenerationMode.POSITIVE) | (
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    )

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def ask(case: Any) -> None:
        if isinstance(case.body, dict) and "wait" in case.body:
            case.body["wait"] = 0
        if isinstance(case.query, dict) and "wait" in case.query:
            case.query["wait"] = 0
        answer = case.call(base_url=server.url, headers=headers, timeout=20)
        case.validate_response(answer, checks=CHECKS)

    ask()
