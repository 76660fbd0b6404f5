"""Pictures of topics: their top words, and how far they are from one another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from latentfit.core.canvas import PALE, STRONG, check_drawable, new_axes, new_figure
from latentfit.core.kernels import Floats
from latentfit.topics.estimator import TopicModel

MOST_TOPICS = 24
"""Panels of bars: more cannot be read."""
COLUMNS = 4
STEPS = 21
"""Values of λ from 0 to 1 between which a reader chooses."""
LEAST = 1e-12
"""A probability below it is taken for it, so that its logarithm is a number."""


def plot_topics(model: TopicModel, n_words: int = 8, figure: Any = None, *, relevance: float = 1.0) -> Any:
    """Bars of the top words of every topic, the heaviest topic first; at most 24 topics.

    Parameters
    ----------
    model : TopicModel
        Fitted model.
    n_words : int, default 8
        Words per topic.
    figure : matplotlib Figure or None, default None
        Figure to draw on; None makes one.
    relevance : float, default 1.0
        1 takes the most probable words, 0 those that are most of this topic's own; between them both count.

    Returns
    -------
    matplotlib Figure
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.topics.plot import plot_topics
    >>> data = latentfit.simulate.topic_documents(200, 50, 3, random_state=0).counts
    >>> figure = plot_topics(latentfit.TopicModel(3).fit(data))
    >>> len([axes for axes in figure.axes if axes.get_visible()])
    3
    """
    check_drawable(model, TopicModel)
    shown = min(model.n_topics_, MOST_TOPICS)
    columns = min(COLUMNS, shown)
    rows = -(-shown // columns)
    ranked = np.argsort(-relevances(model.topics_, model.weights_, relevance), axis=1, kind="stable")
    if figure is None:
        figure = new_figure(2.6 * columns, 0.6 + (0.9 + 0.16 * n_words) * rows)
    panels = np.atleast_1d(figure.subplots(rows, columns)).reshape(-1)
    for k, panel in enumerate(panels):
        if k >= shown:
            panel.set_visible(False)
            continue
        top = ranked[k, :n_words]
        panel.barh(range(len(top)), model.topics_[k, top], color=PALE)
        panel.set_yticks(range(len(top)), [str(word) for word in model.words_[top].tolist()], fontsize=8)
        panel.invert_yaxis()
        panel.tick_params(axis="x", labelsize=6)
        panel.locator_params(axis="x", nbins=4)
        panel.set_title(f"topic {k} ({model.weights_[k]:.0%})", fontsize=9, loc="left")
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure


def plot_topic_map(model: TopicModel, ax: Any = None) -> Any:
    """Topics as circles: area is the proportion of all tokens, distance how much their words differ (Jensen–Shannon).

    Parameters
    ----------
    model : TopicModel
        Fitted model.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.topics.plot import plot_topic_map
    >>> data = latentfit.simulate.topic_documents(200, 50, 3, random_state=0).counts
    >>> ax = plot_topic_map(latentfit.TopicModel(3).fit(data))
    >>> len(ax.texts)
    3
    """
    check_drawable(model, TopicModel)
    ax = new_axes(6.0, 5.0) if ax is None else ax
    places = topic_map(model.topics_)
    ax.scatter(places[:, 0], places[:, 1], s=6000 * model.weights_, color=STRONG, alpha=0.25)
    for k, (x, y) in enumerate(places):
        first = " ".join(str(word) for word in model.top_words(2)[k])
        ax.text(x, y, f"{k}\n{first}", ha="center", va="center", fontsize=7)
    ax.set(xticks=[], yticks=[], title="topics: area is their share, distance how much their words differ")
    ax.margins(0.2)
    ax.set_aspect("equal", "datalim")  # or a distance across would not be one upward
    return ax


# --------------------------------------------------------------------- numbers


def relevances(topics: Floats, weights: Floats, weight: float) -> Floats:
    """λ log p(w|t) + (1 − λ) log p(w|t)/p(w) (topic, word) with λ = `weight`: Sievert & Shirley's relevance."""
    known, lift = _log_parts(topics, weights)
    return np.asarray(weight * known + (1 - weight) * lift)


def relevant_words(topics: Floats, weights: Floats, n_words: int) -> list[NDArray[np.intp]]:
    """For every topic the words that are among its `n_words` most relevant for any λ, the most probable first."""
    chosen: list[set[int]] = [set() for _ in topics]
    known, lift = _log_parts(topics, weights)
    most = min(n_words, topics.shape[1])
    for weight in np.linspace(0, 1, STEPS):
        top = np.argpartition(-(weight * known + (1 - weight) * lift), most - 1, axis=1)[:, :most]
        for words, more in zip(chosen, top.tolist(), strict=True):
            words |= set(more)
    return [
        np.array(sorted(words, key=lambda w, k=k: (-topics[k, w], w)), np.intp)  # type: ignore[misc]
        for k, words in enumerate(chosen)
    ]


def _log_parts(topics: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """log p(w|t) and log p(w|t)/p(w)."""
    known = np.log(np.maximum(topics, LEAST))
    return known, known - np.log(np.maximum(weights @ topics, LEAST))


def topic_map(topics: Floats) -> Floats:
    """Places (K, 2) whose distances follow the root of the Jensen–Shannon divergence: classical scaling."""
    size = len(topics)
    apart, own = np.zeros((size, size)), xlogy(topics, topics).sum(axis=1)
    for k in range(size - 1):
        middle = (topics[k] + topics[k + 1 :]) / 2
        between = xlogy(middle, middle).sum(axis=1)
        apart[k, k + 1 :] = apart[k + 1 :, k] = np.maximum((own[k] + own[k + 1 :]) / 2 - between, 0.0)
    centre = np.eye(size) - 1 / size
    values, vectors = np.linalg.eigh(-centre @ apart @ centre / 2)
    places = np.zeros((size, 2))
    for at, which in enumerate(np.argsort(-values, kind="stable")[:2]):
        vector = vectors[:, which] * np.sqrt(max(float(values[which]), 0.0))
        places[:, at] = vector * (1.0 if vector[np.argmax(np.abs(vector))] >= 0 else -1.0)
    return places
