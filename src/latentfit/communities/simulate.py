"""Graphs with known communities: stochastic block models, with equal or power-law degrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

__all__ = ["BlockGraph", "block_graph"]

Seed = int | np.random.Generator | None


@dataclass(frozen=True)
class BlockGraph:
    """A simulated graph with known blocks.

    Attributes
    ----------
    matrix : sparse array of shape (n, n)
        Adjacency: 0 and 1, symmetric, no diagonal.
    blocks : ndarray of shape (n,)
        Block of each node.
    affinity : ndarray of shape (n_blocks, n_blocks)
        c_rs: a node has degree · c_rs · n_s / n edges into block s on average.
    propensity : ndarray of shape (n,)
        Factor of each node's degree, mean 1.

    Examples
    --------
    >>> from latentfit.simulate import block_graph
    >>> made = block_graph(100, 2, 6.0, strength=4.0, random_state=0)
    >>> made.affinity.shape, bool(made.affinity[0, 0] > made.affinity[0, 1])
    ((2, 2), True)
    """

    matrix: sp.csr_array  # (n, n), 0 and 1, symmetric, no diagonal
    blocks: NDArray[np.int64]  # (n,)
    affinity: Floats  # (K, K), c_rs: a node has degree · c_rs · n_s / n edges into block s on average
    propensity: Floats  # (n,), mean 1: what multiplies a node's degree


def block_graph(
    n: int,
    n_blocks: int = 2,
    degree: float = 10.0,
    *,
    strength: float = 2.0,
    affinity: Floats | None = None,
    sizes: Floats | None = None,
    power: float | None = None,
    random_state: Seed = None,
) -> BlockGraph:
    r"""Simulate a graph from a stochastic block model, degree-corrected with `power`.

    Two nodes i, j of blocks r, s are linked with probability about :math:`\theta_i\theta_j c_{rs} / n`. By default
    blocks have equal sizes and c takes two values, within and between, so that the mean degree is `degree` and the
    signal-to-noise ratio :math:`(c_{in}-c_{out})^2 / (K^2 \cdot degree)` is `strength`: 1 is the Kesten–Stigum
    threshold, for two blocks (a − b)² = 2(a + b). A negative strength links unlike nodes.

    Parameters
    ----------
    n : int
        Number of nodes.
    n_blocks : int, default 2
        Number of blocks K.
    degree : float, default 10.0
        Mean degree.
    strength : float, default 2.0
        Signal-to-noise ratio; 1 is the threshold of detection.
    affinity : ndarray of shape (n_blocks, n_blocks) or None, default None
        Relative affinities instead of `strength`; scaled so that the mean degree is `degree`.
    sizes : ndarray of shape (n_blocks,) or None, default None
        Relative sizes of the blocks; None is even.
    power : float or None, default None
        Exponent of a power law for the propensities θ, above 2 (cut where a node would reach √n); None: all 1.
    random_state : int, numpy.random.Generator or None, default None
        Seed.

    Returns
    -------
    BlockGraph
        The graph, its blocks, affinities and propensities.

    Examples
    --------
    >>> from latentfit.simulate import block_graph
    >>> made = block_graph(1000, 4, 8.0, strength=3.0, random_state=0)
    >>> made.matrix.shape, len(made.affinity), round(made.matrix.nnz / 1000)
    ((1000, 1000), 4, 8)
    """
    proportions = np.full(n_blocks, 1.0 / n_blocks) if sizes is None else np.asarray(sizes, np.float64)
    if n < n_blocks or n_blocks < 1 or not degree > 0 or len(proportions) != n_blocks or (proportions <= 0).any():
        raise DataError(
            "n >= n_blocks >= 1, degree > 0 and one positive size per block must hold, got "
            f"n={n}, n_blocks={n_blocks}, degree={degree}, sizes={sizes}"
        )
    rng = np.random.default_rng(random_state)
    proportions = proportions / proportions.sum()
    blocks = rng.permutation(np.searchsorted(np.cumsum(proportions)[:-1], (np.arange(n) + 0.5) / n))
    theta = np.ones(n)
    if power is not None:
        if power <= 2:
            raise DataError(f"power must be > 2 or None, got {power}; with 2 or less the propensities have no mean")
        theta = np.minimum((1 - rng.random(n)) ** (-1 / (power - 1)), np.sqrt(n) / 2)
        theta /= theta.mean()
    c = _planted(n_blocks, degree, strength) if affinity is None else np.asarray(affinity, np.float64)
    mass = np.bincount(blocks, theta, n_blocks) / n
    c = c * (degree / (mass @ c @ mass))
    return BlockGraph(_draw(blocks, theta, c, rng), blocks, c, theta)


def _planted(K: int, degree: float, strength: float) -> Floats:
    """c_in and c_out of a given signal-to-noise ratio: (c_in − c_out) / K = ±√(degree · |strength|)."""
    if K == 1:
        return np.full((1, 1), degree)
    step = np.sign(strength) * np.sqrt(degree * abs(strength))
    c = np.full((K, K), degree - step)
    c[np.diag_indices(K)] += K * step
    if (c < 0).any():
        raise DataError(
            f"strength={strength} asks for negative affinities at degree {degree} with {K} blocks; give less strength, "
            "or more degree"
        )
    return c


def _draw(blocks: NDArray[np.int64], theta: Floats, c: Floats, rng: np.random.Generator) -> sp.csr_array:
    """Poisson numbers of links between blocks, their ends by propensity; repeated links are one, loops are none."""
    n, K = len(blocks), len(c)
    members = [np.flatnonzero(blocks == r) for r in range(K)]
    ends: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for r in range(K):
        for s in range(r, K):
            mass = theta[members[r]].sum() * theta[members[s]].sum() * (0.5 if r == s else 1.0)
            number = rng.poisson(c[r, s] / n * mass)
            ends.append(tuple(_ends(members[q], theta, number, rng) for q in (r, s)))  # type: ignore[arg-type]
    source, target = (np.concatenate([pair[side] for pair in ends]) for side in (0, 1))
    apart = source != target
    source, target = source[apart], target[apart]
    one = np.ones(2 * len(source))
    both = (np.concatenate([source, target]), np.concatenate([target, source]))
    matrix = sp.csr_array(sp.coo_array((one, both), shape=(n, n)).tocsr())
    matrix.data[:] = 1.0
    return matrix


def _ends(members: NDArray[np.intp], theta: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    reach = np.cumsum(theta[members])
    return np.asarray(members[np.minimum(np.searchsorted(reach, rng.random(number) * reach[-1]), len(members) - 1)])
