"""No link between files is broken: every relative link and picture of every page, headings included."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.S | re.M)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_OUTSIDE = ("http://", "https://", "mailto:")


def links_of(page: Path) -> list[str]:
    """Targets of a page's links, code left out; link texts may be code."""
    text = re.sub(r"\[`[^`\n]*`\]", "[code]", page.read_text(encoding="utf-8"))
    return [target for target in _LINK.findall(_CODE.sub("", text)) if not target.startswith(_OUTSIDE)]


@cache
def anchors_of(page: Path) -> set[str]:
    """Headings as a code host and the site name them: small letters, no punctuation, hyphens for blanks."""
    text = _CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#{1,6} (.+?)\s*$", text, re.M)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        for title in titles
    }


_CODE_BLOCK = re.compile(r"^```.*?^```$", re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in links_of(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors_of(there), f"{target}: no such heading; there are {sorted(anchors_of(there))}"


def test_links_are_read():
    assert sum(len(links_of(page)) for page in PAGES) > 100


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_page_is_in_the_table_of_contents(page):
    if page.name == "index.md" and page.parent == ROOT / "docs":
        return
    listed = re.findall(
        r"^```\{toctree\}\n(.*?)^```$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.S | re.M
    )
    entries = {line.strip() for block in listed for line in block.splitlines() if line and not line.startswith(":")}
    name = page.relative_to(ROOT / "docs").as_posix().removesuffix(".md")
    assert name in entries, f"{name} is not in docs/index.md"


_CODE_FILES = [
    path
    for folder in ("src", "tests", "benchmarks", "reproduction", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
"""Comments, docstrings and messages name pages by their path from the root of the repository."""


def test_pages_named_in_code_exist():
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for path in _CODE_FILES
        for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|rst|txt|png)\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    missing = sorted(f"{path} names {page}" for path, page in named if not (ROOT / page).is_file())
    assert not missing
