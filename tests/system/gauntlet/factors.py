"""Rows of numbers as users bring them to a model of on/off switches, with the verdict that an expert would give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit import BinaryFactors
from tests.system.gauntlet.scenario import Scenario

WARNED = ("caution", "not identifiable")
Rows = NDArray[np.float64]


class Source:
    """Switches with weights of their own, added up; noise on top."""

    def __init__(self, seed: int, d: int = 3, m: int = 15, size: float = 1.5) -> None:
        self.rng = np.random.default_rng(seed)
        self.d, self.m = d, m
        self.weights = size * self.rng.standard_normal((d, m))

    def independent(self, n: int, low: float = 0.15, high: float = 0.4) -> Rows:
        return (self.rng.random((n, self.d)) < self.rng.uniform(low, high, self.d)).astype(float)

    def rows(self, h: Rows, noise: float | Rows = 0.4) -> Rows:
        return h @ self.weights + noise * self.rng.standard_normal((len(h), self.m))


def fitted(rows: Rows, d: int | None = None, **options: object) -> BinaryFactors:
    return BinaryFactors(d, **options).fit(rows)  # type: ignore[arg-type]


# ------------------------------------------------------------------- sound


def independent_switches(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(source.rows(source.independent(2_000)))


def dependent_switches(seed: int) -> BinaryFactors:
    """One switch makes the others likelier; all combinations occur."""
    source = Source(seed)
    first = source.rng.random(3_000) < 0.35
    h = np.column_stack([first, *(source.rng.random(3_000) < np.where(first, 0.5, 0.2) for _ in range(2))])
    return fitted(source.rows(h.astype(float)))


def number_given(seed: int) -> BinaryFactors:
    source = Source(seed, d=4, m=20)
    return fitted(source.rows(source.independent(3_000)), 4)


def one_switch(seed: int) -> BinaryFactors:
    source = Source(seed, d=1, m=8)
    return fitted(source.rows(source.independent(1_000)))


def overlapping_clusters_of_genes(seed: int) -> BinaryFactors:
    """Sparse weights: a process moves a third of the features."""
    source = Source(seed, d=4, m=40, size=2.0)
    source.weights *= source.rng.random(source.weights.shape) < 0.35
    return fitted(source.rows(source.independent(1_500), 0.6))


def without_noise(seed: int) -> BinaryFactors:
    source = Source(seed, d=4, m=10)
    return fitted(source.rows(source.independent(800, 0.2, 0.4), 0.0))


def more_features_than_rows(seed: int) -> BinaryFactors:
    source = Source(seed, d=2, m=600)
    return fitted(source.rows(source.independent(300, 0.25, 0.4), 1.0))


def a_tenth_of_the_cells_missing(seed: int) -> BinaryFactors:
    source = Source(seed, d=2, m=10)
    rows = source.rows(source.independent(800))
    rows[source.rng.random(rows.shape) < 0.1] = np.nan
    return fitted(rows)


def unequal_noise_declared(seed: int) -> BinaryFactors:
    source = Source(seed, d=2, m=15)
    noise = np.where(np.arange(15) < 3, 2.0, 0.4)
    return fitted(source.rows(source.independent(2_000), noise), feature_noise="unequal")


def noise_known(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(source.rows(source.independent(2_000), 0.5), noise=0.5)


def measured_to_one_decimal(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(np.round(source.rows(source.independent(2_000), 0.5), 1))


def two_constant_features(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(np.column_stack([source.rows(source.independent(2_000)), np.ones(2_000), np.zeros(2_000)]))


# ----------------------------------------------------------------- unsound


def noise_alone(seed: int) -> BinaryFactors:
    return fitted(np.random.default_rng(seed).standard_normal((1_000, 12)))


def noise_around_a_mean(seed: int) -> BinaryFactors:
    """Nothing varies but noise; the features have means of their own."""
    rng = np.random.default_rng(seed)
    return fitted(3 * rng.standard_normal(12) + rng.standard_normal((1_000, 12)))


def three_switches_asked_of_noise(seed: int) -> BinaryFactors:
    return fitted(np.random.default_rng(seed).standard_normal((1_000, 12)), 3)


def normal_factors(seed: int) -> BinaryFactors:
    """Factor analysis: patterns come in amounts."""
    source = Source(seed)
    return fitted(source.rows(source.rng.standard_normal((2_000, 3))), 3)


def gamma_factors(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(source.rows(source.rng.gamma(1.0, size=(2_000, 3))), 3)


def low_middle_high(seed: int) -> BinaryFactors:
    """A factor of three levels beside two switches."""
    source = Source(seed)
    h = source.independent(2_000)
    h[:, 0] = source.rng.choice([0.0, 0.5, 1.0], 2_000)
    return fitted(source.rows(h), 3)


def one_too_many(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(source.rows(source.independent(2_000)), 4)


def one_too_few(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(source.rows(source.independent(2_000)), 2)


def always_on(seed: int) -> BinaryFactors:
    """One pattern is in every row."""
    source = Source(seed)
    h = source.independent(2_000)
    h[:, 0] = 1
    return fitted(source.rows(h), 3)


def clusters(seed: int) -> BinaryFactors:
    """Every row has exactly one of the patterns."""
    source = Source(seed)
    return fitted(source.rows(np.eye(3)[source.rng.integers(0, 3, 2_000)]), 3)


def one_implies_another(seed: int) -> BinaryFactors:
    source = Source(seed)
    h = source.independent(2_000, 0.4, 0.6)
    h[:, 0] *= h[:, 1]
    return fitted(source.rows(h), 3)


def three_noisy_features(seed: int) -> BinaryFactors:
    source = Source(seed, d=3, m=18)
    return fitted(source.rows(source.independent(2_000), np.where(np.arange(18) < 3, 2.5, 0.4)))


def columns_on_different_scales(seed: int) -> BinaryFactors:
    """Millimetres beside kilometres: nobody standardised."""
    source = Source(seed)
    rows = source.rows(source.independent(2_000))
    return fitted(rows * np.where(np.arange(15) % 2, 1.0, 30.0), 3)


def an_id_column(seed: int) -> BinaryFactors:
    source = Source(seed)
    rows = source.rows(source.independent(1_000))
    return fitted(np.column_stack([source.rng.permutation(1_000) + 1.0, rows]))


def a_feature_measured_twice(seed: int) -> BinaryFactors:
    """The second measurement repeats the first, its noise included."""
    source = Source(seed)
    rows = source.rows(source.independent(2_000))
    return fitted(np.column_stack([rows, rows[:, 0] + 0.1 * source.rng.standard_normal(2_000)]), 3)


def every_row_four_times(seed: int) -> BinaryFactors:
    source = Source(seed)
    return fitted(np.repeat(source.rows(source.independent(500)), 4, axis=0), 3)


def heavy_tails(seed: int) -> BinaryFactors:
    source = Source(seed)
    h = source.independent(2_000)
    return fitted(h @ source.weights + 0.4 * source.rng.standard_t(2.5, (2_000, 15)), 3)


def three_rows_in_a_hundred_spoilt(seed: int) -> BinaryFactors:
    source = Source(seed)
    rows = source.rows(source.independent(2_000))
    spoilt = source.rng.random(2_000) < 0.03
    rows[spoilt] += 4 * source.rng.standard_normal((int(spoilt.sum()), 15))
    return fitted(rows, 3)


def a_switch_of_eight_rows(seed: int) -> BinaryFactors:
    source = Source(seed, size=2.0)
    h = source.independent(1_500)
    h[:, 0] = 0
    h[source.rng.choice(1_500, 8, replace=False), 0] = 1
    return fitted(source.rows(h), 3)


def thirty_rows(seed: int) -> BinaryFactors:
    source = Source(seed, d=4, m=20)
    return fitted(source.rows(source.independent(30), 1.0), 4)


def drowned_in_noise(seed: int) -> BinaryFactors:
    source = Source(seed, d=4, m=15)
    return fitted(source.rows(source.independent(300), 8.0), 4)


def half_of_the_cells_missing(seed: int) -> BinaryFactors:
    source = Source(seed, d=2, m=8)
    rows = source.rows(source.independent(500))
    rows[source.rng.random(rows.shape) < 0.5] = np.nan
    return fitted(rows, 2)


SOUND = [
    independent_switches, dependent_switches, number_given, one_switch, overlapping_clusters_of_genes, without_noise,
    more_features_than_rows, a_tenth_of_the_cells_missing, unequal_noise_declared, noise_known,
    measured_to_one_decimal, two_constant_features,
]  # fmt: skip
UNSOUND: list[tuple[Callable[[int], BinaryFactors], str]] = [
    (noise_alone, "no structure found"),
    (noise_around_a_mean, "no structure found"),
    (three_switches_asked_of_noise, "no structure found|does not rise"),
    (normal_factors, "not two bumps"),
    (gamma_factors, "not two bumps"),
    (low_middle_high, "not two bumps"),
    (one_too_many, "fewer switches"),
    (one_too_few, "more switches"),
    (always_on, "always on"),
    (clusters, "exclude one another"),
    (one_implies_another, "is a switch too|exclude"),
    (three_noisy_features, "noise differs"),
    (columns_on_different_scales, "noise differs"),
    (an_id_column, "numbers the rows"),
    (a_feature_measured_twice, "correlated|further eigenvalue"),
    (every_row_four_times, "equal another one"),
    (heavy_tails, "heavy tails"),
    (three_rows_in_a_hundred_spoilt, "outlying_rows"),
    (a_switch_of_eight_rows, "fewer than 20|is a switch too"),
    (thirty_rows, "few|fewer switches"),
    (drowned_in_noise, "does not rise above|no structure"),
    (half_of_the_cells_missing, "cells are missing"),
]


def scenario(make: Callable[[int], BinaryFactors], place: int, **expected: object) -> Scenario:
    """Draws of their own: scenarios must not share weights, or one unlucky draw would count several times."""
    return Scenario(make.__name__.replace("_", " "), lambda seed: make(1_000 * place + seed), **expected)  # type: ignore[arg-type]


SCENARIOS = [scenario(make, place) for place, make in enumerate(SOUND)]
SCENARIOS += [
    scenario(make, len(SOUND) + place, expected=WARNED, reason=reason) for place, (make, reason) in enumerate(UNSOUND)
]
