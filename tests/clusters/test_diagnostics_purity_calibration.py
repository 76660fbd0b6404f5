"""The certificate on simulated mixtures: pure clusters pass, merged ones are caught and named, stated limits hold.

Small versions of what `measure_purity.py` runs over the whole grid (numbers in docs/guide/clusters/purity.md). EM
starts from the truth, so that what is measured is the certificate and not the initialisations.
"""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.clusters.diagnostics.intervals import frequency_intervals
from latentfit.clusters.diagnostics.purity import purity_certificates
from latentfit.core.em import em
from latentfit.core.mixture.em import SMOOTHING, table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import MemoryEngine, posterior_of
from tests.clusters.simulated_mixtures import bernoulli_world, true_impurity


def run_em(world, init):
    steps = table_steps(world.table, init.n_classes, SMOOTHING, 1)
    return em(steps, init, max_iter=300, tol=1e-7, accelerate=True).params


def merged(mixture):
    """The truth with its last two classes made one."""
    weights = np.append(mixture.weights[:-2], mixture.weights[-2:].sum())
    last = mixture.table[:, -2:] @ (mixture.weights[-2:] / weights[-1])
    return Mixture(weights, np.column_stack([mixture.table[:, :-2], last]), mixture.column_offsets)


def certified(world, fitted, seed):
    found = purity_certificates(world.table, fitted, smoothing=SMOOTHING, seed=seed)
    label = world.table.expand(posterior_of(MemoryEngine(world.table, 1), fitted)[0]).argmax(axis=1)
    return found, true_impurity(world.label, label, fitted.n_classes, world.n_classes)[0]


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_pure_clusters_pass_and_their_limits_hold(missing):
    flagged, kept, p_values = [], [], []
    for seed in range(25):
        world = bernoulli_world(seed, 4, 30, 500, separation=16, missing=missing)
        found, impurity = certified(world, run_em(world, world.mixture), seed)
        flagged += found.flagged.tolist()
        p_values += found.p_value.tolist()
        kept += (impurity <= found.certified)[~np.isnan(found.certified)].tolist()
    assert np.mean(flagged) <= 0.08  # 100 clusters: a rate of .03 gives 9 or more once in 1 000 times
    assert np.mean(np.array(p_values) < 0.05) <= 0.13
    assert np.mean(kept) >= 0.85


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_merged_clusters_are_caught_and_named(missing):
    caught, pairs, columns, others = [], [], [], []
    for seed in range(20):
        world = bernoulli_world(100 + seed, 3, 30, 600, separation=20, missing=missing)
        found, impurity = certified(world, run_em(world, merged(world.mixture)), seed)
        impure = impurity > 0.2
        caught += found.flagged[impure].tolist()
        others += found.flagged[~impure].tolist()
        at = {column.name: n for n, column in enumerate(world.table.columns)}
        for k in np.flatnonzero(impure & found.flagged):
            pairs.append(all(world.informative[at[name]] for name in found.suspect_pair[k]))
            columns += [world.informative[at[name]] for name in found.suspect_columns[k]]
            assert np.isnan(found.certified[k])
    assert len(caught) >= 15
    assert np.mean(caught) >= 0.8
    assert np.mean(pairs) >= 0.85
    assert np.mean(columns) >= 0.8


def test_likeliest_clusters_would_mislead():
    """Why labels are drawn: inside likeliest-class clusters of a true model the columns are dependent by selection."""
    from latentfit.clusters.diagnostics import independence, purity

    hard, drawn = [], []
    for seed in range(8):
        world = bernoulli_world(200 + seed, 3, 20, 3000, separation=8)
        posterior = posterior_of(MemoryEngine(world.table, 1), world.mixture)[0]
        unique_rows = world.table.unique_index
        rng = np.random.default_rng(seed)
        posterior = posterior[unique_rows]
        by_draw = purity.drawn_labels(posterior, rng.random(len(posterior)), np.arange(3))
        order = purity.name_order(world.table)
        for k in range(3):
            for labels, out in ((posterior.argmax(axis=1), hard), (by_draw, drawn)):
                rows = purity.cells_of(world.table, unique_rows[labels == k], order)
                tests = independence.compare_with_permutations(rows, rng, n_permutations=19)
                out.append(max(test.z for test in tests) >= 3)
    assert np.mean(drawn) <= 0.13
    assert np.mean(hard) >= 0.3


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_intervals_cover(missing):
    inside, weights = [], []
    for seed in range(60):
        world = bernoulli_world(300 + seed, 3, 25, 600, separation=25, missing=missing, even=seed % 2 == 0)
        fitted = run_em(world, world.mixture)
        found = frequency_intervals(world.table, fitted, smoothing=SMOOTHING)
        truth, w = world.mixture.table[1::2].T, world.mixture.weights
        inside.append(((found.low <= truth) & (truth <= found.high)).mean())
        weights.append(((found.weights_low <= w) & (w <= found.weights_high)).mean())
    assert 0.93 <= np.mean(inside) <= 0.97  # 4 500 frequencies
    assert 0.88 <= np.mean(weights) <= 0.99  # 180 weights: ± .05
