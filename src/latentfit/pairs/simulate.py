"""Pairs of items drawn from a low-rank probability matrix B = D_L W D_Rᵀ whose parts are known.

Huang, Kakade, Kong & Valiant 2018, Appendix E and Section 5.1, and what their examples leave out:

``"example1"``  two causes, half of the items (1 + C)/M likely under the first and (1 − C)/M under the second
``"example2"``  the same, and one common item of probability .1 under both
``"zipf"``      both causes have a Zipf distribution (probability ~ 1/rank), each over an order of its own: real
                dictionaries
``"graded"``    Δ_i/ρ_i spread evenly over (−C, C), marginals spread over a factor of ten: no two items alike
``"topics"``    any number of causes, Dirichlet over items of their own, mixed with a common distribution by `overlap`

The first four have rank 2 and causes that come in equal pairs (W = diag(½, ½), so w_L = w_R = ½ and Δ = (p − q)/2).
``asymmetric=True`` gives the columns items of their own, and W = [[.4, .1], [.2, .3]] (in general a random W).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

__all__ = ["PairWorld", "draw_pairs", "pairs"]

Seed = int | np.random.Generator | None
World = Literal["example1", "example2", "zipf", "graded", "topics"]

COMMON_ITEM = 0.1
"""Probability of Example 2's common item."""


@dataclass(frozen=True)
class PairWorld:
    """Simulated pair counts with known parameters: B = left · mixing · rightᵀ.

    Attributes
    ----------
    counts : sparse array of shape (n_items, n_column_items)
        How often the pair (i, j) was drawn.
    left, right : ndarray of shape (n_items, n_components)
        P(item | component); columns sum to one. The same object in the symmetric case.
    mixing : ndarray of shape (n_components, n_components)
        P(component of row, component of column); sums to one.

    Examples
    --------
    >>> from latentfit.simulate import pairs
    >>> world = pairs(50, 1000, random_state=0)
    >>> world.left.shape, round(float(world.marginal.sum()), 12)
    ((50, 2), 1.0)
    """

    counts: sp.csr_array  # (M, M') how often the pair (i, j) was drawn
    left: Floats  # (M, K) D_L, columns sum to one
    right: Floats  # (M', K) D_R, the same object in the symmetric case
    mixing: Floats  # (K, K) W, sums to one

    @property
    def marginal(self) -> Floats:
        """Row sums ρ of B, of shape (n_items,)."""
        return np.asarray(self.left @ self.mixing.sum(axis=1))

    @property
    def separation(self) -> Floats:
        """Δ (M,) of a symmetric rank-2 world, its sign such that its largest entry is positive."""
        cut = self.mixing[0, 0] - self.mixing[0].sum() * self.mixing[:, 0].sum()
        delta = np.sqrt(abs(cut)) * (self.left[:, 0] - self.left[:, 1])
        return np.asarray(delta if delta[np.argmax(np.abs(delta))] > 0 else -delta)

    def rows(self, at: NDArray[np.intp]) -> Floats:
        """Rows of B.

        Parameters
        ----------
        at : ndarray of shape (n,)
            Row items.

        Returns
        -------
        ndarray of shape (n, n_column_items)
            Probabilities of their pairs.
        """
        return np.asarray((self.left[at] @ self.mixing) @ self.right.T)


def pairs(
    n_items: int = 500,
    n_pairs: int = 10_000,
    model: World = "example1",
    *,
    separation: float = 0.8,
    n_components: int = 2,
    overlap: float = 0.05,
    asymmetric: bool = False,
    random_state: Seed = None,
) -> PairWorld:
    """Simulate counts of pairs (i, j).

    Parameters
    ----------
    n_items : int, default 500
        Number of items M.
    n_pairs : int, default 10000
        Number of pairs N.
    model : {"example1", "example2", "zipf", "graded", "topics"}, default "example1"
        Kind of dictionary, as the module's docstring describes them; examples 1 and 2 are those of the paper's
        Appendix E.
    separation : float, default 0.8
        The paper's C, from 0 to 1.
    n_components : int, default 2
        Number of components, for ``"topics"``.
    overlap : float, default 0.05
        Weight of the common distribution in every component, for ``"topics"``.
    asymmetric : bool, default False
        Whether row and column items have dictionaries of their own.
    random_state : int, numpy.random.Generator or None, default None
        Seed.

    Returns
    -------
    PairWorld
        Counts and parameters.

    Examples
    --------
    >>> from latentfit.simulate import pairs
    >>> world = pairs(100, 1000, "zipf", random_state=0)
    >>> world.counts.shape, int(world.counts.sum())
    ((100, 100), 1000)
    """
    if model not in get_args(World):
        raise DataError(f"model must be one of {', '.join(map(repr, get_args(World)))}, got {model!r}")
    if n_items < 2 * n_components or n_pairs < 1 or not 0 <= separation <= 1:
        raise DataError(
            "n_items >= 2 * n_components, n_pairs >= 1 and 0 <= separation <= 1 must hold, got "
            f"n_items={n_items}, n_components={n_components}, n_pairs={n_pairs}, separation={separation}"
        )
    rng = np.random.default_rng(random_state)
    number = n_components if model == "topics" else 2
    left = _dictionary(n_items, model, separation, number, overlap, rng)
    right = _dictionary(n_items, model, separation, number, overlap, rng) if asymmetric else left
    if not asymmetric:
        mixing = np.eye(number) / number
    elif number == 2:
        mixing = np.array([[0.4, 0.1], [0.2, 0.3]])
    else:
        mixing = rng.dirichlet(np.full(number, 0.3), number) / number + np.eye(number) / number
        mixing /= mixing.sum()
    return PairWorld(draw_pairs(left, right, mixing, n_pairs, rng), left, right, mixing)


def draw_pairs(left: Floats, right: Floats, mixing: Floats, n_pairs: int, rng: np.random.Generator) -> sp.csr_array:
    """Simulate counts of independent pairs from B = left · mixing · rightᵀ.

    Parameters
    ----------
    left : ndarray of shape (n_items, n_components)
        P(row item | component).
    right : ndarray of shape (n_column_items, n_components)
        P(column item | component).
    mixing : ndarray of shape (n_components, n_components)
        P(component of row, component of column).
    n_pairs : int
        Number of pairs.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    sparse array of shape (n_items, n_column_items)
        Counts that sum to `n_pairs`.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import draw_pairs
    >>> causes = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> counts = draw_pairs(causes, causes, np.diag([0.5, 0.5]), 10, np.random.default_rng(0)).toarray()
    >>> int(counts.sum()), int(counts[0, 1])
    (10, 0)
    """
    shape_of_causes = (len(mixing), mixing.shape[1])
    each = np.asarray(rng.multinomial(n_pairs, mixing.reshape(-1))).reshape(shape_of_causes)
    rows = [_draw(left[:, k], int(each[k].sum()), rng) for k in range(len(each))]
    cols = [_draw(right[:, k], int(each[:, k].sum()), rng) for k in range(shape_of_causes[1])]
    begin = np.zeros(shape_of_causes[1], np.intp)
    first, second = [], []
    for k, line in enumerate(each):
        at = 0
        for m, number in enumerate(line):
            first.append(rows[k][at : at + number])
            second.append(cols[m][begin[m] : begin[m] + number])
            at, begin[m] = at + int(number), begin[m] + int(number)
    data = np.ones(n_pairs, np.int64)
    shape = (len(left), len(right))
    return sp.coo_array((data, (np.concatenate(first), np.concatenate(second))), shape=shape).tocsr()


def _draw(probabilities: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    edges = np.cumsum(probabilities)
    return np.asarray(np.searchsorted(edges / edges[-1], rng.random(number), side="right"), np.intp)


def _dictionary(
    n_items: int, model: World, separation: float, number: int, overlap: float, rng: np.random.Generator
) -> Floats:
    if model == "zipf":
        zipf = 1.0 / np.arange(1, n_items + 1)
        return np.column_stack([(zipf / zipf.sum())[rng.permutation(n_items)] for _ in range(2)])
    if model == "topics":
        owner = np.sort(np.arange(n_items) % number)
        own = rng.gamma(1.0, size=n_items)
        parts = np.where(owner[:, None] == np.arange(number), own[:, None], 0.0)
        common = rng.dirichlet(np.ones(n_items))[:, None]
        return np.asarray((1 - overlap) * parts / parts.sum(axis=0) + overlap * common)
    if model == "graded":
        marginal = np.exp(np.log(10) * rng.random(n_items))
        lift = separation * rng.permutation(np.linspace(-1, 1, n_items))
    else:
        marginal = np.ones(n_items)
        lift = separation * np.where(np.arange(n_items) < n_items // 2, 1.0, -1.0)
        if model == "example2":
            lift[0] = 0.0
            marginal[0] = COMMON_ITEM / (1 - COMMON_ITEM) * (n_items - 1)
    marginal = marginal / marginal.sum()
    lift = lift - marginal @ lift  # both distributions sum to one
    return np.column_stack([marginal * (1 + lift), marginal * (1 - lift)])
