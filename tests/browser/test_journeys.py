"""What a person does, in Chromium, on the real server, worker and sandbox."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stack import Stack, experiment

pytestmark = pytest.mark.e2e

Open = Callable[..., Page]


def state(page: Page, word: str) -> None:
    """Wait until the experiment's badge says the word."""
    expect(page.locator("h1 + [data-state]")).to_have_attribute("data-state", word)


def block(page: Page, name: str) -> object:
    return page.locator(f'[data-block="{name}"]')


def test_a_wrong_password_is_told_and_the_page_asked_for_opens_after_signing_in(
    open_page: Open, stack: Stack
) -> None:
    page = open_page(None)
    page.goto("/monitor")
    page.get_by_label("Username").fill("demo")
    page.get_by_label("Password", exact=True).fill("not it")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password", exact=True).fill(stack.password("demo"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Monitor")).to_be_visible()
    expect(page.get_by_role("heading", name="local")).to_be_visible()


def test_the_example_is_submitted_watched_live_and_its_results_read(open_page: Open) -> None:
    page = open_page()
    watcher = open_page()  # another tab, on the list
    page.get_by_role("link", name="New experiment").click()
    expect(page.get_by_text("Everything fits")).to_be_visible()
    page.get_by_label("Name").fill("by-hand")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name="by-hand", level=1)).to_be_visible()
    place = page.locator('[data-block="summary"]').bounding_box()
    state(page, "running")
    expect(watcher.get_by_role("row").filter(has_text="by-hand")).to_contain_text("running")
    state(page, "done")
    assert page.locator('[data-block="summary"]').bounding_box() == place  # nothing moved
    expect(page.locator("[data-block]")).to_have_count(9)
    for word in page.locator("[data-block]").evaluate_all("all => all.map(b => b.ariaLabel)"):
        assert re.search(r", (done|cached)$", word), word
    expect(watcher.get_by_role("row").filter(has_text="by-hand")).to_contain_text("done")

    page.locator('[data-block="logistic"]').click()
    expect(page.get_by_role("log")).to_contain_text("learnt from")
    page.get_by_role("tab", name="Details").click()
    expect(page.get_by_text("Wall", exact=True)).to_be_visible()
    page.locator('[data-block="split"]').click()
    page.get_by_role("tab", name="Output").click()
    expect(page.get_by_text("part is demo/part/1")).to_be_visible()

    page.get_by_role("tab", name="Results").click()
    expect(page.get_by_text("0.98667")).to_be_visible()
    expect(page.get_by_role("region", name="confusion", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name="Plot confusion_plot").locator("canvas")).to_be_visible()


def test_the_same_again_comes_from_the_cache(open_page: Open, stack: Stack) -> None:
    with stack.client() as client:
        first = experiment(client, "same-1")
        client.post(f"/experiments/{first['id']}/start").raise_for_status()
        second = experiment(client, "same-2")
    page = open_page()
    page.goto(f"/experiments/{first['id']}")
    state(page, "done")
    page.goto(f"/experiments/{second['id']}")
    page.get_by_role("button", name="Start", exact=True).click()
    state(page, "done")
    expect(page.get_by_role("button", name=re.compile(r"^cached\s*9$"))).to_be_visible()


def test_a_running_experiment_is_stopped_and_started_again(open_page: Open, stack: Stack) -> None:
    with stack.client() as client:
        made = experiment(client, "stopped", split={"parameters": {"seed": 4711}})
    page = open_page()
    page.goto(f"/experiments/{made['id']}")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator('[data-block="svm"]')).to_have_attribute(
        "aria-label", re.compile(", running")
    )
    page.get_by_role("button", name="Stop").click()
    state(page, "cancelled")
    page.get_by_role("button", name="Start again").click()
    state(page, "done")


def test_an_experiment_is_forked_and_deleted_after_a_question(
    open_page: Open, stack: Stack
) -> None:
    with stack.client() as client:
        made = experiment(client, "original")
    page = open_page()
    page.goto(f"/experiments/{made['id']}")
    page.get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: "/experiments/" in url and made["id"] not in url)
    state(page, "draft")
    name = page.get_by_role("heading", level=1).inner_text()
    assert name != "original"
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the experiment").click()
    page.wait_for_url("**/experiments")
    expect(page.get_by_role("link", name="original", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)


def test_what_is_wrong_is_shown_where_it_is(open_page: Open) -> None:
    page = open_page()
    page.goto("/experiments/new")
    expect(page.get_by_text("Everything fits")).to_be_visible()
    split = page.get_by_role("group", name=re.compile("^split"))
    split.get_by_label("test_fraction").fill("7")
    expect(page.get_by_text("1 thing to put right")).to_be_visible()
    expect(split.locator('[data-error="true"]').first).to_be_visible()
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_disabled()


def test_only_queues_with_a_right_are_offered(open_page: Open) -> None:
    page = open_page()
    page.goto("/experiments/new")
    page.get_by_label("Queue").first.click()
    expect(page.get_by_role("option")).to_have_text(["default", "long"])
    expect(page.get_by_text("You may hold 4 slots of 4")).to_be_visible()


def test_a_link_to_a_block_opens_it_and_the_keyboard_reaches_all(
    open_page: Open, stack: Stack
) -> None:
    with stack.client() as client:
        made = experiment(client, "by-keyboard")
    page = open_page()
    page.goto(f"/experiments/{made['id']}?block=cells")
    expect(page.get_by_role("complementary", name="Block cells")).to_be_visible()
    page.locator('[data-block="cells"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Block gradients")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    page.get_by_role("tab", name="Table").click()
    expect(page.get_by_role("row")).to_have_count(10)


def test_a_lost_connection_is_told_and_nothing_is_missed(open_page: Open, stack: Stack) -> None:
    with stack.client() as client:
        made = experiment(client, "cut-off", split={"parameters": {"seed": 99}})
        page = open_page()
        page.goto(f"/experiments/{made['id']}")
        state(page, "draft")
        page.context.set_offline(True)
        page.evaluate("navigator.onLine")
        client.post(f"/experiments/{made['id']}/start").raise_for_status()
        wait_for_end(client, made["id"])
    page.context.set_offline(False)
    state(page, "done")


def wait_for_end(client: object, identity: str) -> None:
    """Follow the events by long poll until the experiment rests."""
    after, ended = 0, False
    while not ended:
        answer = client.get(  # type: ignore[attr-defined]
            f"/experiments/{identity}/events", params={"after": after, "wait": 20}
        )
        found = answer.raise_for_status().json()
        after, ended = found["last_seq"], found["ended"]


def test_an_administrator_sees_the_state_and_cancels_all(open_page: Open, stack: Stack) -> None:
    with stack.client() as client:
        made = experiment(client, "swept-away", split={"parameters": {"seed": 123}})
        client.post(f"/experiments/{made['id']}/start").raise_for_status()
    page = open_page("admin")
    page.get_by_role("link", name="Administration").click()
    expect(page.get_by_text("Jobs running")).to_be_visible()
    page.get_by_role("button", name="Cancel all experiments…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel all")).to_be_disabled()
    dialog.get_by_label("Type cancel all to go on").fill("cancel all")
    dialog.get_by_role("button", name="Cancel all").click()
    expect(page.get_by_text("told to stop")).to_be_visible()
    watcher = open_page()
    watcher.goto(f"/experiments/{made['id']}")
    state(watcher, "cancelled")


def test_the_cache_is_cleaned_after_a_look(open_page: Open) -> None:
    page = open_page("admin")
    page.goto("/admin?tab=cache")
    page.get_by_text("Everything", exact=True).click()
    clean = page.get_by_role("button", name="Clean", exact=True)
    expect(clean).to_be_disabled()
    page.get_by_role("button", name="See what would go").click()
    expect(page.get_by_text("would go")).to_be_visible()


def test_a_queue_is_made_and_changed(open_page: Open) -> None:
    page = open_page("admin")
    page.goto("/admin?tab=queues")
    page.get_by_role("button", name="New queue").click()
    page.get_by_role("dialog").get_by_label("Name").fill("evening")
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="evening")
    expect(row).to_contain_text("1 GiB")
    row.get_by_role("button", name="Change evening").click()
    page.get_by_role("dialog").get_by_label("Memory of a slot").fill("2048")
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("2 GiB")
    row.get_by_role("button", name="Delete evening").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the queue").click()
    expect(row).to_have_count(0)


def test_a_token_is_shown_once_and_works(open_page: Open, stack: Stack) -> None:
    page = open_page()
    page.goto("/account")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("notebook")
    page.get_by_role("button", name="Make the token").click()
    token = page.get_by_label("Copy it now").input_value()
    page.get_by_role("button", name="I have it").click()
    with stack.server.client(token) as client:
        assert client.get("/me").json()["username"] == "demo"
    page.get_by_role("row").filter(has_text="notebook").get_by_role("button").click()
    expect(page.get_by_role("row").filter(has_text="notebook")).to_have_count(0)
    with stack.server.client(token) as client:
        assert client.get("/me").status_code == 401
