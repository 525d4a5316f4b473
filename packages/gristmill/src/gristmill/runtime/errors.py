"""What may go wrong in a job: the call was wrong, or the user's code failed."""

from __future__ import annotations


class JobError(Exception):
    """The call was wrong: job.json or an input file is not what the API asks for (exit 2)."""


class AlgorithmError(Exception):
    """The user's code broke a rule of the API; told like an exception of its own (exit 1)."""


class DataError(AlgorithmError, TypeError):
    """A value does not fit the data format it is written to."""
