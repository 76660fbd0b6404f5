"""The picture of communities: nodes of a block side by side, nothing lost."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import BernoulliMixture, BlockModel
from tacit.errors import DataError
from tacit.plot.blocks import CELLS, densities, plot_blocks, sorted_nodes
from tacit.simulate import block_graph

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'tacit[plot]'")


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


def test_other_models_have_no_blocks():
    mixture = BernoulliMixture(2).fit(np.eye(4)[np.arange(40) % 4])
    with pytest.raises(DataError, match="give a fitted BlockModel"):
        plot_blocks(mixture, np.eye(2))
