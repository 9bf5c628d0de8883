"""Pages in a real headless Chromium: what a person would see, click and be asked to load.

    from tests.browser import browser, visit          # `browser` is a module's fixture

    def test_page(browser, tmp_path):
        with visit(browser, tmp_path / "page.html") as page:
            assert page.locator("h1").is_visible()

`visit` fails the test when the page logs an error, throws, opens a dialog, or asks for anything
but the file itself. Tests are skipped where no Chromium is installed (Debian's package `chromium`,
or the path in CHROMIUM).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The browser's path, if there is one on this machine."""
    given = os.environ.get("CHROMIUM")
    return given or next((path for path in map(shutil.which, NAMES) if path), None)


# Not for the session: Playwright's event loop runs until it is closed, and no other could.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, started once a module."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # As root, as in containers, Chromium has no sandbox of its own.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def visit(browser: Any, path: Path, **options: Any) -> Iterator[Any]:
    """The page of the file at `path`, open; `options` are those of a browser context.

    What goes wrong while it is open is said when it is closed.
    """
    context = browser.new_context(
        **{"viewport": {"width": 1366, "height": 768}, "offline": True, **options}
    )
    page = context.new_page()
    wrong: list[str] = []
    address = path.resolve().as_uri()

    def asked(request: Any) -> None:
        url = request.url
        if url.partition("#")[0] != address and not url.startswith(("data:", "blob:")):
            wrong.append(f"asks for {url}")

    def opened(dialog: Any) -> None:
        wrong.append(f"opens a dialog: {dialog.message}")
        dialog.dismiss()

    page.on("request", asked)
    page.on("dialog", opened)
    page.on("pageerror", lambda error: wrong.append(f"throws: {error}"))
    page.on(
        "console",
        lambda message: message.type in ("error", "warning") and wrong.append(message.text),
    )
    try:
        page.goto(address)
        yield page
        assert not wrong, wrong
    finally:
        context.close()
