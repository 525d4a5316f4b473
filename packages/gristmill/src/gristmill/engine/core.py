"""What every flow needs: the dialect, the site, the journal, the clock and the policy."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gristmill.engine.flows import Policy
from gristmill.journal import Journal, MemoryJournal
from gristmill.managers.base import Dialect
from gristmill.site import Site


@dataclass(slots=True)
class Core:
    """One manager as one client sees it. `directory` is where its commands start."""

    dialect: Dialect
    site: Site = field(default_factory=Site)
    journal: Journal = field(default_factory=MemoryJournal)
    policy: Policy = field(default_factory=Policy)
    directory: str = ""
    clock: Callable[[], float] = time.time
    interval: float | None = None

    @property
    def poll_interval(self) -> float:
        """Seconds between two polls: what the caller, the site or the driver says, in this order.

        A site's figure is a minimum.
        """
        wanted = self.interval if self.interval is not None else self.dialect.features.interval
        return max(wanted, self.site.interval or 0.0)

    def token(self) -> str:
        """A new marker of a submission."""
        return secrets.token_hex(8)
