"""Pictures of switches and of mixtures show what the models say."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BinaryFactors, MixtureFractions, TopicModel, load
from latentfit.core.errors import DataError
from latentfit.factors.plot import moved_features, plot_candidates, plot_switches, plot_weights
from latentfit.fractions.plot import differing_features, plot_fractions, plot_profiles
from latentfit.hmm.plot import plot_state_graph
from latentfit.simulate import binary_factors

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")


@pytest.fixture(scope="module")
def switches():
    return BinaryFactors(3).fit(binary_factors(800, m=8, d=3, sigma=0.1, random_state=0).X)


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    profiles = rng.beta(0.5, 0.5, (3, 80))
    rows = np.clip(rng.dirichlet(np.ones(3), 12) @ profiles + 0.01 * rng.normal(size=(12, 80)), 0, 1)
    return MixtureFractions(reference=profiles.T).fit(rows), rows


def test_weights_probabilities_and_candidates(switches, tmp_path):
    ax = plot_weights(switches)
    np.testing.assert_array_equal(ax.images[0].get_array(), switches.components_)
    ax.figure.savefig(tmp_path / "weights.png")
    bars = [bar.get_height() for bar in plot_switches(switches).patches]
    np.testing.assert_allclose(bars, switches.switch_probabilities_)
    drawn = plot_candidates(switches)
    chosen, rejected = (np.asarray(one.get_offsets())[:, 1] for one in drawn.collections)
    known = switches.report_.quantities
    np.testing.assert_allclose(np.sort(chosen), np.sort(known["scores"]))
    np.testing.assert_allclose(np.sort(rejected), known["rejected_scores"])
    assert plot_candidates(switches, ax=drawn) is drawn


def test_plots_show_the_most_moved_of_many_features():
    weights = np.zeros((2, 500))
    weights[0, 400], weights[1, 3] = 1.0, -2.0
    shown = moved_features(weights, 2)
    assert shown.tolist() == [3, 400]
    profiles = np.full((3, 50), 0.5)
    profiles[1, 7], profiles[2, 9] = 1.0, 0.0
    assert set(differing_features(profiles, 2)) == {7, 9}


def test_fractions_and_profiles(mixed, tmp_path):
    model, rows = mixed
    ax = plot_fractions(model)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(3, 12)
    np.testing.assert_allclose(heights.sum(axis=0), 1.0)
    np.testing.assert_allclose(np.sort(heights, axis=1), np.sort(model.fractions_.T, axis=1))
    np.testing.assert_array_equal(
        plot_profiles(model).images[0].get_array(), model.profiles_[:, differing_features(model.profiles_)]
    )
    model.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
    with pytest.raises(DataError, match="a model file stores no samples"):
        plot_fractions(again)
    later = np.array([bar.get_height() for bar in plot_fractions(again, rows).patches]).reshape(3, 12)
    np.testing.assert_allclose(later, heights, atol=1e-9)


def test_scores_of_candidates_travel_in_files(switches, tmp_path):
    switches.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
    assert again.report_.quantities["rejected_scores"] == switches.report_.quantities["rejected_scores"]
    assert len(plot_candidates(again).collections) == 2
    independent = BinaryFactors(2, search="independent").fit(binary_factors(800, m=8, d=2, sigma=0.1, random_state=0).X)
    with pytest.raises(DataError, match="no scores"):
        plot_candidates(independent)


@pytest.mark.parametrize("draw", [plot_weights, plot_switches, plot_candidates, plot_fractions, plot_profiles,
                                  plot_state_graph])  # fmt: skip
def test_other_models_are_refused(draw):
    with pytest.raises(DataError, match="must be a fitted"):
        draw(TopicModel())
