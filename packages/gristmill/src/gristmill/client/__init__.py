"""The platform's HTTP API for programs: `Client`, and `AsyncClient` for asyncio.

    with Client("http://localhost:8000") as client:
        client.sign_in("ann", "…")
        client.publish("examples/digits")
        experiment = client.create_experiment("digits", toolchain="ann/digits/1", declaration=…)
        client.start_experiment(experiment.id)
        print(client.wait(experiment.id).state, client.results(experiment.id))

Needs the extra `client` (httpx). What the server refuses is raised as an exception that says why,
with the place; what may be repeated without harm is repeated when the network fails, nothing else.
"""

from gristmill.client.asynchronous import AsyncClient
from gristmill.client.errors import (
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    NotSignedIn,
    Place,
    ServerFailed,
    Unreachable,
)
from gristmill.client.models import (
    AnalyzerResults,
    Block,
    Event,
    Experiment,
    Explanation,
    LogPiece,
    PersonalToken,
    Published,
    Result,
    Snapshot,
    UsableQueue,
    User,
    Validation,
)
from gristmill.client.synchronous import Client

__all__ = [
    "AnalyzerResults",
    "ApiError",
    "AsyncClient",
    "Block",
    "Client",
    "Conflict",
    "Event",
    "Experiment",
    "Explanation",
    "Invalid",
    "LogPiece",
    "NotFound",
    "NotSignedIn",
    "PersonalToken",
    "Place",
    "Published",
    "Result",
    "ServerFailed",
    "Snapshot",
    "Unreachable",
    "UsableQueue",
    "User",
    "Validation",
]
