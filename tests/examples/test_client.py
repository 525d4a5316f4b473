"""The client: what it repeats, what it raises, and the sync form made of the async one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gristmill import client as clients
from gristmill.client import AsyncClient, Client, requests
from gristmill.client.models import Experiment, read
from gristmill.errors import BadValue
from scripts.make_sync_client import FOLDER, made

EXPERIMENT = {
    "id": "00000000-0000-0000-0000-000000000001",
    "name": "digits",
    "owner": "ann",
    "toolchain": "ann/digits/1",
    "state": "draft",
    "counts": {},
    "created_at": "2026-03-01T10:00:00Z",
    "something_new": {"of": "a newer server"},
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Retries come at once; the pauses asked for are kept."""
    asked: list[float] = []
    monkeypatch.setattr("time.sleep", asked.append)
    return asked


class Server:
    """Answers in turn; the last answer again and again."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, token: str | None = "secret") -> Client:
        return Client("http://farm", token, transport=httpx.MockTransport(self))


def ok(body: Any, **headers: str) -> httpx.Response:
    return httpx.Response(200, json=body, headers=headers)


def test_the_sync_client_is_made_of_the_async_one() -> None:
    source = (FOLDER / "asynchronous.py").read_text()
    assert (FOLDER / "synchronous.py").read_text() == made(source)


def test_an_answer_becomes_a_value_and_new_fields_harm_nothing() -> None:
    experiment = read(Experiment, EXPERIMENT)
    assert experiment.created_at is not None
    assert experiment.created_at.year == 2026
    assert experiment.raw["something_new"] == {"of": "a newer server"}
    with pytest.raises(KeyError, match="no 'state'"):
        read(Experiment, {key: value for key, value in EXPERIMENT.items() if key != "state"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, clients.NotSignedIn),
        (404, clients.NotFound),
        (409, clients.Conflict),
        (412, clients.Conflict),
        (422, clients.Invalid),
        (403, clients.ApiError),
        (500, clients.ServerFailed),
    ],
)
def test_a_refusal_is_raised_with_its_sentence_and_places(
    status: int, kind: type[clients.ApiError]
) -> None:
    problem = {
        "title": "Wrong",
        "detail": "The experiment is wrong",
        "code": "invalid",
        "errors": [
            {"pointer": "/blocks/a", "message": "There is no algorithm a/b/1", "code": "unknown"}
        ],
        "request_id": "r1",
    }
    server = Server(httpx.Response(status, json=problem))
    with server.client() as client, pytest.raises(kind) as caught:
        client.me()
    assert str(caught.value) == "The experiment is wrong\n  /blocks/a: There is no algorithm a/b/1"
    assert (caught.value.status, caught.value.request_id) == (status, "r1")


def test_an_answer_that_is_no_problem_document_is_told_by_its_status() -> None:
    server = Server(httpx.Response(500, text="<html>"))
    with server.client() as client, pytest.raises(clients.ServerFailed, match="status 500"):
        client.me()


def test_what_may_be_repeated_is_repeated() -> None:
    lost = httpx.ReadTimeout("lost")
    busy = httpx.Response(503)
    user = ok({"id": "1", "username": "ann"})
    server = Server(lost, busy, user)
    with server.client() as client:
        assert client.me().username == "ann"
    assert len(server.requests) == 3


def test_a_new_experiment_is_repeated_under_the_same_key() -> None:
    server = Server(httpx.ReadError("cut"), httpx.Response(201, json=EXPERIMENT))
    with server.client() as client:
        client.create_experiment("digits", toolchain="ann/digits/1", declaration={})
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (2, 1)


@pytest.mark.parametrize("answer", [httpx.ReadError("cut"), httpx.Response(503)])
def test_what_may_not_be_repeated_is_not(answer: httpx.Response | Exception) -> None:
    server = Server(answer)
    with server.client() as client, pytest.raises((clients.Unreachable, clients.ServerFailed)):
        client.start_experiment(EXPERIMENT["id"])  # type: ignore[arg-type]
    assert len(server.requests) == 1


def test_what_was_never_sent_is_sent_again() -> None:
    server = Server(httpx.ConnectError("refused"), ok(EXPERIMENT))
    with server.client() as client:
        client.start_experiment(str(EXPERIMENT["id"]))
    assert len(server.requests) == 2


def test_it_gives_up_in_a_sentence() -> None:
    server = Server(httpx.ConnectError("refused"))
    with server.client() as client, pytest.raises(clients.Unreachable, match="does not answer"):
        client.me()
    assert len(server.requests) == requests.MOST_TRIES


def test_a_busy_server_says_when_to_come_back(pauses: list[float]) -> None:
    server = Server(
        httpx.Response(429, headers={"Retry-After": "7"}), ok({"id": "1", "username": "ann"})
    )
    with server.client() as client:
        client.me()
    assert pauses == [7.0]


def test_an_old_token_is_renewed_once() -> None:
    tokens = {"access_token": "a", "refresh_token": "r", "expires_in": 60}
    user = ok({"id": "1", "username": "ann"})
    server = Server(
        ok(tokens), user, httpx.Response(401), ok({**tokens, "access_token": "b"}), user
    )
    with server.client(None) as client:
        client.sign_in("ann", "pw")
        client.me()
    assert server.requests[-1].headers["Authorization"] == "Bearer b"
    assert "Authorization" not in server.requests[3].headers


def test_an_edit_names_what_it_changes() -> None:
    server = Server(ok(EXPERIMENT, ETag='"4"'), httpx.Response(204))
    with server.client() as client:
        client.delete_experiment(str(EXPERIMENT["id"]))
    assert server.requests[1].headers["If-Match"] == '"4"'


def test_watching_goes_on_after_the_last_event_seen() -> None:
    def event(seq: int) -> dict[str, Any]:
        return {
            "seq": seq,
            "time": "2026-03-01T10:00:00Z",
            "kind": "block",
            "block": "a",
            "details": {},
        }

    server = Server(
        ok({"events": [event(1), event(2)], "last_seq": 3, "ended": True}),
        ok({"events": [event(3)], "last_seq": 3, "ended": True}),
    )
    with server.client() as client:
        assert [one.seq for one in client.watch("x")] == [1, 2, 3]
    assert [request.url.params["after"] for request in server.requests] == ["0", "2"]


def test_lists_are_read_to_their_end() -> None:
    server = Server(
        ok({"items": [EXPERIMENT], "next": "c1"}), ok({"items": [EXPERIMENT], "next": None})
    )
    with server.client() as client:
        assert len(client.experiments(q="digits")) == 2
    assert server.requests[1].url.params["cursor"] == "c1"
    assert "state" not in server.requests[1].url.params


@pytest.mark.parametrize("url", ["farm", "ftp://farm", "http://", "http://a:b@farm"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadValue):
        Client(url)


def test_names_never_leave_their_place_in_a_path() -> None:
    assert requests.path_of("algorithms", "a?b/c#d/1") == "/algorithms/a%3Fb/c%23d/1"
    assert requests.path_id("../admin?x=1") == "..%2Fadmin%3Fx%3D1"


async def test_the_async_client_does_the_same() -> None:
    server = Server(httpx.Response(503), ok({"id": "1", "username": "ann"}))

    async def handle(request: httpx.Request) -> httpx.Response:
        return server(request)

    async with AsyncClient("http://farm", "t", transport=httpx.MockTransport(handle)) as client:
        assert (await client.me()).username == "ann"
    assert len(server.requests) == 2
