"""Items in the plane of their embeddings."""

from __future__ import annotations

import pytest

from latentfit import BernoulliMixture, PairMatrix
from latentfit.core.errors import DataError
from latentfit.pairs.plot import plot_items
from latentfit.simulate import pairs

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


def test_names_go_to_the_items_that_matter():
    import matplotlib

    matplotlib.use("Agg")
    world = pairs(40, 2000, "topics", n_components=3, random_state=0)
    three, two = PairMatrix(3).fit(world.counts), PairMatrix().fit(world.counts)
    ax = plot_items(three, names=5)
    assert len(ax.texts) == 5
    assert ax.get_ylabel() == "component 2"
    alone = plot_items(two, ax=ax)
    assert alone is ax
    assert alone.get_ylabel() == "log₁₀ of the marginal"
    with pytest.raises(DataError, match=r"components must be two numbers from 0 to 1, got \(0, 5\)"):
        plot_items(three, components=(0, 5))
    with pytest.raises(DataError, match="must be a fitted PairMatrix"):
        plot_items(BernoulliMixture())
