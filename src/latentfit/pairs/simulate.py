"""Pairs of items drawn from a low-rank probability matrix B = D_L W D_Rᵀ whose parts are known.

Huang, Kakade, Kong & Valiant 2018, Appendix E and Section 5.1, and what their examples leave out:

``"example1"``  two causes, half of the items (1 + C)/M likely under the first and (1 − C)/M under the second
``"example2"``  the same, and one common item of probability .1 under both
``"zipf"``      both causes have a Zipf law (probability ~ 1/rank), each over an order of its own: real dictionaries
``"graded"``    Δ_i/ρ_i spread evenly over (−C, C), marginals spread over a factor of ten: no two items alike
``"topics"``    any number of causes, Dirichlet over items of their own, mixed with a common law by `overlap`

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
    """Counts with what made them.

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
        """ρ (M,)."""
        return np.asarray(self.left @ self.mixing.sum(axis=1))

    @property
    def separation(self) -> Floats:
        """Δ (M,) of a symmetric rank-2 world, its sign such that its largest entry is positive."""
        cut = self.mixing[0, 0] - self.mixing[0].sum() * self.mixing[:, 0].sum()
        delta = np.sqrt(abs(cut)) * (self.left[:, 0] - self.left[:, 1])
        return np.asarray(delta if delta[np.argmax(np.abs(delta))] > 0 else -delta)

    def rows(self, at: NDArray[np.intp]) -> Floats:
        """Rows of B, (len(at), M')."""
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
    """Draw pairs (i, j) of `n_items` items; `separation` is C, `n_components` and `overlap` serve ``"topics"``.

    Examples 1 and 2 are those of the paper's Appendix E.

    >>> world = pairs(100, 1000, "zipf", random_state=0)
    >>> world.counts.shape, int(world.counts.sum())
    ((100, 100), 1000)
    """
    if model not in get_args(World):
        raise DataError(f"model={model!r}; give one of {', '.join(get_args(World))}")
    if n_items < 2 * n_components or n_pairs < 1 or not 0 <= separation <= 1:
        raise DataError(
            f"n_items={n_items}, n_pairs={n_pairs}, separation={separation}; give at least twice as many items as "
            "causes, one pair, and a separation from 0 to 1"
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
    """Counts of `n_pairs` independent pairs from B = left · mixing · rightᵀ.

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


def _draw(law: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    edges = np.cumsum(law)
    return np.asarray(np.searchsorted(edges / edges[-1], rng.random(number), side="right"), np.intp)


def _dictionary(
    n_items: int, model: World, separation: float, number: int, overlap: float, rng: np.random.Generator
) -> Floats:
    if model == "zipf":
        law = 1.0 / np.arange(1, n_items + 1)
        return np.column_stack([(law / law.sum())[rng.permutation(n_items)] for _ in range(2)])
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
    lift = lift - marginal @ lift  # both laws sum to one
    return np.column_stack([marginal * (1 + lift), marginal * (1 - lift)])
