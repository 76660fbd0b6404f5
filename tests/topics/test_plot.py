"""Pictures of topics show what the model says."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import LatentClass, TopicModel
from latentfit.core.errors import DataError
from latentfit.simulate import topic_documents
from latentfit.topics.plot import plot_topic_map, plot_topics, topic_map


@pytest.fixture(scope="module")
def model():
    return TopicModel(3).fit(topic_documents(150, 40, 3, length=30, random_state=0).counts)


def test_bars_are_the_top_words(model, tmp_path):
    pytest.importorskip("matplotlib")
    figure = plot_topics(model, 5)
    for k, panel in enumerate(axes for axes in figure.axes if axes.get_visible()):
        assert [text.get_text() for text in panel.get_yticklabels()] == [str(word) for word in model.top_words(5)[k]]
        np.testing.assert_allclose(sorted(bar.get_width() for bar in panel.patches), np.sort(model.topics_[k])[-5:])
    figure.savefig(tmp_path / "topics.png")
    assert (tmp_path / "topics.png").read_bytes().startswith(b"\x89PNG")


def test_map_keeps_distances(model):
    pytest.importorskip("matplotlib")
    places = topic_map(model.topics_)
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    middle = (model.topics_[:, None] + model.topics_) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = model.topics_[:, None] * np.log(model.topics_[:, None] / middle)
    divergence = np.nan_to_num(terms).sum(axis=2)
    np.testing.assert_allclose(apart**2, (divergence + divergence.T) / 2, atol=1e-9)  # three points lie in a plane
    ax = plot_topic_map(model)
    assert len(ax.texts) == 3
    assert ax.get_aspect() == 1, "a distance across is one upward"


def test_other_models_are_refused():
    with pytest.raises(DataError, match="model must be a fitted TopicModel, got LatentClass"):
        plot_topics(LatentClass())
