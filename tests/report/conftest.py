"""One run of every command, and one browser, for all tests of reports in a process."""

from __future__ import annotations

import os
import shutil
from functools import cache

import pytest

from tests.report.worlds import run

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run")  # fmt: skip


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """command → the folder of its results."""
    folder = tmp_path_factory.mktemp("reports")
    return cache(lambda command: run(command, folder))


def _absent(reason):
    sentence = f"{reason}: install chromium (Debian: apt-get install chromium) and latentfit[test]"
    if os.environ.get("LATENTFIT_NEEDS_BROWSER"):  # CI must not skip what it is there for
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="session")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        _absent("no browser is here, so reports are not opened")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("playwright is not here, so reports are not opened")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


class Opened:
    """A report in a browser: the page, what its console said, and every address it asked for."""

    def __init__(self, context, file):
        self.page = context.new_page()
        self.page.set_default_timeout(5000)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        assert self.page.evaluate("window.latentfitReady") is True
        self.file = file

    def check(self):
        assert self.said == []
        assert [url for url in self.asked if url != self.file.as_uri() and not url.startswith("data:")] == []
        assert self.page.evaluate("window.hurt") is None


@pytest.fixture(scope="session")
def open_report(browser):
    """A function that opens a file; nothing may be fetched, said or done by what it names."""
    contexts = []

    def opening(file, **settings):
        contexts.append(browser.new_context(**settings))
        return Opened(contexts[-1], file)

    yield opening
    for context in contexts:
        context.close()
