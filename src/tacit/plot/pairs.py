"""Pictures of a pair matrix: items in the plane of two of their embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit.errors import DataError
from tacit.models.pair_matrix import PairMatrix

MOST_NAMES = 60
"""Items whose names are written: more cannot be read."""


def plot_items(
    model: PairMatrix, *, components: tuple[int, int] = (0, 1), names: int = MOST_NAMES, ax: Any = None
) -> Any:
    """Items of a fitted `tacit.PairMatrix` as points, areas by frequency, the names of the most telling ones written.

    At rank 2 there is one embedding: it stands against the marginal. Names go to the items that move most probability,
    |Δ| over both components.

    Returns
    -------
    The axes; ``ax.figure.savefig(…)`` keeps the picture.

    Examples
    --------
    >>> from tacit import PairMatrix
    >>> from tacit.plot.pairs import plot_items
    >>> from tacit.simulate import pairs
    >>> model = PairMatrix(3).fit(pairs(60, 3000, "topics", n_components=3, random_state=0).counts)
    >>> plot_items(model).get_xlabel()
    'component 1'
    """
    if not isinstance(model, PairMatrix):
        raise DataError(f"a {type(model).__name__} has no embeddings of items; give a PairMatrix")
    check_is_fitted(model)
    rank = len(model.components_)
    wanted: list[int] = [0] if rank == 1 else list(components)
    if rank < 1 or max(wanted) >= rank or min(wanted) < 0:
        raise DataError(f"components {components} of a model with {rank} embeddings; give two from 0 to {rank - 1}")
    x = model.components_[wanted[0]]
    y = np.log10(np.maximum(model.marginal_, 1e-300)) if rank == 1 else model.components_[wanted[-1]]
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(7, 7), layout="constrained")
    sizes = 4 + 400 * np.sqrt(model.marginal_ / model.marginal_.max())
    ax.scatter(x, y, s=sizes, alpha=0.25, linewidth=0)
    moved = sum(np.abs(model.components_[at]) * model.marginal_ for at in wanted)
    for at in np.argsort(-moved, kind="stable")[:names]:
        ax.annotate(str(model.items_[at]), (x[at], y[at]), fontsize=7, ha="center", va="center")
    ax.axvline(0, color="grey", linewidth=0.5)
    ax.set_xlabel(f"component {wanted[0] + 1}")
    ax.set_ylabel("log₁₀ of the marginal" if rank == 1 else f"component {wanted[-1] + 1}")
    if rank > 1:
        ax.axhline(0, color="grey", linewidth=0.5)
    return ax
