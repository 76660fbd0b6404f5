"""Pictures of communities: the adjacency matrix with the nodes of a block side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tacit.data.graph_input import read_graph
from tacit.errors import DataError
from tacit.models.block_model import BlockModel

CELLS = 600
"""Cells of the picture a side, at most: a large graph is drawn as densities."""


def plot_blocks(model: BlockModel, graph: Any, *, axes: Any = None) -> Any:
    """The matrix of links, nodes sorted by block and, inside, by how sure their block is; darker is denser.

    Parameters
    ----------
    model : a fitted `tacit.BlockModel`
    graph : the graph, in any form `fit` takes; nodes that the fit has not seen get their blocks by `predict`
    axes : matplotlib axes; None makes a figure

    Returns
    -------
    The axes; ``axes.figure.savefig(…)`` keeps the picture.

    Examples
    --------
    >>> from tacit import BlockModel
    >>> from tacit.plot.blocks import plot_blocks
    >>> from tacit.simulate import block_graph
    >>> made = block_graph(200, 3, 10.0, strength=4.0, random_state=0)
    >>> axes = plot_blocks(BlockModel(3).fit(made.matrix), made.matrix)
    >>> axes.get_title()
    '200 nodes, 3 blocks'
    """
    check_is_fitted(model)
    if not isinstance(model, BlockModel):
        raise DataError(f"{type(model).__name__} has no blocks; give a fitted BlockModel")
    read = read_graph(graph)
    beliefs = model.beliefs_in(read)
    order, edges = sorted_nodes(beliefs)
    if axes is None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.5, 5.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
    dense = densities(read.matrix, order)
    axes.imshow(dense ** 0.5, cmap="Greys", extent=(0, len(order), len(order), 0), interpolation="nearest")
    for edge in edges[1:-1]:
        axes.axhline(edge, color="#c1272d", linewidth=0.6)
        axes.axvline(edge, color="#c1272d", linewidth=0.6)
    middle = (edges[1:] + edges[:-1]) / 2
    named = np.diff(edges) > 0.02 * len(order)
    axes.set_xticks(middle[named], [str(block) for block in np.flatnonzero(named)])
    axes.set_yticks(middle[named], [str(block) for block in np.flatnonzero(named)])
    axes.set_title(f"{len(order):,} nodes, {beliefs.shape[1]} blocks")
    return axes


def sorted_nodes(beliefs: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Nodes by block, the surest first; and where each block begins and ends (K + 1,)."""
    labels = beliefs.argmax(axis=1)
    order = np.lexsort((-beliefs.max(axis=1), labels))
    edges = np.concatenate([[0.0], np.cumsum(np.bincount(labels, minlength=beliefs.shape[1]))])
    return order, edges


def densities(matrix: Any, order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean weight (cells, cells) of the links in each cell of the sorted matrix."""
    n = len(order)
    cells = min(n, CELLS)
    place = np.empty(n, np.intp)
    place[order] = np.arange(n)
    cell = place * cells // n
    at = matrix.tocoo()
    sums = np.bincount(cell[at.row] * cells + cell[at.col], at.data, cells**2).reshape(cells, cells)
    size = np.bincount(cell, minlength=cells)
    return np.asarray(sums / np.outer(size, size))
