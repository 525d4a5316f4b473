"""A running product for all browser tests, and pages that tell what must never happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.stack import CHROMIUM_ARGUMENTS, Stack, chromium, running_stack

PATIENCE_MS = 90_000

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with running_stack() as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGUMENTS)
        yield found
        found.close()


@pytest.fixture
def open_page(stack: Stack, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page as somebody; no dialog, no script error, no breach of the policy may happen."""
    wrong: list[str] = []
    contexts = []

    def opened(username: str | None = "demo", **options: Any) -> Page:
        context = browser.new_context(
            base_url=stack.url, viewport={"width": 1440, "height": 900}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on(
            "dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        page.on("pageerror", lambda error: wrong.append(f"script error {error}"))
        page.on("console", lambda message: _heard(message, wrong))
        if username is not None:
            sign_in(page, username, stack.password(username))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _heard(message: ConsoleMessage, wrong: list[str]) -> None:
    if message.type == "error" and "Content Security Policy" in message.text:
        wrong.append(message.text)


def sign_in(page: Page, username: str, password: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/experiments")
