"""Who may see something owned: the words of the column `visibility`."""

from __future__ import annotations

from enum import StrEnum


class Visibility(StrEnum):
    """Who may see it, besides its owner and administrators."""

    PRIVATE = "private"  # nobody
    SHARED = "shared"  # members of the groups that it is shared with
    PUBLIC = "public"  # everybody who is signed in
