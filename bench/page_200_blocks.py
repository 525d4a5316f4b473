"""How long until the page of an experiment of 200 blocks is drawn, in Chromium, on a real server.

    python bench/page_200_blocks.py        (after `make environment frontend`)

Times run from the navigation until all 200 blocks and their edges are in the document and one more
frame was painted; the same page of the 9 blocks of the example gives the ratio. The browser's cache
is empty for each first visit and warm for each second.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.browser.stack import (
    CHROMIUM_ARGUMENTS,
    Stack,
    chromium,
    experiment,
    running_stack,
)

BLOCKS = 200
ROUNDS = 3
DRAWN = """wanted => new Promise(done => {
  const look = () => {
    const blocks = document.querySelectorAll('[data-block]').length;
    const edges = document.querySelectorAll('.react-flow__edge path').length;
    if (blocks >= wanted && edges > 0) requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""
SOURCE = """class Algorithm:
    def process(self, inputs, data_loaders, outputs):
        return True
"""


def declare(client: httpx.Client) -> None:
    """Publish an algorithm that passes an image on, and an analyzer of one input."""
    port = {"image": {"type": "demo/image/1"}}
    shared = {"schema_version": 2, "api_version": 2, "type": "sequential", "language": "python"}
    passing = shared | {"splittable": False, "groups": [{"inputs": port, "outputs": port}]}
    ending = shared | {"groups": [{"inputs": port}], "results": {"n": {"type": "int32"}}}
    for name, declaration in (("pass", passing), ("end", ending)):
        body = {"name": name, "declaration": declaration, "source": SOURCE}
        client.post("/algorithms", json=body).raise_for_status()


def large(client: httpx.Client) -> str:
    """Create an experiment of 200 blocks in layers, each reading one of the layer before."""
    chance = random.Random(200)
    names = [f"block_{number}" for number in range(BLOCKS - 2)]
    width = 14
    sources = ["digits", *names]
    connections = []
    for number, name in enumerate(names):
        layer = number // width
        before = names[(layer - 1) * width : layer * width] if layer else ["digits"]
        connections.append((chance.choice(before), name))
    connections.append((sources[-1], "end"))
    item = {"synchronized_channel": "digits", "inputs": ["image"]}
    toolchain = {
        "datasets": [{"name": "digits", "outputs": ["image"]}],
        "blocks": [{"name": name, "outputs": ["image"], **item} for name in names],
        "analyzers": [{"name": "end", **item}],
        "connections": [
            {"from": f"{a}.image", "to": f"{b}.image", "channel": "digits"} for a, b in connections
        ],
        "representation": {"blocks": {}, "connections": {}, "channel_colors": {}},
    }
    body = {"name": "large", "declaration": toolchain}
    ref = client.post("/toolchains", json=body).raise_for_status().json()["ref"]
    return created(client, ref, names)


def created(client: httpx.Client, toolchain: str, names: list[str]) -> str:
    """Create the experiment over the toolchain; return its id."""
    port = {"image": "image"}
    block = {"algorithm": "demo/pass/1", "inputs": port, "outputs": port}
    declaration: dict[str, Any] = {
        "datasets": {"digits": {"database": "digits/1", "protocol": "all", "set": "all"}},
        "blocks": dict.fromkeys(names, block),
        "analyzers": {"end": {"algorithm": "demo/end/1", "inputs": port}},
        "globals": {"queue": "default", "environment": {"name": "Python", "version": "1"}},
    }
    body = {"name": "large", "toolchain": toolchain, "declaration": declaration}
    return str(client.post("/experiments", json=body).raise_for_status().json()["id"])


def seconds(browser: Browser, stack: Stack, identity: str, blocks: int) -> tuple[float, float]:
    """Return how long the first and the second visit of the page take until all is drawn."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=stack.url)
    form = {"username": "demo", "password": stack.demo_password}
    context.request.post("/api/v1/auth/session", data=form, headers={"Origin": stack.url})
    page = context.new_page()
    taken = []
    for _ in range(2):
        page.goto(f"/experiments/{identity}", wait_until="commit")
        taken.append(page.evaluate(DRAWN, blocks) / 1000)
    context.close()
    return taken[0], taken[1]


def main() -> int:
    """Measure, print a table and a line of JSON."""
    with running_stack() as stack, stack.client() as client, sync_playwright() as playwright:
        declare(client)
        pages = {"9 blocks": (experiment(client, "small")["id"], 9)}
        pages[f"{BLOCKS} blocks"] = (large(client), BLOCKS)
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGUMENTS)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in pages}
        for _ in range(ROUNDS):
            for name, (identity, blocks) in pages.items():
                found[name].append(seconds(browser, stack, identity, blocks))
        browser.close()
    medians = {
        name: [statistics.median(visit) for visit in zip(*visits, strict=True)]
        for name, visits in found.items()
    }
    print(f"{'page':>12}  {'first visit':>11}  {'second visit':>12}")
    for name, (first, second) in medians.items():
        print(f"{name:>12}  {first:>9.2f} s  {second:>10.2f} s")
    small, big = medians["9 blocks"], medians[f"{BLOCKS} blocks"]
    figures = {
        "bench": "page_200_blocks",
        "seconds_first": round(big[0], 3),
        "seconds_second": round(big[1], 3),
        "ratio_first": round(big[0] / small[0], 2),
        "ratio_second": round(big[1] / small[1], 2),
        "under_2_s": big[0] < 2,
    }
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
