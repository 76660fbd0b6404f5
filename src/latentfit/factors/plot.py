"""Plots of binary latent factors: what they add, how often they are on, and how candidates for them were chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.canvas import GREY, PALE, STRONG, check_drawable, new_axes, some_of, write_cells
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.factors.estimator import BinaryFactors

MOST_FEATURES = 60
"""Features shown: more cannot be read."""
MOST_WRITTEN = 200
"""Cells of the heat map up to which weights are written into it."""


class CandidateScores(NamedTuple):
    """Scores of the search, smaller is better: those of the chosen candidates and of the best rejected ones."""

    chosen: list[float]
    rejected: list[float]
    null_level: float | None  # what a true switch exceeds once in a hundred; None where scores have no such level
    filter: str


def plot_weights(model: BinaryFactors, *, ax: Any = None) -> Any:
    """Heat map of switches × features: what a switch adds, red or blue; at most 60 features, the most moved first.

    Parameters
    ----------
    model : latentfit.BinaryFactors
        A fitted model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.factors.plot import plot_weights
    >>> data = latentfit.simulate.binary_factors(1000, m=10, d=3, sigma=0.1, random_state=0).X
    >>> model = latentfit.BinaryFactors(3).fit(data)
    >>> plot_weights(model).get_ylabel()
    'switch'
    """
    check_drawable(model, BinaryFactors)
    features, names = moved_features(model.components_), feature_names(model)
    weights = model.components_[:, features]
    ax = new_axes(max(5.0, 1.8 + 0.22 * len(features)), max(2.2, 1.4 + 0.32 * len(weights))) if ax is None else ax
    largest = max(float(np.abs(weights).max(initial=0.0)), 1e-300)
    image = ax.imshow(weights, vmin=-largest, vmax=largest, cmap="RdBu_r", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="added when on")
    if weights.size <= MOST_WRITTEN:
        write_cells(ax, weights, "{:.2g}", largest=largest, size=7)
    ax.set_xticks(range(len(features)), [names[n] for n in features], rotation=90, fontsize=7)
    ax.set_yticks(range(len(weights)), [f"{k} ({on:.0%})" for k, on in enumerate(model.switch_probabilities_)])
    ax.set_xlabel(some_of("feature", len(features), len(names)))
    ax.set_ylabel("switch")
    return ax


def plot_switches(model: BinaryFactors, *, ax: Any = None) -> Any:
    """Bars: the proportion of rows in which each switch is on.

    Parameters
    ----------
    model : latentfit.BinaryFactors
        A fitted model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.factors.plot import plot_switches
    >>> data = latentfit.simulate.binary_factors(1000, m=10, d=3, sigma=0.1, random_state=0).X
    >>> model = latentfit.BinaryFactors(3).fit(data)
    >>> len(plot_switches(model).patches)
    3
    """
    check_drawable(model, BinaryFactors)
    ax = new_axes(5.0, 3.0) if ax is None else ax
    ax.bar(np.arange(model.n_components_), model.switch_probabilities_, color=STRONG)
    ax.set_xticks(range(model.n_components_))
    ax.set_ylim(0, 1)
    ax.set_xlabel("switch")
    ax.set_ylabel("proportion of rows in which it is on")
    return ax


def plot_candidates(model: BinaryFactors, *, ax: Any = None) -> Any:
    """Scores of the candidates that the search found, best first: chosen ones dark, rejected ones pale.

    A switch explains its values as two bumps, so a chosen one belongs below the null level.

    Parameters
    ----------
    model : latentfit.BinaryFactors
        A fitted model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.factors.plot import plot_candidates
    >>> data = latentfit.simulate.binary_factors(1000, m=10, d=3, sigma=0.1, random_state=0).X
    >>> model = latentfit.BinaryFactors(3).fit(data)
    >>> plot_candidates(model).get_xlabel()
    'candidate, best first'
    """
    check_drawable(model, BinaryFactors)
    found = candidate_scores(model)
    if found is None:
        raise DataError(
            "the model has no scores of candidates: its search makes none, or its file is old; fit the model again"
        )
    ax = new_axes(6.0, 3.5) if ax is None else ax
    ranked = ranked_scores(found)
    for chosen, colour, label in ((True, STRONG, "chosen"), (False, PALE, "rejected")):
        at = [place for place, (_, mark) in enumerate(ranked, start=1) if mark is chosen]
        ax.scatter(at, [ranked[place - 1][0] for place in at], color=colour, s=18, label=label)
    if found.null_level is not None:
        ax.axhline(found.null_level, color=GREY, linestyle=":", label="a true switch stays below, 99 of 100")
    if min((value for value, _ in ranked), default=0.0) > 0:
        ax.set_yscale("log")
    ax.set_xlabel("candidate, best first")
    ax.set_ylabel({"ks": "Kolmogorov–Smirnov distance"}.get(found.filter, f"score ({found.filter})"))
    ax.legend(frameon=False, fontsize=8)
    return ax


# --------------------------------------------------------------------- numbers


def moved_features(components: Floats, most: int = MOST_FEATURES) -> NDArray[np.intp]:
    """The features that switches move most (by the sum of squared weights), in the order of the data."""
    size = (components**2).sum(axis=0)
    return np.sort(np.argsort(-size, kind="stable")[:most])


def feature_names(model: BinaryFactors) -> list[str]:
    """Names of all features; numbers from 0 where the data had none."""
    return [str(name) for name in getattr(model, "feature_names_in_", range(model.n_features_in_))]


def candidate_scores(model: BinaryFactors) -> CandidateScores | None:
    """Scores of chosen and rejected candidates; None where the search has none or an old file does not hold them."""
    known = model.report_.quantities
    if "rejected_scores" not in known:
        return None
    filter_ = str(known["filter"])
    level = float(known["score_null_level"]) if filter_ == "ks" else None
    return CandidateScores(list(known["scores"]), list(known["rejected_scores"]), level, filter_)


def ranked_scores(found: CandidateScores) -> list[tuple[float, bool]]:
    """(score, chosen) of all candidates, best first; of equals the chosen."""
    both = [(value, True) for value in found.chosen] + [(value, False) for value in found.rejected]
    return sorted(both, key=lambda pair: (pair[0], not pair[1]))
