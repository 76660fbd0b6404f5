"""Bars of ancestry: colours keep their meaning, people their order."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import Admixture, BernoulliMixture
from latentfit.admixture.plot import matched_colours, plot_ancestry
from latentfit.core.assign import people_order
from latentfit.core.errors import DataError

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


def counts(n=30):
    rng = np.random.default_rng(0)
    return rng.binomial(2, rng.dirichlet([0.2, 0.2, 0.2], n) @ rng.uniform(0.05, 0.95, (3, 150)))


def test_colours_follow_populations_across_numbers_and_runs():
    rng = np.random.default_rng(1)
    three = rng.dirichlet([0.2] * 3, 50)
    shuffled = three[:, [2, 0, 1]]
    split = np.column_stack([three[:, 1], 0.7 * three[:, 0], three[:, 2], 0.3 * three[:, 0]])
    one, two, four = matched_colours([three, shuffled, split])
    assert one.tolist() == [0, 1, 2]
    assert two.tolist() == [2, 0, 1]
    assert four.tolist() == [1, 0, 2, 3], "the larger half keeps the colour, the new one gets a free one"
    fewer = matched_colours([split, three])[1]
    assert fewer.tolist() == [1, 0, 2]


def test_people_are_ordered_by_group_then_by_population():
    proportions = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.1, 0.9]])
    assert people_order(proportions, None).tolist() == [0, 2, 3, 1]
    groups = np.array(["b", "a", "a", "b"], object)
    assert people_order(proportions, groups).tolist() == [0, 3, 2, 1]


def test_bars_fill_every_row():
    models = [Admixture(K).fit(counts()) for K in (2, 3)]
    axes = plot_ancestry(models, groups=["x"] * 15 + ["y"] * 15)
    assert [ax.get_ylabel() for ax in axes] == ["K = 2", "K = 3"]
    assert len(axes[1].patches) == 3 * 30
    tops = [bar.get_y() + bar.get_height() for bar in axes[1].patches[-30:]]
    np.testing.assert_allclose(tops, 1, atol=1e-12)
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == ["x", "y"]
    assert len(plot_ancestry(models[0])) == 1


@pytest.mark.parametrize(
    ("models", "options", "sentence"),
    [
        ([], {}, "models must hold at least one model"),
        (BernoulliMixture(), {}, "model must be a fitted Admixture, got BernoulliMixture"),
        ("two", {}, "fitted to other people"),
        ("one", {"groups": ["x"]}, r"one name per person \(30\), got 1"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(models, options, sentence):
    if models == "two":
        models = [Admixture(2).fit(counts()), Admixture(2).fit(counts(20))]
    elif models == "one":
        models = Admixture(2).fit(counts())
    with pytest.raises(DataError, match=sentence):
        plot_ancestry(models, **options)
