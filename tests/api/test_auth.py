"""Signing in and out, tokens, and what each of them opens."""

from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from backend.app.services import Services
from tests.people import API, BASE_URL, PASSWORD, People

ORIGIN = {"Origin": BASE_URL}


@pytest.fixture
async def api(client: httpx.AsyncClient) -> httpx.AsyncClient:
    client.base_url = API
    return client


async def _tokens(
    api: httpx.AsyncClient, username: str, password: str = PASSWORD
) -> dict[str, Any]:
    answer = await api.post("/auth/token", data={"username": username, "password": password})
    tokens: dict[str, Any] = answer.raise_for_status().json()
    return tokens


async def test_a_browser_signs_in_and_out(people: People, api: httpx.AsyncClient) -> None:
    bo = await people.user("bo", groups=["lab"])
    body = {"username": "bo", "password": PASSWORD}
    answer = await api.post("/auth/session", json=body, headers=ORIGIN)
    assert answer.status_code == 201
    assert [group["name"] for group in answer.json()["groups"]] == ["default", "lab"]
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert (await api.get("/me")).json()["id"] == str(bo.id)
    assert (await api.delete("/auth/session", headers=ORIGIN)).status_code == 204
    api.cookies.set("gristmill_session", cookie.split(";")[0].split("=", 1)[1])
    assert (await api.get("/me")).status_code == 401  # the session is gone, not only the cookie


@pytest.mark.parametrize("username", ["bo", "nobody"])
async def test_a_wrong_password_and_a_wrong_name_look_alike(
    people: People, api: httpx.AsyncClient, username: str
) -> None:
    await people.user("bo")
    body = {"username": username, "password": "wrong password"}
    answer = await api.post("/auth/session", json=body, headers=ORIGIN)
    assert answer.status_code == 401
    assert answer.json()["code"] == "wrong_password"
    assert answer.json()["detail"] == "wrong username or password"


async def test_too_many_wrong_passwords_lock_this_address_for_a_while(
    people: People, api: httpx.AsyncClient, services: Services
) -> None:
    await people.user("bo")
    form = {"username": "bo", "password": "wrong password"}
    for _ in range(services.settings.login_attempts):
        assert (await api.post("/auth/token", data=form)).status_code == 401
    answer = await api.post("/auth/token", data={**form, "password": PASSWORD})
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= services.settings.login_window_seconds
    later = services.clock() + timedelta(seconds=services.settings.login_window_seconds)
    services.clock = lambda: later
    assert (await api.post("/auth/token", data={**form, "password": PASSWORD})).is_success


async def test_a_refresh_token_works_once_and_reuse_ends_the_family(
    people: People, api: httpx.AsyncClient
) -> None:
    await people.user("bo")
    first = await _tokens(api, "bo")
    second = await api.post("/auth/refresh", json={"refresh_token": first["refresh_token"]})
    assert second.is_success
    reused = await api.post("/auth/refresh", json={"refresh_token": first["refresh_token"]})
    assert reused.status_code == 401
    assert reused.json()["code"] == "refresh_reuse"
    newest = {"refresh_token": second.json()["refresh_token"]}
    assert (await api.post("/auth/refresh", json=newest)).status_code == 401


async def test_an_access_token_ends_with_its_time(people: People, services: Services) -> None:
    bo = await people.user("bo")
    assert (await bo.client.get("/me")).is_success
    later = services.clock() + timedelta(seconds=services.settings.access_token_seconds + 1)
    services.clock = lambda: later
    assert (await bo.client.get("/me")).status_code == 401


async def test_a_new_password_ends_every_token_made_of_the_old_one(
    people: People, api: httpx.AsyncClient
) -> None:
    bo = await people.user("bo")
    tokens = await _tokens(api, "bo")
    change = {"current_password": PASSWORD, "new_password": "another password"}
    assert (await bo.client.put("/me/password", json=change)).status_code == 204
    assert (await bo.client.get("/me")).status_code == 401
    refresh = {"refresh_token": tokens["refresh_token"]}
    assert (await api.post("/auth/refresh", json=refresh)).status_code == 401
    assert (await _tokens(api, "bo", "another password"))["access_token"]


async def test_a_password_is_changed_only_by_who_knows_it(people: People) -> None:
    bo = await people.user("bo")
    change = {"current_password": "not this one", "new_password": "another password"}
    assert (await bo.client.put("/me/password", json=change)).status_code == 401
    assert (await bo.client.get("/me")).is_success


async def test_an_inactive_user_is_out_at_once(people: People) -> None:
    admin, bo = await people.admin(), await people.user("bo")
    etag = (await admin.client.get(f"/users/{bo.id}")).headers["ETag"]
    change = {"active": False}
    answer = await admin.client.patch(f"/users/{bo.id}", json=change, headers={"If-Match": etag})
    assert answer.is_success
    assert (await bo.client.get("/me")).status_code == 401


# ---- personal tokens ----------------------------------------------------------------------


async def test_a_personal_token_is_shown_once_and_listed_without_its_secret(
    people: People,
) -> None:
    bo = await people.user("bo")
    made = (await bo.client.post("/me/tokens", json={"name": "laptop"})).json()
    assert made["token"].startswith("gristmill_pat_")
    listed = (await bo.client.get("/me/tokens")).json()
    assert [token["name"] for token in listed] == ["laptop"]
    assert made["token"] not in str(listed)
    mine = people.bearer(made["token"])
    assert (await mine.get("/me")).json()["username"] == "bo"
    assert (await bo.client.delete(f"/me/tokens/{made['id']}")).status_code == 204
    assert (await mine.get("/me")).status_code == 401


async def test_scopes_of_a_personal_token(people: People) -> None:
    admin = await people.admin()
    body = {"name": "reader", "scopes": ["read"]}
    token = (await admin.client.post("/me/tokens", json=body)).json()["token"]
    reader = people.bearer(token)
    assert (await reader.get("/me")).is_success
    assert (await reader.get("/users")).status_code == 403
    answer = await reader.post("/toolchains", json={})
    assert answer.status_code == 403
    assert answer.json()["code"] == "scope"


async def test_a_personal_token_makes_no_tokens_and_changes_no_password(people: People) -> None:
    bo = await people.user("bo")
    body = {"name": "t", "scopes": ["read", "write"]}
    mine = people.bearer((await bo.client.post("/me/tokens", json=body)).json()["token"])
    assert (await mine.post("/me/tokens", json={"name": "x"})).status_code == 403
    change = {"current_password": PASSWORD, "new_password": "another password"}
    assert (await mine.put("/me/password", json=change)).status_code == 403


async def test_only_administrators_get_the_scope_admin(people: People) -> None:
    bo = await people.user("bo")
    answer = await bo.client.post("/me/tokens", json={"name": "x", "scopes": ["admin"]})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/scopes"


async def test_a_personal_token_expires(people: People, services: Services) -> None:
    bo = await people.user("bo")
    expires = services.clock() + timedelta(hours=1)
    body = {"name": "x", "expires_at": expires.isoformat()}
    mine = people.bearer((await bo.client.post("/me/tokens", json=body)).json()["token"])
    assert (await mine.get("/me")).is_success
    services.clock = lambda: expires
    assert (await mine.get("/me")).status_code == 401


async def test_somebody_elses_token_is_not_there(people: People) -> None:
    bo, eve = await people.user("bo"), await people.user("eve")
    made = (await bo.client.post("/me/tokens", json={"name": "x"})).json()
    assert (await eve.client.delete(f"/me/tokens/{made['id']}")).status_code == 404


# ---- requests of other sites' pages -------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": BASE_URL}, 204),
        ({"Sec-Fetch-Site": "same-origin"}, 204),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": BASE_URL}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Mode": "no-cors"}, 403),
    ],
)
async def test_a_cookie_changes_nothing_from_elsewhere(
    people: People, api: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    await people.user("bo")
    body = {"username": "bo", "password": PASSWORD}
    await api.post("/auth/session", json=body, headers=ORIGIN)
    assert (await api.delete("/auth/session", headers=headers)).status_code == status


async def test_signing_in_from_another_sites_page_is_refused(
    people: People, api: httpx.AsyncClient
) -> None:
    await people.user("bo")
    body = {"username": "bo", "password": PASSWORD}
    evil = {"Origin": "https://evil.example"}
    assert (await api.post("/auth/session", json=body, headers=evil)).status_code == 403


async def test_a_form_of_another_site_cannot_carry_json(
    people: People, api: httpx.AsyncClient
) -> None:
    await people.user("bo")
    text = '{"username": "bo", "password": "' + PASSWORD + '"}'
    headers = {"Content-Type": "text/plain"}
    answer = await api.post("/auth/session", content=text, headers=headers)
    assert answer.status_code == 422


async def test_the_cookie_behind_tls_is_a_host_cookie(app: FastAPI, people: People) -> None:
    await people.user("bo")
    services: Services = app.state.services
    services.settings = services.settings.model_copy(update={"secure_cookies": True})
    body = {"username": "bo", "password": PASSWORD}
    answer = await people.anonymous().post("/auth/session", json=body, headers=ORIGIN)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-gristmill_session=gristmill_ses_")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
