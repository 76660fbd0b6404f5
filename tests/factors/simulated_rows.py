"""Constructed inputs for verdicts on hidden switches: sound ones, and ones that no method can get right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.factors.simulate import draw_switches, draw_weights
from latentfit.simulate import binary_factors


@dataclass(frozen=True)
class World:
    kind: str
    X: np.ndarray
    W: np.ndarray
    d: int


def noisy(h, W, sigma, rng):
    return h @ W + sigma * rng.standard_normal((len(h), W.shape[1]))


def sound(seed):
    """Dependent switches of the paper's kind, or independent ones away from one half; enough rows."""
    rng = np.random.default_rng([1, seed])
    d = int(rng.integers(3, 7))
    m, n = int(rng.integers(20, 41)), int(rng.integers(8_000, 15_001))
    sigma = float(rng.choice([0.1, 0.2, 0.3, 0.4]))
    if seed % 4 == 3:
        p = rng.uniform(0.15, 0.35, d)
        h = (rng.random((n, d)) < p).astype(float)
        W = draw_weights(d, m, rng)
        return World("independent, off more often than on", noisy(h, W, sigma, rng), W, d)
    data = binary_factors(n, m, d, sigma, rng)
    return World("dependent", data.X, data.W, d)


def always_on(rng):
    n, d, m = 10_000, int(rng.integers(3, 6)), 25
    h = draw_switches(n, d, rng).astype(float)
    h[:, 0] = 1
    return h, draw_weights(d, m, rng), float(rng.choice([0.1, 0.2, 0.4]))


def exclusive(rng):
    n, d, m = 10_000, int(rng.integers(3, 7)), 25
    kind = rng.integers(0, d, n)
    return np.eye(d)[kind], draw_weights(d, m, rng), float(rng.choice([0.1, 0.2, 0.4]))


def pair_excludes(rng):
    """Two switches are never on together."""
    n, d, m = 10_000, int(rng.integers(3, 6)), 25
    h = draw_switches(n, d, rng).astype(float)
    both = (h[:, 0] > 0) & (h[:, 1] > 0)
    h[both, rng.integers(0, 2, both.sum())] = 0
    return h, draw_weights(d, m, rng), float(rng.choice([0.1, 0.2, 0.4]))


def implied(rng):
    """One switch is on only when another is."""
    n, d, m = 10_000, int(rng.integers(3, 6)), 25
    h = draw_switches(n, d, rng).astype(float)
    h[:, 0] *= h[:, 1]
    return h, draw_weights(d, m, rng), float(rng.choice([0.1, 0.2, 0.4]))


def halves(rng):
    """Independent switches, each on in half of the rows."""
    n, d, m = 10_000, int(rng.integers(3, 6)), 25
    return (rng.random((n, d)) < 0.5).astype(float), draw_weights(d, m, rng), float(rng.choice([0.1, 0.2, 0.4]))


def few_rows(rng):
    d = int(rng.integers(4, 7))
    h = draw_switches(int(rng.integers(25, 70)), d, rng).astype(float)
    return h, draw_weights(d, 20, rng), float(rng.uniform(0.4, 1.0))


def drowned(rng):
    """So much noise that some of the switches cannot be seen."""
    d = 6
    h = draw_switches(int(rng.integers(300, 800)), d, rng).astype(float)
    return h, draw_weights(d, 20, rng), float(rng.uniform(2.0, 4.0))


def too_many(rng):
    """More switches asked for than there are."""
    h = draw_switches(5_000, 3, rng).astype(float)
    return h, draw_weights(3, 20, rng), float(rng.uniform(0.2, 0.5))


HOPELESS = [always_on, exclusive, pair_excludes, implied, few_rows, drowned, too_many]


def hopeless(seed):
    """One of the cases above."""
    rng = np.random.default_rng([2, seed])
    make = HOPELESS[seed % len(HOPELESS)]
    h, W, sigma = make(rng)
    d = len(W) + 2 if make is too_many else len(W)
    return World(make.__name__, noisy(h, W, sigma, rng), W, d)
