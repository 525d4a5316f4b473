"""Polls for jobs, runs them in a sandbox and reports; a client of the server, nothing more."""

from __future__ import annotations

__version__ = "0.1.0"
