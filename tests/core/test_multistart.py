"""The one loop and the races that use it, on families whose objective is a list of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from latentfit.core.em import SolverState, em
from latentfit.core.multistart import Candidate, continue_em, select_best, successive_halving


@dataclass
class Scripted:
    """A family whose objective is whatever the script says: parameter i has the i-th value."""

    objectives: list[float]
    n_cells: int = 1
    looked: list[int] = field(default_factory=list)

    def e_step(self, params):
        self.looked.append(params)
        return params

    def objective(self, params, sums):
        return self.objectives[sums]

    def log_likelihood(self, sums):
        return self.objectives[sums]

    def m_step(self, sums):
        return min(sums + 1, len(self.objectives) - 1)

    def extrapolate(self, start, once, twice):
        return min(twice + 1, len(self.objectives) - 1)


def test_a_later_start_wins_a_race_by_more_than_the_margin_a_cell():
    def winner(*ends, margin=0.0, cells=1):
        candidates = [Candidate(str(n), Scripted([-99.0, end], cells), 0) for n, end in enumerate(ends)]
        found = select_best(candidates, max_iter=1, tol=0.0, margin=margin)
        assert found.scores == {str(n): pytest.approx(end / cells) for n, end in enumerate(ends)}
        return found.name

    assert winner(-5.0, -5.0) == "0"
    assert winner(-5.0, -4.9) == "1"
    assert winner(-5.0, -4.5, margin=0.4) == "1"
    assert winner(-5.0, -4.5, margin=0.6) == "0"
    assert winner(-5.0, -4.5, margin=0.06, cells=10) == "0"
    assert winner(-5.0, -4.0, -3.9, margin=0.5) == "1"


def test_the_better_half_stays_and_the_last_goes_on_alone():
    ends = [3.0, 7.0, 5.0, 1.0, 6.0]
    candidates = [
        Candidate(str(n), Scripted([end + 0.1 * step for step in range(40)], 2), 0) for n, end in enumerate(ends)
    ]
    found = successive_halving(candidates, rounds=(2, 3, 4), max_iter=20, tol=0.0)
    assert found.name == "1"
    assert found.refined.n_iter == 20
    assert len(found.refined.path) == 21
    after = {"0": 2, "1": 9, "2": 5, "3": 2, "4": 9}  # of five three stay, of these two
    assert found.scores == {name: pytest.approx((ends[int(name)] + 0.1 * n) / 2) for name, n in after.items()}
    equal = [Candidate(name, Scripted([1.0, 2.0, 3.0]), 0) for name in "ab"]
    assert successive_halving(equal, rounds=(1, 1), max_iter=2, tol=0.0).name == "a"
    short = successive_halving(candidates, rounds=(2, 3, 4), max_iter=4, tol=0.0)
    assert short.refined.n_iter == 4
    assert short.scores["1"] == pytest.approx((7.0 + 0.4) / 2)


def test_going_on_counts_all_passes_and_keeps_one_path():
    steps = Scripted([float(n) for n in range(20)])
    first = em(steps, 0, max_iter=3, tol=0.0)
    steps.looked.clear()
    heard = []
    found = continue_em(steps, first, 5, tol=0.0, on_iteration=heard.append)
    assert steps.looked == [4, 5]  # the sums of the start are known
    assert found.n_iter == 5
    assert found.path == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert heard == [SolverState(4, 4, [0.0, 1.0, 2.0, 3.0, 4.0]), SolverState(5, 5, found.path)]
    assert continue_em(steps, first, 3, tol=0.0) is first
    done = em(Scripted([0.0, 1e-9]), 0, max_iter=9, tol=1e-3)
    assert done.converged
    assert continue_em(steps, done, 99, tol=0.0) is done


def test_leaps_count_as_passes_and_are_kept_only_where_they_rise():
    rising = Scripted([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    found = em(rising, 0, max_iter=2, tol=0.0, accelerate=True)
    assert (found.params, found.n_iter, found.path) == (3, 2, [0.0, 1.0, 3.0])
    found = em(rising, 0, max_iter=3, tol=0.0, accelerate=True)
    assert (found.params, found.n_iter) == (4, 3)  # no pass is left for a second leap
    level = Scripted([0.0, 1.0, 2.0, 1.0, 9.0])
    found = em(level, 0, max_iter=2, tol=0.0, accelerate=True)
    assert (found.params, found.n_iter, found.path) == (1, 2, [0.0, 1.0])  # equal is no rise


def test_a_stopped_climb_goes_on_where_it_stood():
    steps = Scripted([float(n) for n in range(20)])
    heard = []
    whole = em(steps, 0, max_iter=8, tol=0.0, accelerate=True, on_iteration=heard.append)
    assert [at.n_iter for at in heard] == [2, 4, 6, 8]
    again = em(steps, 0, max_iter=8, tol=0.0, accelerate=True, resume_from=heard[1])
    assert again == whole


def test_a_fall_by_rounding_is_no_fall():
    found = em(Scripted([-1e6, -1e6 - 5e-4, -10.0]), 0, max_iter=2, tol=0.0)
    assert found.params == 2
    found = em(Scripted([-1e6, -1e6 - 5e-3, -10.0]), 0, max_iter=2, tol=0.0)
    assert (found.params, found.n_iter) == (0, 0)
    assert em(Scripted([0.0, 1.0, 1.0 + 1e-3], 10), 0, max_iter=9, tol=2e-4).n_iter == 2
    assert not em(Scripted([0.0, 0.0]), 0, max_iter=3, tol=0.0).converged
