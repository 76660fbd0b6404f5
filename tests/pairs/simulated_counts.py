"""Pair counts without an answer, and sound ones: 200 of each calibrate the verdict."""

from __future__ import annotations

import numpy as np

from latentfit.simulate import draw_pairs, pairs

HOPELESS = ("independent", "independent, Zipf", "below the threshold", "too many components", "a pair per two items")
SOUND = ("example1", "example2", "zipf", "graded", "topics")
PAIRS_PER_ITEM = {"example1": 12, "example2": 16, "zipf": 8, "graded": 40, "topics": 12}


def hopeless(seed):
    """Counts, and the number of components asked of them."""
    rng = np.random.default_rng([seed, 2])
    kind, size = HOPELESS[seed % len(HOPELESS)], int(rng.integers(200, 1500))
    many = int(size * rng.uniform(2, 50))
    if kind.startswith("independent"):
        law = 1 / np.arange(1, size + 1) if kind.endswith("Zipf") else rng.dirichlet(np.ones(size))
        law = (law / law.sum())[:, None]
        return draw_pairs(law, law, np.ones((1, 1)), many, rng), 2
    if kind == "below the threshold":  # gain 2 d C⁴ of .05 to .4, where one is the least that shows
        ratio = rng.uniform(2, 30)
        separation = (rng.uniform(0.05, 0.4) / (2 * ratio)) ** 0.25
        return pairs(size, int(ratio * size), separation=min(separation, 1.0), random_state=seed).counts, 2
    if kind == "too many components":
        number = int(rng.integers(2, 6))
        world = pairs(size, 20 * size, "topics", n_components=number, random_state=seed)
        return world.counts, number + int(rng.integers(1, 3))
    few = int(rng.uniform(0.2, 0.8) * size)
    return pairs(size, few, separation=rng.uniform(0.1, 0.9), random_state=seed).counts, 2


def sound(seed):
    rng = np.random.default_rng([seed, 1])
    kind, size = SOUND[seed % len(SOUND)], int(rng.integers(200, 1500))
    ratio = PAIRS_PER_ITEM[kind] * np.exp(rng.uniform(0, 1.5))
    number = int(rng.integers(2, 7)) if kind == "topics" else 2
    separation = 1.0 if kind == "graded" else 0.8
    lopsided = kind in ("example1", "zipf") and seed % 2 == 0  # w_L ≠ w_R has a third of the signal
    world = pairs(
        size,
        int((4 if lopsided else 1) * ratio * size),
        kind,
        separation=separation,
        n_components=number,
        asymmetric=lopsided,
        random_state=seed,
    )
    return world.counts, number
