"""Pictures of communities: the adjacency matrix with the nodes of a block side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.communities.data import read_graph
from latentfit.communities.estimator import BlockModel
from latentfit.core.canvas import UNSURE, check_drawable, new_axes, write_cells
from latentfit.core.kernels import Floats

CELLS = 600
"""Cells of the picture a side, at most: a large graph is drawn as densities."""
MOST_WRITTEN = 12
"""Blocks up to which numbers are written into the map."""


def plot_blocks(model: BlockModel, graph: Any, *, axes: Any = None) -> Any:
    """The matrix of links, nodes sorted by block and, inside, by how sure their block is; darker is denser.

    Parameters
    ----------
    model : BlockModel
        Fitted model.
    graph : sparse matrix, array, networkx or igraph graph, frame, list of edges
        The graph, in any form that `fit` takes; nodes that the fit has not seen get their blocks by `predict`.
    axes : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.communities.plot import plot_blocks
    >>> made = latentfit.simulate.block_graph(200, 3, 10.0, strength=4.0, random_state=0)
    >>> axes = plot_blocks(latentfit.BlockModel(3).fit(made.matrix), made.matrix)
    >>> axes.get_title()
    '200 nodes, 3 blocks'
    """
    check_drawable(model, BlockModel)
    read = read_graph(graph)
    posterior = model.posterior_in(read)
    order, edges = sorted_nodes(posterior)
    axes = new_axes(5.5, 5.5) if axes is None else axes
    dense = densities(read.matrix, order)
    axes.imshow(dense**0.5, cmap="Greys", extent=(0, len(order), len(order), 0), interpolation="nearest")
    for edge in edges[1:-1]:
        axes.axhline(edge, color=UNSURE, linewidth=0.6)
        axes.axvline(edge, color=UNSURE, linewidth=0.6)
    middle = (edges[1:] + edges[:-1]) / 2
    named = np.diff(edges) > 0.02 * len(order)
    axes.set_xticks(middle[named], [str(block) for block in np.flatnonzero(named)])
    axes.set_yticks(middle[named], [str(block) for block in np.flatnonzero(named)])
    axes.set_title(f"{len(order):,} nodes, {posterior.shape[1]} blocks")
    return axes


def plot_connectivity(model: BlockModel, graph: Any, *, ax: Any = None) -> Any:
    """Links between blocks against what degrees alone would make: 2× is twice as many, ½× half as many.

    Parameters
    ----------
    model : BlockModel
        Fitted model.
    graph : sparse matrix, array, networkx or igraph graph, frame, list of edges
        The graph, in any form that `fit` takes; nodes that the fit has not seen get their blocks by `predict`.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.communities.plot import plot_connectivity
    >>> made = latentfit.simulate.block_graph(200, 3, 10.0, strength=4.0, random_state=0)
    >>> plot_connectivity(latentfit.BlockModel(3).fit(made.matrix), made.matrix).get_xlabel()
    'block'
    """
    check_drawable(model, BlockModel)
    read = read_graph(graph)
    size = model.n_blocks_
    links, expected = block_links(read.matrix, model.posterior_in(read).argmax(axis=1), size)
    ratio = links / np.maximum(expected, 1e-300)
    doublings = np.log2(np.clip(ratio, 1 / 16, 16))
    ax = new_axes(1.8 + 0.55 * size, 1.4 + 0.5 * size) if ax is None else ax
    image = ax.imshow(doublings, vmin=-4, vmax=4, cmap="RdBu_r")
    ax.figure.colorbar(image, ax=ax, label="links over what degrees make, log₂")
    if size <= MOST_WRITTEN:
        write_cells(ax, ratio, "{:.2g}×", largest=4, shades=doublings)
    ax.set_xticks(range(size))
    ax.set_yticks(range(size))
    ax.set_xlabel("block")
    ax.set_ylabel("block")
    return ax


# --------------------------------------------------------------------- numbers


def sorted_nodes(posterior: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Nodes by block, the surest first; and where each block begins and ends (K + 1,)."""
    labels = posterior.argmax(axis=1)
    order = np.lexsort((-posterior.max(axis=1), labels))
    edges = np.concatenate([[0.0], np.cumsum(np.bincount(labels, minlength=posterior.shape[1]))])
    return order, edges


def densities(matrix: Any, order: NDArray[np.intp], most: int = CELLS) -> Floats:
    """Mean weight (cells, cells) of the links in each cell of the sorted matrix, at most `most` cells a side."""
    cell = cells_of(order, most)
    size = np.bincount(cell)
    return np.asarray(group_links(matrix, cell, len(size)) / np.outer(size, size))


def block_links(matrix: Any, labels: NDArray[Any], n_blocks: int) -> tuple[Floats, Floats]:
    """Weights of the links between blocks (K, K), both ways counted, and what degrees alone would make of them."""
    ends = np.bincount(labels, _degrees(matrix), n_blocks)
    return group_links(matrix, labels, n_blocks), np.asarray(np.outer(ends, ends) / max(float(ends.sum()), 1e-300))


def cells_of(order: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """The cell (nodes,) of every node when the sorted nodes are cut into at most `most` even cells."""
    n = len(order)
    place = np.empty(n, np.intp)
    place[order] = np.arange(n)
    return place * min(n, most) // max(n, 1)


def group_links(matrix: Any, group: NDArray[Any], number: int) -> Floats:
    """Sums (number, number) of the links between groups of nodes."""
    at = matrix.tocoo()
    sums = np.bincount(group[at.row] * number + group[at.col], at.data, number**2)
    return np.asarray(sums.reshape(number, number), np.float64)


def _degrees(matrix: Any) -> Floats:
    return np.asarray(matrix.sum(axis=1), np.float64).reshape(-1)
