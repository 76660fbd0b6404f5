"""Makes the pictures of the documentation: python docs/make_pictures.py [NAME …]

A page's own code draws its pictures: every page that shows ../pictures/NAME.png is run in an empty folder, and what it
saved as NAME.png is kept in docs/pictures. The README's pictures are of the built-in demo (`tacit demo`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image
from run_page import run_page

DOCS = Path(__file__).parent
FOLDER = DOCS / "pictures"
STYLE = {"savefig.dpi": 110, "savefig.bbox": "tight", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
COLOURS = 64
"""Colours of a kept picture: enough for shades, and a file stays below 60 KB."""


def pictures_of(page: Path) -> list[str]:
    """Names of the pictures that a page shows."""
    return re.findall(r"!\[[^\]]*\]\((?:\.\./|docs/)pictures/([\w-]+)\.png\)", page.read_text(encoding="utf-8"))


def pages_with_pictures() -> dict[Path, list[str]]:
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {page: shown for page in pages if (shown := pictures_of(page))}


def make(page: Path, names: list[str], folder: Path) -> None:
    """Run a page in an empty folder and keep its pictures, in few colours."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as empty, plt.rc_context(STYLE):
        os.chdir(empty)
        try:
            draw_demo() if page.name == "README.md" else run_page(page)
            for name in names:
                with Image.open(f"{name}.png") as picture:
                    few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                    few.save(folder / f"{name}.png", optimize=True)
        finally:
            plt.close("all")
            os.chdir(here)


def draw_demo() -> None:
    """The pictures of the README, from what `tacit demo` wrote."""
    from tacit.cli.main import main

    main(["demo", "--quiet"])


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page, names in pages_with_pictures().items():
        if not sys.argv[1:] or set(names) & set(sys.argv[1:]):
            make(page, names, FOLDER)
            print(*(f"{name}.png {(FOLDER / f'{name}.png').stat().st_size / 1000:.0f} KB" for name in names), sep="\n")
