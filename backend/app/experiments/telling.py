"""What the scheduler says about a block, as the page shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from backend.app.experiments import schemas


class Teller(Protocol):
    """The part of the scheduler that explains."""

    def explain(self, block: str) -> Any:
        """Say why a live block is where it is; None if it is not live."""

    async def story(self, block: str) -> Any:
        """Tell everything that happened to a block."""


def explanation(scheduler: Teller, row: Any) -> schemas.Explanation | None:
    """Return why a block is where it is; None when the scheduler does not hold it."""
    found = scheduler.explain(str(row.id))
    if found is None:
        return None
    return schemas.Explanation(
        block=row.name,
        constraint=str(found.constraint),
        message=found.message,
        numbers=dict(found.numbers),
        would_start=found.would_start,
    )


def at_rest(row: Any) -> schemas.Explanation:
    """Return what there is to say of a block that the scheduler does not hold."""
    return schemas.Explanation(
        block=row.name,
        constraint="none",
        message=f"it is {row.state}, and the experiment does not run",
        numbers={},
        would_start="starting the experiment" if row.state == "blocked" else None,
    )


async def story(scheduler: Teller, row: Any) -> schemas.Story:
    """Return what happened to a block."""
    lines = await scheduler.story(str(row.id))
    return schemas.Story(
        block=row.name,
        lines=[
            schemas.StoryLine(time=datetime.fromtimestamp(line.time, UTC), text=line.text)
            for line in lines
        ],
    )
