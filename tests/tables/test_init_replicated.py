"""Every seed finds the same maximum of the likelihood, says how often it was found, and stops only where it is."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import LatentClass
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.em import quasi_newton, table_steps
from latentfit.core.mixture.init import random_init
from latentfit.core.multistart import Candidate, multistart
from latentfit.core.table.input import read_table
from latentfit.tables.init import MIN_INIT, SEARCH, n_init_for


def interviews(draw: int) -> np.ndarray:
    """1,200 rows of four short columns, like the survey on surveys that poLCA ships: three classes hard to tell."""
    rng = np.random.default_rng(draw)
    kind = rng.choice(3, size=1200, p=[0.62, 0.21, 0.17])
    profiles = [
        [[0.89, 0.05, 0.06], [0.91, 0.07, 0.02], [0.16, 0.22, 0.62]],
        [[0.61, 0.39], [0.65, 0.35], [0.03, 0.97]],
        [[1.0, 0.0], [0.32, 0.68], [0.75, 0.25]],
        [[0.94, 0.06, 0.0], [0.69, 0.26, 0.05], [0.64, 0.26, 0.10]],
    ]
    edges = [np.array(profile).cumsum(axis=1)[:, :-1] for profile in profiles]
    return np.stack([(e[kind] < rng.random(1200)[:, None]).sum(axis=1) for e in edges], axis=1)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_every_seed_reaches_the_best_log_likelihood_known(n_classes: int) -> None:
    """Four initialisations and a stop at small steps ended up to 3 nats below, and 2 nats apart."""
    rows = interviews(1)
    models = [LatentClass(n_classes, smoothing=0, random_state=seed, n_jobs=1).fit(rows) for seed in range(5)]
    table = read_table(rows)
    steps = table_steps(table, n_classes, 0.0, 1, rooted=True)
    inits = (random_init(table, n_classes, np.random.default_rng(1_000 + k)) for k in range(40))
    runs = (em(steps, init, max_iter=60, tol=0.0, accelerate=True) for init in inits)
    best = max(quasi_newton(steps, run, 600, 1e-7).log_likelihood for run in runs)
    for model in models:
        assert model.converged_
        assert model.log_likelihood_ > best - 0.01
        reported = model.report_.quantities
        assert reported["n_init"] == 48
        assert 1 <= reported["n_reached_best"] <= reported["n_final_runs"] <= 48
        assert any("the best log-likelihood was reached by" in note for note in model.report_.notes)


def test_a_maximum_that_only_one_run_reached_is_a_reason_for_caution() -> None:
    """Noise has maxima without number."""
    rows = np.random.default_rng(0).integers(3, size=(300, 8))
    report = LatentClass(5, smoothing=0, n_init=5, n_jobs=1).fit(rows).report_
    assert report.quantities["n_init"] == 5
    assert report.quantities["n_reached_best"] == 1
    assert report.quantities["next_best_below"] > 0.01
    assert report.verdict != "ok"
    assert any("it may be a local optimum; raise n_init" in reason for reason in report.reasons)


def test_the_number_of_initialisations_can_be_given() -> None:
    rows = interviews(0)
    for init in ("auto", "random"):
        one, three = (LatentClass(3, init=init, n_init=n, n_jobs=1).fit(rows) for n in (1, 3))
        assert one.report_.quantities["n_init"] == 1
        assert three.report_.quantities["n_init"] == 3
        assert three.objective_ >= one.objective_ - 1e-3
        assert "reached by 1 of 1 EM run carried to the end, from 1 initialisation" in str(one.report_)
        assert not any("local optimum" in reason for reason in one.report_.reasons)
    for bad in (0, -1, 2.5, "many"):
        with pytest.raises(DataError, match="n_init"):
            LatentClass(3, n_init=bad).fit(rows)


def test_more_initialisations_where_a_pass_is_cheap() -> None:
    small, large = read_table(interviews(0)), read_table(np.random.default_rng(0).integers(9, size=(20_000, 12)))
    assert n_init_for(small, 3) == SEARCH.most
    assert MIN_INIT < n_init_for(large, 4) < SEARCH.most
    assert n_init_for(large, 30) == MIN_INIT
    assert n_init_for(small, 1) == 1


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_quasi_newton_rises_from_where_em_stands_and_em_confirms_it(smoothing: float) -> None:
    table = read_table(interviews(2))
    steps = table_steps(table, 4, smoothing, 1, rooted=True)
    before = em(steps, random_init(table, 4, np.random.default_rng(0)), max_iter=20, tol=0.0, accelerate=True)
    found = quasi_newton(steps, before, 400, 1e-5)
    assert found.path[: len(before.path)] == before.path
    assert np.diff(found.path).min() >= 0
    assert found.objective == found.path[-1] > before.objective
    assert before.n_iter < found.n_iter <= 400
    assert steps.objective(found.params, steps.e_step(found.params)) == pytest.approx(found.objective, rel=1e-12)
    assert not found.converged
    again = em(steps, found.params, max_iter=2_000, tol=1e-12, accelerate=True)
    assert again.objective - found.objective < 0.02
    short = quasi_newton(steps, before, before.n_iter + 3, 1e-5)
    assert short.n_iter == before.n_iter + 3
    assert short.objective >= before.objective


def test_a_multi_start_counts_who_reached_the_best_and_runs_them_to_their_end() -> None:
    table = read_table(interviews(0))
    steps = table_steps(table, 2, 0.0, 1, rooted=True)
    inits = [random_init(table, 2, np.random.default_rng(k)) for k in range(8)]
    candidates = [Candidate(str(k), steps, init) for k, init in enumerate(inits)]
    em_options = {"max_iter": 500, "tol": 1e-6, "tail_gain": 0.003}
    found = multistart(candidates, finish=lambda run, most: quasi_newton(steps, run, most, 3e-5), **em_options)
    alone = [em(steps, init, max_iter=3_000, tol=1e-12, accelerate=True).objective for init in inits]
    assert found.refined.objective == pytest.approx(max(alone), abs=0.003)
    assert found.replication.objectives[0] == found.refined.objective
    assert found.replication.n_init == 8
    assert found.replication.n_reached <= found.replication.n_final <= 8
    assert np.diff(found.refined.path).min() >= -1e-9 * abs(found.refined.objective)
    cut = multistart(candidates, finish=lambda run, most: run, max_iter=3, tol=1e-6, tail_gain=0.003)
    assert cut.refined.n_iter == 3
    assert not cut.refined.converged
