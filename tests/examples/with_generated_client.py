"""Creates and runs the digits with the client that openapi-python-client made of openapi.json.

PYTHONPATH=<generated> GRISTMILL_PASSWORD=… python with_generated_client.py URL USERNAME FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from platform_client import AuthenticatedClient, Client
from platform_client.api.auth import create_token
from platform_client.api.experiments import (
    create_experiment,
    get_experiment,
    get_experiment_results,
    list_experiment_events,
    start_experiment,
)
from platform_client.models import BodyCreateToken, ExperimentIn, ExperimentInDeclaration

from gristmill.prefixes import owned_by, read_prefix


def main(url: str, username: str, folder: str) -> None:
    form = BodyCreateToken(username=username, password=os.environ["GRISTMILL_PASSWORD"])
    with Client(base_url=url, raise_on_unexpected_status=True) as anonymous:
        token = create_token.sync(client=anonymous, body=form).access_token
    [one] = owned_by(read_prefix(Path(folder)), username).experiments
    with AuthenticatedClient(base_url=url, token=token, timeout=60) as client:
        body = ExperimentIn(
            name="by-generated-client",
            toolchain=one.toolchain,
            declaration=ExperimentInDeclaration.from_dict(dict(one.declaration)),
        )
        made = create_experiment.sync(client=client, body=body)
        start_experiment.sync(made.id, client=client)
        seen, ended = 0, False
        while not ended:
            page = list_experiment_events.sync(made.id, client=client, after=seen, wait=25)
            seen = page.events[-1].seq if page.events else seen
            ended = page.ended and seen >= page.last_seq
        experiment = get_experiment.sync(made.id, client=client).to_dict()
        [analyzer] = get_experiment_results.sync(made.id, client=client).to_dict()["analyzers"]
    told = {
        "state": experiment["state"],
        "counts": {state: n for state, n in experiment["counts"].items() if n},
        "results": {name: result["value"] for name, result in analyzer["results"].items()},
    }
    sys.stdout.write(json.dumps(told))


main(*sys.argv[1:])
