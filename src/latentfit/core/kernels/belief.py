"""Checked wrappers of the belief-propagation kernels: messages on the edges of a sparse graph, and their sums."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats, _check, _pointer, _run

MOST_BLOCKS = 256
"""Most blocks the kernels hold."""


class Edges(NamedTuple):
    """A graph as its kernels read it: row i of node i holds its edges, each edge stands in the rows of both ends."""

    offsets: NDArray[np.int64]  # (n + 1,)
    reverse: NDArray[np.int64]  # (2m,), where the edge stands in the row of its other end
    weights: Floats | None  # (2m,), None: all 1
    mass: Floats  # (n,), what multiplies a node's affinity: 1, or its degree

    @property
    def n_nodes(self) -> int:
        return len(self.mass)

    @property
    def n_messages(self) -> int:
        return len(self.reverse)


def _arguments(edges: Edges, prior: Floats, affinity: Floats) -> tuple[list[Any], list[Floats], float]:
    n, size, blocks = edges.n_nodes, edges.n_messages, len(prior)
    _check(edges.offsets, np.int64, (n + 1,), "offsets")
    _check(edges.reverse, np.int64, (size,), "reverse")
    _check(edges.mass, np.float64, (n,), "mass")
    if edges.weights is not None:
        _check(edges.weights, np.float64, (size,), "weights")
    _check(affinity, np.float64, (blocks, blocks), "affinity")
    if not 1 <= blocks <= MOST_BLOCKS:
        raise ValueError(f"{blocks} blocks asked for; give a number from 1 to {MOST_BLOCKS}")
    scale = float(affinity.max())
    scaled = affinity / scale
    kept = [np.log(prior), scaled, np.log(scaled)]
    head = [
        _pointer(edges.offsets), _pointer(edges.reverse), _pointer(edges.weights), _pointer(edges.mass),
        ctypes.c_int64(n), *(_pointer(one) for one in kept), ctypes.c_double(scale), ctypes.c_int(blocks),
    ]  # fmt: skip
    return head, kept, scale


def belief_sweeps(
    edges: Edges, prior: Floats, affinity: Floats, messages: Floats, posterior: Floats,
    *, sweeps: int, tol: float = 0.0, damping: float = 0.0, threads: int = 1,
) -> tuple[float, int]:  # fmt: skip
    """Pass messages at most `sweeps` times, until posteriors change by less than `tol` per node; last change, sweeps.

    `messages` (2m, K), at their receiver, and `posterior` (n, K) are changed in place.
    """
    head, kept, _ = _arguments(edges, prior, affinity)
    _check(messages, np.float64, (edges.n_messages, len(prior)), "messages")
    _check(posterior, np.float64, (edges.n_nodes, len(prior)), "posterior")
    change, done = ctypes.c_double(), ctypes.c_int()
    tail = [ctypes.c_int(sweeps), ctypes.c_double(tol), ctypes.c_double(damping), ctypes.c_int(max(threads, 1))]
    result = [_pointer(messages), _pointer(posterior), ctypes.byref(change), ctypes.byref(done)]
    _run("belief_sweeps", [*head, *tail, *result])
    del kept
    return change.value, done.value


def belief_sums(
    edges: Edges, prior: Floats, affinity: Floats, messages: Floats, posterior: Floats, *, threads: int = 1
) -> tuple[float, Floats]:
    """Bethe's log Z (nats), and the expected weight (K, K) of edges between blocks, each edge from both of its ends."""
    head, kept, scale = _arguments(edges, prior, affinity)
    _check(messages, np.float64, (edges.n_messages, len(prior)), "messages")
    _check(posterior, np.float64, (edges.n_nodes, len(prior)), "posterior")
    energy, pairs = ctypes.c_double(), np.zeros_like(affinity)
    tail = [
        ctypes.c_int(max(threads, 1)),
        _pointer(messages),
        _pointer(posterior),
        ctypes.byref(energy),
        _pointer(pairs),
    ]
    _run("belief_bethe", [*head, *tail])
    del kept
    weight = edges.n_messages if edges.weights is None else float(edges.weights.sum())
    return energy.value + weight / 2 * float(np.log(scale)), pairs + pairs.T
