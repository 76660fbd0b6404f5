"""`Graph`: who is linked with whom, undirected, and an order of the nodes that the links alone decide."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.names import Names
from latentfit.core.sampling import scramble

REFINEMENTS = 6
"""Rounds of telling nodes apart by their neighbours: enough to reach most of a sparse graph."""


@dataclass(frozen=True)
class Graph:
    """An undirected graph: symmetric weights without a diagonal, and the names of its nodes."""

    matrix: sp.csr_array  # (n, n) float64, sorted indices
    names: Names
    notes: tuple[str, ...] = ()
    directed: sp.csr_array | None = None  # (n, n) the links as they were given, where they have a direction

    @property
    def n_nodes(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_edges(self) -> int:
        return int(self.matrix.nnz) // 2

    @property
    def weighted(self) -> bool:
        return bool((self.matrix.data != 1).any())

    @property
    def degrees(self) -> Floats:
        """Sum of the weights of every node's edges (n,)."""
        return np.asarray(self.matrix.sum(axis=1), np.float64).reshape(-1)

    def evened(self) -> tuple[Graph, float]:
        """The graph with weights of mean 1, and the mean they had."""
        if not self.weighted:
            return self, 1.0
        mean = float(self.matrix.data.mean())
        return replace(self, matrix=sp.csr_array(self.matrix / mean)), mean

    def reordered(self, order: NDArray[np.intp]) -> Graph:
        """The same graph, its nodes in that order."""
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        lengths = np.diff(self.matrix.indptr)[order]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        take = np.repeat(self.matrix.indptr[order] - starts[:-1], lengths) + np.arange(starts[-1])
        matrix = sp.csr_array((self.matrix.data[take], place[self.matrix.indices[take]], starts), self.matrix.shape)
        matrix.sort_indices()
        directed = None if self.directed is None else sp.csr_array(self.directed[order][:, order])
        return Graph(matrix, self.names[order], self.notes, directed)


def content_order(graph: Graph) -> NDArray[np.intp]:
    """An order of the nodes that does not hang on where they stood.

    Nodes are told apart by their degrees, then by those of their neighbours, and so on (colour refinement, by hashes);
    nodes that stay alike look alike from `REFINEMENTS` steps around, and their names decide. The nodes of a matrix have
    no names: those that stay alike keep their order.
    """
    offsets, reach = graph.matrix.indptr, graph.matrix.indices
    weights = scramble(graph.matrix.data.view(np.uint64), 1) if graph.weighted else None
    colour = np.diff(offsets).astype(np.uint64)
    for round_ in range(REFINEMENTS):
        said = scramble(colour, round_ + 2)[reach]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(said if weights is None else said * weights)])
        colour = scramble(colour ^ scramble(sums[offsets[1:]] - sums[offsets[:-1]], 0), round_)  # wraps around, exactly
    rank = np.argsort(np.argsort(graph.names, kind="stable"), kind="stable")
    return np.lexsort((rank, colour))
