"""Verdicts on pair counts, the level and power of the test for structure, the number of components.

A few inputs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from latentfit import PairMatrix
from latentfit.core.counts import read_counts
from latentfit.pairs.diagnostics.rank_test import structure_test
from latentfit.simulate import draw_pairs, pairs
from tests.pairs.simulated_counts import HOPELESS, SOUND, hopeless, sound
from tests.system.verdict_counts import assert_doubted, assert_ok


def report(world):
    counts, number = world
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PairMatrix(number).fit(counts).report_


@pytest.mark.slow
def test_counts_without_an_answer_are_not_trusted():
    assert_doubted(hopeless, report, 2 * len(HOPELESS))


@pytest.mark.slow
def test_sound_counts_are_trusted():
    assert_ok(sound, report, 2 * len(SOUND))


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, "No structure found"),
        (1, "No structure found"),
        (3, "and 4 were fitted|and 5 were fitted|and 6 were fitted|and 3 were fitted|and 7 were fitted"),
        (4, "pairs per item, fewer than 2"),
    ],
)
def test_the_case_is_named(seed, words):
    import re

    assert any(re.search(words, reason) for reason in report(hopeless(seed)).reasons)


def test_the_report_holds_the_papers_quantities():
    found = report((pairs(300, 6000, "zipf", random_state=0).counts, 2))
    q = found.quantities
    assert q["pairs_per_item"] == pytest.approx(20, rel=0.1)
    assert 0.3 < q["separation_l1"] < 1
    assert q["anchor_condition"] < 5
    assert sum(row["mass"] for row in q["bins"]) == pytest.approx(1)
    assert sum(row["items"] for row in q["bins"]) == 300
    assert all(row["spillover_bound"] is None or row["spillover_bound"] >= 0 for row in q["bins"])
    assert any(row["good"] for row in q["bins"])
    assert q["structure_p_value"] < 1e-6
    assert q["power"] > 0.99


def test_independent_pairs_and_a_chosen_rank_are_not_trusted():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(200))[:, None]
    counts = draw_pairs(law, law, np.ones((1, 1)), 4000, rng)
    found = PairMatrix(None).fit(counts)
    assert found.n_components_ == 1
    assert found.report_.verdict == "caution"
    assert found.report_.reasons[0].startswith("No structure found")
    assert PairMatrix(1).fit(counts).report_.verdict == "ok"  # independence was asked for, and is there


def test_a_fit_that_misses_the_structure_is_not_trusted():
    world = pairs(300, 6000, "zipf", random_state=0)
    counts = read_counts(world.counts)
    test = structure_test(counts, symmetric=True, most=3)
    good = PairMatrix(2).fit(world.counts)
    assert 0.8 < test.explained(good._factored, symmetric=True) < 1.2
    small = replace(good._factored, separation=good.separation_[:, None] / 5)
    small = replace(small, column_separation=small.separation)
    assert 0 <= test.explained(small, symmetric=True) < 0.1
    good._factored = small
    assert any("The fit explains" in reason for reason in good.report_.reasons)


def test_the_level_of_the_structure_test():
    statistics = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        law = rng.dirichlet(np.full(150, 0.5))[:, None]
        counts = draw_pairs(law, law, np.ones((1, 1)), 1500, rng)
        statistics.append(structure_test(read_counts(counts), symmetric=seed % 2 == 0, most=2, seed=seed).statistics[0])
    assert abs(np.mean(statistics)) < 0.6
    assert 0.6 < np.std(statistics) < 1.4
    assert np.mean(np.array(statistics) > 1.645) <= 0.15


def test_the_number_of_components_is_found():
    right = 0
    for number in range(1, 11):
        world = pairs(400, 8000, "topics", n_components=number, random_state=number)
        right += structure_test(read_counts(world.counts), symmetric=True).chosen == number
    assert right >= 9


def test_the_error_falls_like_the_root_of_the_counts_and_does_not_grow_with_items():
    errors = {}
    for size, ratio in ((200, 20), (800, 20), (200, 320)):
        world = pairs(size, ratio * size, "zipf", random_state=1)
        truth = world.rows(np.arange(size))
        for method in ("auto", "scaled-svd"):
            found = PairMatrix(method=method).fit(world.counts).reconstruct().toarray()
            errors[size, ratio, method] = np.abs(found - truth).sum()
    for method in ("auto", "scaled-svd"):
        assert errors[800, 20, method] < 1.1 * errors[200, 20, method]
        assert errors[200, 320, method] < 0.4 * errors[200, 20, method]
    assert errors[800, 20, "auto"] < errors[800, 20, "scaled-svd"]


def test_empirical_bayes_is_never_worse_than_the_scaled_svd():
    for model in ("example1", "example2", "zipf", "graded"):
        world = pairs(600, 6000, model, separation=1.0 if model == "graded" else 0.8, random_state=2)
        truth = world.rows(np.arange(600))
        errors = [
            np.abs(PairMatrix(method=method).fit(world.counts).reconstruct().toarray() - truth).sum()
            for method in ("auto", "svd", "scaled-svd", "paper")
        ]
        assert errors[0] == min(errors), (model, errors)
