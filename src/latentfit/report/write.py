"""A page → report.html, whole or not there."""

from __future__ import annotations

import os

from latentfit.io.write import atomic_path
from latentfit.report.page import Page
from latentfit.report.render import render


def write_report(path: str | os.PathLike[str], page: Page) -> None:
    """Render a page and write it under a temporary name that takes the place of `path`."""
    content = render(page).encode()
    with atomic_path(path) as part:
        part.write_bytes(content)
