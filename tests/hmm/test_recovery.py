"""Linear sample size on two-state chains (Corollary 1.5), and the number of states where there is only one."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.hmm.em.steps import Chain
from latentfit.hmm.select import choose_states
from latentfit.simulate import draw_sequences
from reproduction.pairs_hmm import COROLLARY, EMISSIONS, FEW, TRANSITIONS, hmm, judge
from reproduction.table import Run


@pytest.mark.parametrize("kind", ["even", "zipf"])
def test_error_depends_on_observations_a_symbol(kind):
    """Four times the symbols at the same N/M: the same error; four times N/M: about half of it."""
    small, large, longer = (judge(kind, M, ratio, 1)[COROLLARY] for M, ratio in ((250, 40), (1000, 40), (250, 160)))
    assert large[EMISSIONS] < small[EMISSIONS] + 0.04
    assert longer[EMISSIONS] < 0.7 * small[EMISSIONS]
    assert large[TRANSITIONS] < 0.1


def test_few_trigrams_are_enough():
    found = judge("even", 1000, 40, 2)
    assert found[FEW][EMISSIONS] < found[COROLLARY][EMISSIONS] + 0.02
    assert found[FEW][TRANSITIONS] < 0.15


def test_the_key_runs():
    outcome = hmm(Run(repeats=1, quick=True))
    assert {row.method for row in outcome.rows} >= {COROLLARY, FEW, "CategoricalHMM"}
    assert outcome.curves is not None


@pytest.mark.parametrize("seed", range(4))
def test_independent_symbols_have_one_state(seed):
    rng = np.random.default_rng(seed)
    chain = Chain(np.ones(1), np.ones((1, 1)), rng.dirichlet(np.ones(40), 1))
    assert choose_states(draw_sequences(chain, 5000, 1, rng).sequences).chosen == 1
