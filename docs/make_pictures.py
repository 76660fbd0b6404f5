"""Makes the pictures of the documentation: python docs/make_pictures.py [NAME …]

A page's own code draws its pictures: every page that shows ../pictures/NAME.png is run in an empty folder, and what it
saved as NAME.png is kept in docs/pictures. The README's pictures are of the built-in demo (`latentfit demo`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from PIL import Image
from run_page import run_page

DOCS = Path(__file__).parent
FOLDER = DOCS / "pictures"
STYLE = {
    "savefig.dpi": 110,
    "savefig.bbox": "tight",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
COLOURS = 64
"""Colours of a kept picture: enough for shades, and a file stays below 60 KB."""


def pictures_of(page: Path) -> list[str]:
    """Names of the pictures that a page shows."""
    return re.findall(r"!\[[^\]]*\]\((?:(?:\.\./)*|docs/)pictures/([\w-]+)\.png\)", page.read_text(encoding="utf-8"))


def pages_with_pictures() -> dict[Path, list[str]]:
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {page: shown for page in pages if (shown := pictures_of(page))}


def make(page: Path, names: list[str], folder: Path) -> None:
    """Run a page in an empty folder and keep its pictures, in few colours."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as empty, plt.rc_context(STYLE):
        os.chdir(empty)
        try:
            if all(name.startswith("demo-") for name in names):
                draw_demo()
            else:
                run_page(page)
            for name in names:
                with Image.open(f"{name}.png") as picture:
                    few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                    few.save(folder / f"{name}.png", optimize=True)
        finally:
            plt.close("all")
            os.chdir(here)


def draw_demo() -> None:
    """The pictures of the README, from the files that `latentfit demo` writes."""
    import pandas as pd

    from latentfit import load
    from latentfit.cli.main import main

    main(["demo", "--quiet"])
    folder = Path("latentfit-demo")
    truth = pd.read_csv(folder / "truth.csv").set_index("task")["label"]
    draw_workers(load(folder / "model.latent"), pd.read_csv(folder / "labels.csv"), truth)
    draw_confidence(pd.read_csv(folder / "consensus.csv"), truth)


def draw_workers(model: Any, votes: Any, truth: Any) -> None:
    """Annotators as the model sees them, and what the truth says as crosses."""
    from latentfit.labels.plot import plot_workers

    right = (votes["label"] == truth.loc[votes["task"]].to_numpy()).groupby(votes["worker"]).mean()
    ax = plot_workers(model)
    names = [name.get_text() for name in ax.get_yticklabels()]
    ax.plot(right.loc[names], range(len(names)), "kx", label="share truly right")
    ax.legend()
    ax.figure.savefig("demo-workers.png")


def draw_confidence(consensus: Any, truth: Any) -> None:
    """Does a stated probability keep its promise? By tenths, areas by the number of digits."""
    right = consensus["label"] == truth.loc[consensus["task"]].to_numpy()
    tenth = (consensus["probability"] * 10).astype(int).clip(0, 9)
    means = consensus.assign(right=right).groupby(tenth)[["probability", "right"]].mean()
    sizes = tenth.value_counts().loc[means.index]
    figure, ax = plt.subplots(figsize=(6.5, 2.8))
    ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
    ax.scatter(means["probability"], means["right"], s=sizes / 2, alpha=0.8)
    for at, size in sizes.items():
        ax.annotate(f"{size} digits", means.loc[at], xytext=(8, -9), textcoords="offset points", fontsize=7)
    ax.set(xlabel="stated probability of the consensus", ylabel="share right", xlim=(0.2, 1.05), ylim=(0, 1.05))
    figure.savefig("demo-confidence.png")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page, names in pages_with_pictures().items():
        if not sys.argv[1:] or set(names) & set(sys.argv[1:]):
            make(page, names, FOLDER)
            print(*(f"{name}.png {(FOLDER / f'{name}.png').stat().st_size / 1000:.0f} KB" for name in names), sep="\n")
