"""Forged, damaged and outlived tokens: none is taken. No database here."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.app.auth import jwt, opaque
from backend.app.auth.keys import Audience, Key, Keys
from backend.app.auth.opaque import Kind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = Keys(
    {
        Audience.ACCESS: (Key("new", b"n" * 32), Key("old", b"o" * 32)),
        Audience.WORKER: (Key("work", b"w" * 32),),
        Audience.CURSOR: (Key("page", b"p" * 32),),
    }
)
HEADER = {"alg": "HS256", "typ": "JWT", "kid": "new"}
CLAIMS = {
    "sub": "someone",
    "aud": Audience.ACCESS.value,
    "iat": int(NOW.timestamp()),
    "exp": int(NOW.timestamp()) + 60,
    "jti": "1",
}


def _part(content: Any) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _token(header: Any = HEADER, claims: Any = CLAIMS, secret: bytes = b"n" * 32) -> str:
    signed = f"{_part(header)}.{_part(claims)}"
    return f"{signed}.{_part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def _verify(token: str, now: datetime = NOW) -> dict[str, Any]:
    return jwt.verify(KEYS, Audience.ACCESS, token, now=now)


def test_the_forger_of_these_tests_can_sign() -> None:
    assert _verify(_token()) == CLAIMS


def test_ours_are_taken_until_their_time_is_over() -> None:
    token = jwt.sign(KEYS, Audience.ACCESS, "u", seconds=60, now=NOW, claims={"pwd": "x"})
    assert _verify(token)["sub"] == "u"
    assert _verify(token, NOW + timedelta(seconds=59))["pwd"] == "x"
    with pytest.raises(jwt.BadToken):
        _verify(token, NOW + timedelta(seconds=60))


def test_a_token_of_the_key_before_is_taken() -> None:
    assert _verify(_token({**HEADER, "kid": "old"}, secret=b"o" * 32))["sub"] == "someone"


@pytest.mark.parametrize(
    "header",
    [
        {**HEADER, "alg": "none"},
        {**HEADER, "alg": "HS512"},
        {**HEADER, "alg": "RS256"},
        {**HEADER, "alg": ["HS256"]},
        {**HEADER, "kid": "../../etc/passwd"},
        {**HEADER, "kid": "' OR 1=1 --"},
        {**HEADER, "kid": "http://evil.example/key"},
        {**HEADER, "kid": None},
        {**HEADER, "kid": ["new"]},
        {**HEADER, "kid": "work"},
        {**HEADER, "crit": ["b64"], "b64": False},
        {**HEADER, "b64": False},
        {**HEADER, "jku": "http://evil.example"},
        {**HEADER, "jwk": {"kty": "oct", "k": "bg"}},
        {"alg": "HS256", "typ": "JWT"},
        {},
        [],
        "x",
        None,
        b"\xff",
        b'{"alg": "HS256", "alg": "none", "typ": "JWT", "kid": "new"}',
    ],
)
def test_headers_that_are_not_ours(header: Any) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(_token(header))


@pytest.mark.parametrize(
    "change",
    [
        {"aud": Audience.WORKER.value},
        {"aud": [Audience.ACCESS.value]},
        {"aud": None},
        {"exp": "9999999999"},
        {"exp": 9999999999.5},
        {"exp": True},
        {"exp": None},
        {"iat": None},
        {"iat": "x"},
        {"sub": 1},
        {"sub": None},
        {"jti": None},
        {"exp": int(NOW.timestamp())},
    ],
)
def test_claims_that_are_not_sound(change: dict[str, Any]) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(_token(claims={**CLAIMS, **change}))


@pytest.mark.parametrize("name", ["sub", "aud", "iat", "exp", "jti"])
def test_a_claim_that_is_missing(name: str) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(_token(claims={key: value for key, value in CLAIMS.items() if key != name}))


@pytest.mark.parametrize(
    "claims",
    [
        b'{"sub": "a", "sub": "b"}',
        b"[" * 100_000,
        b"not json",
        b'{"exp": 1e99}',
        b'{"exp": ' + b"9" * 5000 + b"}",
        [],
        "x",
        None,
    ],
)
def test_claims_that_are_no_claims(claims: Any) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(_token(claims=claims))


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "x" * 1_000_000, "a.b", "é.é.é", "\0"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(token)


@pytest.mark.parametrize("secret", [b"", b"o" * 32, b"w" * 32, b"x" * 32])
def test_signatures_of_other_keys(secret: bytes) -> None:
    with pytest.raises(jwt.BadToken):
        _verify(_token(secret=secret))


def test_a_workers_token_is_no_users() -> None:
    token = jwt.sign(KEYS, Audience.WORKER, "w", seconds=60, now=NOW)
    assert jwt.verify(KEYS, Audience.WORKER, token, now=NOW)["sub"] == "w"
    with pytest.raises(jwt.BadToken):
        _verify(token)


@given(position=st.integers(0, 300), letter=st.sampled_from("AaZz09-_"))
def test_any_changed_letter_spoils_a_token(position: int, letter: str) -> None:
    """But for the bits of the last letter that base64 does not use."""
    token = _token()
    at = position % (len(token) - 1)
    changed = token[:at] + letter + token[at + 1 :]
    if changed != token:
        with pytest.raises(jwt.BadToken):
            _verify(changed)


# ---- opaque secrets -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_a_secret_is_of_its_kind_alone(kind: Kind) -> None:
    secret = opaque.make(kind)
    assert [other for other in Kind if opaque.is_a(other, secret)] == [kind]
    assert opaque.make(kind) != secret
    spoilt = secret[:20] + ("a" if secret[20] != "a" else "b") + secret[21:]
    assert not opaque.is_a(kind, spoilt)
    for text in ("", secret[:-1], secret + "a", secret + "\n", " " + secret, "é" * 60):
        assert not opaque.is_a(kind, text)
