"""The one EM loop: it climbs, stops for a reason, and claims to have converged only when it has."""

from dataclasses import dataclass

import numpy as np
import pytest

from latentfit.core.em import Step, em


@dataclass
class Scripted:
    """A family whose objective is whatever the script says: parameter i has the i-th value."""

    objectives: list[float]
    n_cells: int = 1

    def e_step(self, params: int) -> int:
        return params

    def objective(self, params: int, sums: int) -> float:
        return self.objectives[sums]

    def log_likelihood(self, sums: int) -> float:
        return self.objectives[sums]

    def m_step(self, sums: int) -> int:
        return min(sums + 1, len(self.objectives) - 1)

    def extrapolate(self, start: int, once: int, twice: int) -> int:
        return min(twice + 1, len(self.objectives) - 1)


def test_a_small_gain_is_convergence() -> None:
    found = em(Scripted([-10.0, -5.0, -4.0, -3.9999]), 0, max_iter=50, tol=1e-3)
    assert (found.params, found.n_iter, found.converged) == (3, 3, True)
    assert found.path == [-10.0, -5.0, -4.0, -3.9999]


@pytest.mark.parametrize("last", [-4.0, -3.9999, -4.0001])
def test_convergence_is_plain_yes_or_no_whatever_kind_of_number_tol_is(last: float) -> None:
    """A model file holds it as JSON."""
    found = em(Scripted([-10.0, -4.0, last]), 0, max_iter=5, tol=np.float64(1e-3))
    assert found.converged is True
    assert em(Scripted([-10.0, -4.0, -3.0]), 0, max_iter=1, tol=np.float64(0)).converged is False


def test_a_slow_climb_has_not_converged_because_its_steps_are_small() -> None:
    """Steps below tol for ever: 3 nats are left after the first of them. Only the last quarter of the path tells."""
    slow = [-3 * 0.999**n for n in range(20_000)]
    early = em(Scripted(slow), 0, max_iter=50_000, tol=0.01)
    assert (early.n_iter, early.converged) == (1, True)
    assert early.objective < -2.9
    found = em(Scripted(slow), 0, max_iter=50_000, tol=0.01, tail_gain=0.003)
    assert found.converged
    assert -0.01 < found.objective < 0
    assert not em(Scripted(slow), 0, max_iter=500, tol=0.01, tail_gain=0.003).converged
    slower = [-30 / (n + 10) for n in range(50_000)]  # no geometric rate at all
    found = em(Scripted(slower), 0, max_iter=50_000, tol=0.01, tail_gain=0.003)
    assert found.converged
    assert -0.01 < found.objective < 0


def test_a_climb_that_begins_at_its_end_needs_no_tail() -> None:
    found = em(Scripted([-5.0, -5.0 + 1e-7, -5.0 + 2e-7]), 0, max_iter=50, tol=0.01, tail_gain=0.003)
    assert (found.n_iter, found.converged) == (1, True)
    found = em(Scripted([-5.0, -5.0 + 1e-5, -5.0 + 2e-5]), 0, max_iter=1, tol=0.01, tail_gain=0.003)
    assert not found.converged


def test_running_out_of_steps_is_not() -> None:
    assert not em(Scripted([-10.0, -5.0, -4.0, -3.0]), 0, max_iter=2, tol=1e-3).converged


@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_a_step_that_falls_keeps_the_better_point_and_does_not_claim_to_have_converged(tol: float) -> None:
    found = em(Scripted([-10.0, -5.0, -7.0]), 0, max_iter=50, tol=tol)
    assert (found.params, found.objective, found.converged) == (1, -5.0, False)


def test_a_fall_smaller_than_tol_is_convergence() -> None:
    found = em(Scripted([-10.0, -5.0, -5.0001]), 0, max_iter=50, tol=1e-3)
    assert (found.params, found.converged) == (1, True)


@pytest.mark.parametrize("last", [-4.95, -5.05])
def test_gains_and_falls_are_measured_per_cell(last: float) -> None:
    heard: list[Step] = []
    found = em(Scripted([-10.0, -5.0, last], n_cells=100), 0, max_iter=2, tol=1e-3, callback=heard.append)
    assert (found.objective, found.converged) == (max(last, -5.0), True)
    assert heard[0].gain_per_cell == pytest.approx(5.0 / 100)


def test_a_leap_that_would_fall_is_taken_back() -> None:
    heard: list[Step] = []
    found = em(Scripted([-10.0, -5.0, -4.0, -9.0]), 0, max_iter=3, tol=0, accelerate=True, callback=heard.append)
    assert found.objective == -4.0
    assert [step.objective for step in heard] == [-5.0, -4.0]
