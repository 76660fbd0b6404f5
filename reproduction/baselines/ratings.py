"""Ratings without a joint distribution: averages, and biased matrix factorisation (Koren, Bell & Volinsky 2009).

The factorisation minimises Σ (r − μ − b_u − b_i − p_u·q_i)² + ρ (‖p‖² + ‖q‖² + b²) by alternating ridge regressions
(the original takes stochastic gradient steps on the same loss).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats


def averages(ratings: Floats) -> dict[str, Floats]:
    """Predictions (user, movie) by the global, the user's and the movie's mean of the known ratings; NaN is unknown."""
    known = ~np.isnan(ratings)
    mean = float(ratings[known].mean())
    filled = np.where(known, ratings, 0.0)

    def along(axis: int) -> Floats:
        count = known.sum(axis=axis, keepdims=True)
        found = np.where(count > 0, filled.sum(axis=axis, keepdims=True) / np.maximum(count, 1), mean)
        return np.asarray(np.broadcast_to(found, ratings.shape))

    flat = np.full(ratings.shape, mean)
    return {"Global Average": flat, "User Average": along(1), "Movie Average": along(0)}


def biased_factorisation(
    ratings: Floats, rank: int, penalty: float, n_rounds: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Predictions (user, movie) after every round of alternation."""
    known = ~np.isnan(ratings)
    mean = float(ratings[known].mean())
    centred = np.where(known, ratings - mean, 0.0)
    movies = np.column_stack([rng.normal(0, 0.1, (ratings.shape[1], rank)), np.zeros(ratings.shape[1])])
    for _ in range(n_rounds):
        users = _ridge(centred, known, movies, penalty)
        movies = _ridge(centred.T, known.T, users, penalty)
        yield mean + users[:, :-1] @ movies[:, :-1].T + users[:, -1:] + movies[:, -1]


def _ridge(centred: Floats, known: NDArray[np.bool_], others: Floats, penalty: float) -> Floats:
    """Factors and bias of every row, given those of the columns: their last entry is a bias, taken off first."""
    features = np.column_stack([others[:, :-1], np.ones(len(others))])
    target = np.where(known, centred - others[:, -1], 0.0) @ features
    gram = (known.astype(float) @ (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)).reshape(
        len(centred), features.shape[1], features.shape[1]
    )
    return np.asarray(np.linalg.solve(gram + penalty * np.eye(features.shape[1]), target[:, :, None])[:, :, 0])
