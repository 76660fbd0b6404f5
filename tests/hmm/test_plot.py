"""Pictures of hidden Markov models: what is drawn is what the model says."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BernoulliMixture, CategoricalHMM
from latentfit.core.errors import DataError
from latentfit.hmm.plot import informative_symbols, plot_states, plot_transitions

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


@pytest.fixture(scope="module")
def model():
    return CategoricalHMM(2, smoothing=1.0).fit([list("aaaabbbbbaaa"), list("bbbbbbaaaaaa")] * 6)


def test_the_map_shows_the_transitions(model):
    ax = plot_transitions(model)
    np.testing.assert_array_equal(ax.images[0].get_array(), model.transitions_)
    assert [text.get_text() for text in ax.texts] == [f"{value:.2f}" for value in model.transitions_.ravel()]
    assert ax.get_yticklabels()[0].get_text() == f"0: {informative_symbols(model)[0][0]}"


def test_the_timeline_is_full_and_marks_missing_values(model):
    ax = plot_states(model, ["a", None, "b", "b"])
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches[4:8]]
    np.testing.assert_allclose(tops, 1.0, atol=1e-12)
    assert len(ax.patches) == 2 * 4 + 1
    assert len(plot_states(model, list("aabb"), begin=1, end=3).patches) == 2 * 2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda model: plot_transitions(BernoulliMixture()),
            "model must be a fitted CategoricalHMM, got BernoulliMixture",
        ),
        (lambda model: plot_states(model, [["a"], ["b"]]), "2 sequences are given"),
        (lambda model: plot_states(model, ["a"], begin=3), "begin=3"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(call, sentence, model):
    with pytest.raises(DataError, match=sentence):
        call(model)
