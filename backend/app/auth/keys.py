"""The keys that tokens are signed with: one set an audience, kept in the table `setting`.

The first key of a set signs; all of them verify, so that a key can be replaced while tokens of the
old one live. A token names its key by `kid`, and only keys of ours are ever looked up.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col

from backend.app.db.sessions import Sessions
from backend.app.db.tables import Setting

SETTING = "signing_keys"
_BYTES = 32
_LIVE = 2  #: keys of a set: the present one and the one before


class Audience(StrEnum):
    """What a signature is good for; one audience's is worth nothing to another."""

    ACCESS = "gristmill-access"
    WORKER = "gristmill-worker"
    CURSOR = "gristmill-cursor"


@dataclass(frozen=True, slots=True)
class Key:
    """A key and its name."""

    id: str
    secret: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys."""

    sets: Mapping[Audience, tuple[Key, ...]]

    def signing(self, audience: Audience) -> Key:
        """Return the key to sign with."""
        return self.sets[audience][0]

    def named(self, audience: Audience, key_id: object) -> Key | None:
        """Return the key of that name, of that audience alone."""
        return next((key for key in self.sets[audience] if key.id == key_id), None)


async def load(sessions: Sessions) -> Keys:
    """Read the keys; make them at the very first start (of whichever process is first)."""
    async with sessions() as session:
        fresh = {audience.value: [_new()] for audience in Audience}
        statement = insert(Setting).values(key=SETTING, value=fresh)
        await session.execute(statement.on_conflict_do_nothing())
        stored = await session.scalar(select(Setting).where(col(Setting.key) == SETTING))
        assert stored is not None
        await session.commit()
        return _read(stored.value)


async def rotate(sessions: Sessions) -> None:
    """Sign with new keys from the next start on; the ones before go on verifying."""
    async with sessions() as session:
        query = select(Setting).where(col(Setting.key) == SETTING).with_for_update()
        stored = (await session.scalars(query)).one()
        stored.value = {
            audience: [_new(), *keys][:_LIVE] for audience, keys in stored.value.items()
        }
        await session.commit()


def _new() -> dict[str, str]:
    secret = base64.b64encode(secrets.token_bytes(_BYTES)).decode()
    return {"id": secrets.token_hex(8), "secret": secret}


def _read(stored: Mapping[str, list[dict[str, str]]]) -> Keys:
    return Keys(
        {
            audience: tuple(
                Key(key["id"], base64.b64decode(key["secret"])) for key in stored[audience]
            )
            for audience in Audience
        }
    )
