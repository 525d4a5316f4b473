"""Text that wants to be code, wherever people may write: it is shown as it is, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stack import Stack, experiment

pytestmark = pytest.mark.e2e

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
TERMINAL = (
    "\x1b]8;;javascript:alert(3)\x07click\x1b]8;;\x07 \x1b[31m<b onclick=alert(4)>red</b>\x1b[0m"
)


def hostile_split(stack: Stack) -> str:
    """Publish a version of the example's split that prints hostile text; return its reference."""
    with stack.client() as client:
        found = client.get("/algorithms/demo/split/1").raise_for_status().json()
        lines = f"        print({HOSTILE!r}); print({TERMINAL!r})\n"
        marker = "    def process(self, data_loaders, outputs):\n"
        body = {
            "name": "split",
            "version": 666,
            "declaration": found["declaration"],
            "source": found["source"].replace(marker, marker + lines),
            "documentation": f"{HOSTILE} [link](javascript:alert(5))",
        }
        return str(client.post("/algorithms", json=body).raise_for_status().json()["ref"])


def test_names_descriptions_logs_and_documentation_run_nothing(
    open_page: Callable[..., Page], stack: Stack
) -> None:
    ref = hostile_split(stack)
    with stack.client("admin") as admin:
        environment = admin.get("/environments").json()["items"][0]["id"]
        queue = {
            "name": HOSTILE[:90],
            "description": HOSTILE,
            "memory_mb": 64,
            "time_limit_seconds": 60,
            "slots_per_worker": 1,
            "environment_ids": [environment],
        }
        named = admin.post("/queues", json=queue)
        assert named.status_code in {201, 422}
        admin.post("/groups", json={"name": "hostile", "description": HOSTILE}).raise_for_status()
    with stack.client() as client:
        made = experiment(client, "hostile", split={"algorithm": ref})
        client.patch(
            f"/experiments/{made['id']}",
            json={"description": HOSTILE},
            headers={"If-Match": f'"{made["revision"]}"'},
        ).raise_for_status()
        client.post("/me/tokens", json={"name": HOSTILE}).raise_for_status()
        client.post(f"/experiments/{made['id']}/start").raise_for_status()

    page = open_page()
    page.goto(f"/experiments/{made['id']}?block=split")
    log = page.get_by_role("log")
    expect(log).to_contain_text(HOSTILE)
    expect(log).to_contain_text("<b onclick=alert(4)>red</b>")
    assert log.locator("a, img, script, b").count() == 0
    page.goto(f"/experiments/{made['id']}?tab=setup")
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    page.goto(f"/library/algorithms/view/{ref}")
    expect(page.get_by_label("Documentation").or_(page.get_by_text(HOSTILE)).first).to_be_visible()
    page.goto("/account")
    expect(page.get_by_role("cell", name=HOSTILE)).to_be_visible()

    admin_page = open_page("admin")
    admin_page.goto("/admin?tab=groups")
    expect(admin_page.get_by_role("cell", name=HOSTILE)).to_be_visible()
    admin_page.goto("/monitor")
    expect(admin_page.get_by_role("heading", name="Workers")).to_be_visible()


@pytest.mark.parametrize(
    "path",
    [
        "/sign-in?next=https://example.org/",
        "/sign-in?next=//example.org/",
        "/sign-in?next=javascript:alert(1)",
    ],
)
def test_signing_in_leads_nowhere_else(
    open_page: Callable[..., Page], stack: Stack, path: str
) -> None:
    page = open_page(None)
    page.goto(path)
    page.get_by_label("Username").fill("demo")
    page.get_by_label("Password", exact=True).fill(stack.password("demo"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Experiments")).to_be_visible()
    assert page.url.startswith(stack.url)
