"""Graphs on either side of the detection threshold."""

from __future__ import annotations

import numpy as np

from latentfit.simulate import block_graph


def hopeless(seed):
    """K blocks at most 0.6 of the way to the threshold, and the K that is asked for."""
    rng = np.random.default_rng([seed, 7])
    K, n = int(rng.integers(2, 6)), int(rng.choice([300, 1000, 3000]))
    degree, power = float(rng.uniform(2, 15)), None if rng.random() < 0.5 else 2.5
    return block_graph(n, K, degree, strength=float(rng.uniform(0, 0.6)), power=power, random_state=seed), K


def sound(seed):
    """K blocks 2.5 to 4 times above the threshold."""
    rng = np.random.default_rng([seed, 7])
    K, n = int(rng.integers(2, 6)), int(rng.choice([1000, 3000]))
    degree, power = float(rng.uniform(5, 20)), None if rng.random() < 0.5 else 2.5
    return block_graph(n, K, degree, strength=float(rng.uniform(2.5, 4)), power=power, random_state=seed), K
