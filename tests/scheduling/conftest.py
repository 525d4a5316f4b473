"""A real database with a farm in it, and schedulers on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backend.app.db.engine import Engines
from tests.scheduling.farms import World


@pytest.fixture
async def world(engines: Engines) -> AsyncIterator[World]:
    made = World(engines)
    await made.set_up()
    yield made
    await made.stop()
