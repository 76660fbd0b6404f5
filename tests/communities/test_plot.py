"""The picture of communities: nodes of a block side by side, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BernoulliMixture, BlockModel
from latentfit.communities.plot import CELLS, densities, plot_blocks, plot_connectivity, sorted_nodes
from latentfit.core.canvas import new_axes, write_cells
from latentfit.core.errors import DataError
from latentfit.simulate import block_graph

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


def test_blocks_are_on_the_diagonal(tmp_path):
    made = block_graph(150, 3, 12.0, strength=6.0, random_state=0)
    model = BlockModel(3).fit(made.matrix)
    order, edges = sorted_nodes(model.probabilities_)
    assert (np.diff(model.labels_[order]) >= 0).all()
    assert edges.tolist() == [0, *np.cumsum(np.bincount(model.labels_))]
    dense = densities(made.matrix, order)
    assert dense.sum() == made.matrix.sum()
    axes = plot_blocks(model, made.matrix)
    assert len(axes.lines) == 4
    axes.figure.savefig(tmp_path / "blocks.png")
    assert plot_blocks(model, made.matrix, axes=axes) is axes


def test_large_graphs_become_densities():
    made = block_graph(2 * CELLS, 2, 6.0, strength=3.0, random_state=0)
    dense = densities(made.matrix, np.arange(2 * CELLS))
    assert dense.shape == (CELLS, CELLS)
    assert 4 * dense.sum() == pytest.approx(made.matrix.sum())


def luminance(colour):
    """Relative luminance of a colour, as W3C's guidelines on contrast define it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("scale", "least"), [("Blues", 0.0), ("Greys", 0.0), ("RdBu_r", -1.0)])
def test_numbers_can_be_read_on_their_cells(scale, least):
    """A contrast of 4.58 is what the worst colour can have with the better of black and white."""
    ax = new_axes(8, 2)
    values = np.linspace(least, 1, 41)[None]
    image = ax.imshow(values, vmin=least, vmax=1, cmap=scale)
    write_cells(ax, values, "{:.2f}")
    for text, value in zip(ax.texts, values[0], strict=True):
        cell, ink = luminance(image.cmap(image.norm(value))), float(text.get_color() == "white")
        assert (max(cell, ink) + 0.05) / (min(cell, ink) + 0.05) > 3.5, (value, text.get_color())


def test_dark_cells_of_connectivity_have_white_numbers():
    matrix = np.kron(np.eye(10), np.ones((4, 4)) - np.eye(4))
    matrix[0, 4] = matrix[4, 0] = 1
    ax = plot_connectivity(BlockModel(10, degree_corrected=False).fit(matrix), matrix)
    inks = np.array([text.get_color() for text in ax.texts]).reshape(10, 10)
    shades = np.asarray(ax.images[0].get_array())
    assert ((inks == "white") == (np.abs(shades) > 2.6)).all()
    assert {"white", "black"} == set(inks.ravel())


def test_other_models_have_no_blocks():
    mixture = BernoulliMixture(2).fit(np.eye(4)[np.arange(40) % 4])
    with pytest.raises(DataError, match="must be a fitted BlockModel"):
        plot_blocks(mixture, np.eye(2))
