"""Pictures of the documentation: every one that is shown is there, small, and made by docs/make_pictures.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from make_pictures import FOLDER, make, pages_with_pictures  # noqa: E402

MOST_BYTES = 60_000


def test_pictures_are_those_that_pages_show_and_are_small():
    shown = {name for names in pages_with_pictures().values() for name in names}
    kept = {path.stem: path.stat().st_size for path in FOLDER.glob("*")}
    assert set(kept) == shown
    assert max(kept.values()) <= MOST_BYTES


def test_the_readme_shows_pictures_of_the_demo(tmp_path):
    page = ROOT / "README.md"
    names = pages_with_pictures()[page]
    assert names
    assert all(name.startswith("demo-") for name in names)
    make(page, names, tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == set(names)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in pages_with_pictures() if page.parent.name == "start"], ids=lambda page: page.stem
)
def test_starts_draw_their_pictures(page, tmp_path):
    names = pages_with_pictures()[page]
    make(page, names, tmp_path)
    assert {path.stem for path in tmp_path.glob("*.png")} == set(names)
