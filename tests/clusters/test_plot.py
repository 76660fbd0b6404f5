"""Pictures of clusters show what the model says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import latentfit
from latentfit import BernoulliMixture, LatentClass
from latentfit.clusters.plot import named_in, plot_clusters, plot_path, shown_columns, suspect_cells
from latentfit.core.canvas import new_figure
from latentfit.core.errors import DataError
from latentfit.simulate import bernoulli_mixture


def fitted(columns=12, number=None):
    made = bernoulli_mixture(300, columns, 3, separation=60, informative=0.9, random_state=0)
    return BernoulliMixture(number).fit(pd.DataFrame(made.rows, columns=[f"s{n}" for n in range(columns)]))


def test_heat_map_has_every_cluster_and_column(tmp_path):
    pytest.importorskip("matplotlib")
    model = fitted()
    ax = plot_clusters(model)
    order = shown_columns(model.weights_, model.frequencies_)
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"s{n}" for n in order]
    assert len(ax.get_yticklabels()) == model.n_components_
    np.testing.assert_array_equal(ax.images[0].get_array(), model.frequencies_[:, order])
    ax.figure.savefig(tmp_path / "clusters.png")
    assert (tmp_path / "clusters.png").read_bytes().startswith(b"\x89PNG")


def test_suspects_of_flagged_clusters_are_marked(tmp_path):
    pytest.importorskip("matplotlib")
    model = fitted(number=1)  # three clusters in one: flagged
    assert model.purity_["flagged"].all()
    ax = plot_clusters(model)
    marked = {ax.get_xticklabels()[round(x)].get_text() for x, _ in ax.collections[0].get_offsets()}
    named = f"{model.purity_['suspect_pair'][0]}, {model.purity_['suspect_columns'][0]}".split(", ")
    assert marked == set(named)
    assert ax.get_legend().get_texts()[0].get_text() == "betrays a flagged cluster"
    model.save(tmp_path / "m.latent")
    again = plot_clusters(latentfit.load(tmp_path / "m.latent"))
    np.testing.assert_array_equal(again.collections[0].get_offsets(), ax.collections[0].get_offsets())


def test_wide_tables_show_sixty_columns():
    pytest.importorskip("matplotlib")
    ax = plot_clusters(fitted(columns=80, number=3))
    assert len(ax.get_xticklabels()) == 60
    assert ax.get_xlabel() == "column (60 of 80)"


def test_path_shows_steps_and_choices():
    figure = pytest.importorskip("matplotlib.figure")
    model = fitted()
    given = figure.Figure().add_subplot()
    ax = plot_path(model, given)
    assert ax is given
    heights = [bar.get_height() for bar in ax.patches]
    steps = model.path_["step"].to_numpy()[1:]
    np.testing.assert_allclose(heights[: model.n_components_ - 1], steps[: model.n_components_ - 1])
    said = " ".join(text.get_text() for text in ax.get_legend().get_texts())
    chosen = model.selection_
    for words in (f"practical: {chosen['practical']}", f"statistical: {chosen['statistical']}", f"bic {chosen['bic']}"):
        assert words in said
    lone = plot_path(BernoulliMixture(max_components=1).fit(np.eye(8)))
    assert not lone.patches


def test_what_is_no_fitted_model_is_refused():
    for draw in (plot_clusters, plot_path):
        with pytest.raises(DataError, match="model must be a fitted BernoulliMixture, got LatentClass"):
            draw(LatentClass())
        with pytest.raises(NotFittedError):
            draw(BernoulliMixture())


def test_columns_are_ordered_by_what_they_tell():
    weights, frequencies = np.array([0.5, 0.5]), np.array([[0.5, 0.1, 0.6, 0.02], [0.5, 0.9, 0.4, 0.0]])
    assert shown_columns(weights, frequencies).tolist() == [1, 2, 3, 0]
    assert shown_columns(weights, frequencies, most=2).tolist() == [1, 2]
    assert shown_columns(weights, frequencies, always=[0], most=2).tolist() == [1, 0]


def test_names_with_commas_are_distinguished():
    names = ["a", "a, b", "c", ""]
    assert named_in("a, b, c", names) == [1, 2]
    assert named_in("c, a", names) == [2, 0]
    assert named_in("unknown, a", names) == []
    purity = pd.DataFrame(
        {"cluster": [0, 1], "flagged": [False, True], "suspect_pair": ["", "a, c"], "suspect_columns": ["", "c, a, b"]}
    )
    assert suspect_cells(purity, names) == [(1, 0), (1, 1), (1, 2)]


def test_matplotlib_waits_until_a_picture_is_asked_for():
    code = "import latentfit.clusters.plot, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_matplotlib_error_suggests_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"not installed; run pip install 'latentfit\[plot\]'"):
        new_figure(1.0, 1.0)
