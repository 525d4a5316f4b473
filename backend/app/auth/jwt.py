"""Signed short-lived tokens. One algorithm, one audience a key, every claim required and typed."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jose import jws
from jose.exceptions import JOSEError

from backend.app.auth.keys import Audience, Keys
from backend.app.db.ids import uuid7
from gristmill.formats.documents import parse_json
from gristmill.formats.problems import BadDocument

ALGORITHM = "HS256"
LONGEST = 2048  #: characters; ours have 300 to 500
_HEADER = {"alg", "typ", "kid"}  #: whatever else a header holds (crit, b64, jku …) is refused


class BadToken(ValueError):
    """The token is not one of ours for this audience, or its time is over."""


def sign(
    keys: Keys,
    audience: Audience,
    subject: str,
    *,
    seconds: int,
    now: datetime,
    claims: Mapping[str, Any] | None = None,
) -> str:
    """Return a token for `subject` that is good for `seconds`."""
    issued = int(now.timestamp())
    payload = {
        **(claims or {}),
        "sub": subject,
        "aud": audience.value,
        "iat": issued,
        "exp": issued + seconds,
        "jti": str(uuid7()),
    }
    key = keys.signing(audience)
    token: str = jws.sign(payload, key.secret, headers={"kid": key.id}, algorithm=ALGORITHM)
    return token


def verify(keys: Keys, audience: Audience, token: str, *, now: datetime) -> dict[str, Any]:
    """Return the claims of a token; raises BadToken."""
    if len(token) > LONGEST:
        raise BadToken("too long")
    try:
        header = jws.get_unverified_header(token)
        key = keys.named(audience, header.get("kid"))
        if key is None or set(header) != _HEADER or header["alg"] != ALGORITHM:
            raise BadToken("not signed by a key of ours")
        claims = parse_json(jws.verify(token, key.secret, algorithms=[ALGORITHM]))
    except (JOSEError, BadDocument, binascii.Error, UnicodeError, TypeError) as error:
        raise BadToken(str(error)) from None
    return _checked(claims, audience, int(now.timestamp()))


def _checked(claims: Any, audience: Audience, now: int) -> dict[str, Any]:
    if not isinstance(claims, dict) or claims.get("aud") != audience.value:
        raise BadToken("for another audience")
    if not all(isinstance(claims.get(name), str) for name in ("sub", "jti")):
        raise BadToken("sub or jti missing")
    if not all(type(claims.get(name)) is int for name in ("iat", "exp")):
        raise BadToken("iat or exp missing")
    if claims["exp"] <= now:
        raise BadToken("expired")
    return claims
