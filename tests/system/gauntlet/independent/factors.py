"""Sums of switches as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from latentfit import BinaryFactors
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator
Drawn = tuple[np.ndarray | pd.DataFrame, np.ndarray | None]
"""The table, and the true weights (switch, feature) where there are such."""


def fit(draw: Callable[[Generator], Drawn], n_components: int | None, seed: int) -> BinaryFactors:
    """Draw a table and fit it with default settings."""
    rng = np.random.default_rng([seed, *draw.__name__.encode()])
    return BinaryFactors(n_components).fit(draw(rng)[0])


def switches(rng: Generator, n: int, probabilities: list[float]) -> np.ndarray:
    """Independent switches, shape (n, switch)."""
    return (rng.random((n, len(probabilities))) < probabilities).astype(float)


def noisy(rng: Generator, h: np.ndarray, weights: np.ndarray, noise: float) -> np.ndarray:
    """The features of these switches."""
    return h @ weights + noise * rng.normal(size=(len(h), weights.shape[1]))


# ---------------------------------------------------------------- sound


def sources(rng: Generator) -> Drawn:
    """Three binary sources in twelve channels."""
    weights = rng.normal(size=(3, 12))
    return noisy(rng, switches(rng, 2000, [0.5, 0.4, 0.25]), weights, 0.3), weights


def assemblies(rng: Generator) -> Drawn:
    """Four assemblies of neurons, 24 cells: each drives nine of them; common excitability makes them dependent."""
    weights = np.zeros((4, 24))
    for k in range(4):
        weights[k, rng.permutation(24)[:9]] = rng.uniform(0.8, 2.0, 9)
    excited = rng.random((2500, 1)) < 0.5
    h = (rng.random((2500, 4)) < np.where(excited, 0.45, 0.2)).astype(float)
    return noisy(rng, h, weights, 0.4), weights


def appliances(rng: Generator) -> Drawn:
    """Power of a house on three phases, active and reactive: three appliances in kW, uneven use."""
    weights = np.array([
        [2.0, 0.0, 0.0, 0.1, 0.0, 0.0],
        [0.0, 1.2, 1.2, 0.0, 0.5, 0.5],
        [0.1, 0.0, 0.9, 0.0, 0.2, 0.6],
    ])  # fmt: skip
    return noisy(rng, switches(rng, 5000, [0.15, 0.35, 0.6]), weights, 0.08), weights


def gaps(rng: Generator) -> Drawn:
    """Ten features with names, a tenth of the cells missing at random."""
    weights = rng.normal(size=(3, 10)) * 1.3
    table = noisy(rng, switches(rng, 1000, [0.5, 0.35, 0.3]), weights, 0.3)
    table[rng.random(table.shape) < 0.1] = np.nan
    return pd.DataFrame(table, columns=[f"gene_{j}" for j in range(10)]), weights


def two_faults(rng: Generator) -> Drawn:
    """Two faults of a machine, eight sensors, 500 records."""
    weights = rng.normal(size=(2, 8)) * 1.5
    return noisy(rng, switches(rng, 500, [0.3, 0.2]), weights, 0.4), weights


def dependent(rng: Generator) -> Drawn:
    """Symptoms that favour one another, all eight combinations seen, five to thirty-five per cent."""
    weights = rng.normal(size=(3, 15))
    proportions = np.array([0.35, 0.1, 0.1, 0.1, 0.08, 0.05, 0.07, 0.15])
    state = rng.choice(8, size=3000, p=proportions)
    return noisy(rng, (state[:, None] >> np.arange(3) & 1).astype(float), weights, 0.3), weights


def constant_column(rng: Generator) -> Drawn:
    """Three sources in twelve channels, the last of which is dead."""
    weights = rng.normal(size=(3, 12))
    weights[:, -1] = 0
    table = noisy(rng, switches(rng, 2000, [0.5, 0.4, 0.3]), weights, 0.3)
    table[:, -1] = 0.0
    return table, weights


def round_number(rng: Generator) -> Drawn:
    """Two switches in six features, 100,000 rows."""
    weights = rng.normal(size=(2, 6)) * 1.2
    return noisy(rng, switches(rng, 100_000, [0.5, 0.3]), weights, 0.3), weights


# ---------------------------------------------------------------- unsound


def normal_factors(rng: Generator) -> Drawn:
    """Factor analysis: three normal factors in twelve features."""
    return noisy(rng, rng.normal(size=(2000, 3)), rng.normal(size=(3, 12)), 0.3), None


def uniform_doses(rng: Generator) -> Drawn:
    """Factors that are doses between none and full."""
    return noisy(rng, rng.random((2000, 3)), 2.5 * rng.normal(size=(3, 12)), 0.2), None


def noise_alone(rng: Generator) -> Drawn:
    """Ten independent normal columns."""
    return rng.normal(size=(1500, 10)), None


def twenty_rows(rng: Generator) -> Drawn:
    """Three switches, twelve features, twenty rows."""
    weights = rng.normal(size=(3, 12))
    return noisy(rng, switches(rng, 20, [0.5, 0.4, 0.3]), weights, 0.8), weights


def nested(rng: Generator) -> Drawn:
    """The second fault occurs only after the first."""
    first = rng.random(2000) < 0.6
    h = np.column_stack([first, first & (rng.random(2000) < 0.5)]).astype(float)
    weights = rng.normal(size=(2, 10))
    return noisy(rng, h, weights, 0.3), weights


def always_together(rng: Generator) -> Drawn:
    """Three switches are planted, and two of them are always on together."""
    h = switches(rng, 2000, [0.5, 0.35, 0.35])
    h[:, 2] = h[:, 1]
    weights = rng.normal(size=(3, 12))
    return noisy(rng, h, weights, 0.3), weights


def three_levels(rng: Generator) -> Drawn:
    """Copy numbers 0, 1, 2 of two regions, whose effect does not double."""
    first, second = rng.choice(3, size=(2, 2000), p=[0.4, 0.3, 0.3])
    levels = rng.normal(size=(2, 3, 10)) * 1.2
    return levels[0][first] + levels[1][second] + 0.3 * rng.normal(size=(2000, 10)), None


def saturation(rng: Generator) -> Drawn:
    """A feature responds to the strongest cause that is on, not to the sum."""
    h, weights = switches(rng, 2000, [0.5, 0.5, 0.5]), rng.uniform(0.3, 3.0, (3, 12))
    return (h[:, :, None] * weights).max(axis=1) + 0.2 * rng.normal(size=(2000, 12)), weights


def copied_rows(rng: Generator) -> Drawn:
    """Forty rows, each written fifty times."""
    weights = rng.normal(size=(3, 10))
    return np.repeat(noisy(rng, switches(rng, 40, [0.5, 0.4, 0.3]), weights, 0.5), 50, axis=0), weights


def recalibrated(rng: Generator) -> Drawn:
    """All weights change in the middle of the file."""
    before, after = rng.normal(size=(2, 2, 10))
    h = switches(rng, 2000, [0.5, 0.4])
    table = np.where(np.arange(2000)[:, None] < 1000, h @ before, h @ after)
    return table + 0.3 * rng.normal(size=table.shape), before


def row_number(rng: Generator) -> Drawn:
    """The number of the row was left among ten features."""
    weights = rng.normal(size=(3, 10))
    table = noisy(rng, switches(rng, 1500, [0.5, 0.4, 0.3]), weights, 0.3)
    return np.column_stack([np.arange(1, 1501), table]), weights


def spikes(rng: Generator) -> Drawn:
    """Three switches, and one cell in a hundred is a spike of fifty times the noise."""
    weights = rng.normal(size=(3, 12))
    table = noisy(rng, switches(rng, 2000, [0.5, 0.4, 0.3]), weights, 0.3)
    return table + (rng.random(table.shape) < 0.01) * 15 * rng.normal(size=table.shape), weights


FIT = "fit|residual|normal|gauss|binary|continuous|two values|on.off|additiv|density|misspecif|model"
NONE = "no structure|nothing|no switch|structure|noise|independent|weak|not support|chance|found"

SCENARIOS: list[Scenario] = [
    # Clear sources, far more rows than parameters.
    Scenario("three sources in twelve channels", partial(fit, sources, None)),
    # Switches may depend on one another as long as the combinations occur.
    Scenario("four assemblies of neurons", partial(fit, assemblies, 4)),
    # The states of the appliances are many noise widths apart.
    Scenario("appliances of a house", partial(fit, appliances, 3)),
    # Missing at random; every row keeps enough features.
    Scenario("a tenth of the cells missing", partial(fit, gaps, 3)),
    # A hundred rows or more per switch.
    Scenario("two faults, 500 records", partial(fit, two_faults, 2)),
    # Dependent, but every combination is seen.
    Scenario("dependent symptoms", partial(fit, dependent, 3)),
    # A dead channel says nothing and does no harm.
    Scenario("a dead channel", partial(fit, constant_column, 3)),
    # Only more rows.
    Scenario("100,000 rows", partial(fit, round_number, 2)),
    # Normal factors can be rotated; no on and off in them.
    Scenario("normal factors", partial(fit, normal_factors, 3), WARNED, FIT + "|identif|rotat"),
    # The factors take all values between the two.
    Scenario("doses instead of switches", partial(fit, uniform_doses, 3), WARNED, FIT),
    # Nothing is switched.
    Scenario("noise alone", partial(fit, noise_alone, None), WARNED, NONE),
    # Thirty-six weights from twenty noisy rows.
    Scenario("twenty rows", partial(fit, twenty_rows, 3), WARNED, "few|small|rows|sample"),
    # {0, a, a + b} are as well two switches that exclude one another.
    Scenario(
        "a fault that follows another",
        partial(fit, nested, 2),
        WARNED,
        "identif|unique|exclu|never|combination|together|state|pattern",
    ),
    # One switch with the sum of both weights explains the table as well.
    Scenario(
        "two switches always together",
        partial(fit, always_together, 3),
        WARNED,
        "identif|unique|together|fewer|number of|eigenvalue|weak|rank|support|combination|never",
    ),
    # A region has three states, not two, and they do not add up.
    Scenario("three levels instead of two", partial(fit, three_levels, 2), WARNED, FIT + "|more switches|number of"),
    # Effects do not add.
    Scenario("the strongest cause wins", partial(fit, saturation, 3), WARNED, FIT),
    # Two thousand rows are forty.
    Scenario("forty rows copied fifty times", partial(fit, copied_rows, 3), WARNED, "duplic|identical|repeat|copies"),
    # One set of weights describes neither half.
    Scenario("recalibrated in the middle", partial(fit, recalibrated, 2), WARNED, FIT + "|half|halves|drift|differ"),
    # The largest variance is that of the row number.
    Scenario(
        "the row number as a feature",
        partial(fit, row_number, 3),
        WARNED,
        FIT + "|identifier|id column|row number|increas|distinct|scale|noise",
    ),
    # Moments and a normal likelihood follow the spikes.
    Scenario("spikes", partial(fit, spikes, 3), WARNED, FIT + "|outl|extreme|tail|spike|noise"),
]
