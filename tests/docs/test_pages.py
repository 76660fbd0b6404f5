"""Every page's code runs, the README's too: Python in one namespace, `latentfit …` lines through the command line."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "docs"), str(Path(__file__).parent)]

from page_files import FILES  # noqa: E402
from run_page import blocks_of, run_page  # noqa: E402

PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks_of(page)]
REAL_DATA = {"word_embeddings.md"}
SLOW = {"word_embeddings.md"}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """A folder of its own, matplotlib without a screen, figures closed at the end."""
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] * (page.name in SLOW)) for page in PAGES]
)
def test_code_of_pages_runs(page, empty_folder, request):
    if page.name in REAL_DATA:
        from tests.conftest import data_folder

        if (folder := data_folder()) is None:
            pytest.skip("the real data are not here: set LATENTFIT_DATA to the folder that holds pairs/")
        request.getfixturevalue("monkeypatch").setenv("LATENTFIT_DATA", str(folder))
    if name_of(page) in FILES:
        FILES[name_of(page)](empty_folder)
    run_page(page)


PEERS = [page for page in PAGES if any(block.peer for block in blocks_of(page))]


@pytest.mark.skipif("LATENTFIT_PEERS" not in os.environ, reason="other programs' code runs with LATENTFIT_PEERS=1")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PEERS, ids=name_of)
def test_code_of_other_programs_runs(page, empty_folder):
    for peer in {block.peer for block in blocks_of(page) if block.peer}:
        if importlib.util.find_spec(peer) is None:
            pytest.skip(f"{peer} is not installed")
    run_page(page, peers=True)


def test_blocks_left_out_are_few_and_say_why():
    left = [block for page in PAGES for block in blocks_of(page) if block.not_run]
    assert len(left) <= 4, "a page's code is for running"
