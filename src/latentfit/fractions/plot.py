"""Plots of mixtures: what every sample is made of, and what the parts look like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import people_order
from latentfit.core.canvas import MOST_NAMES, check_drawable, new_axes, some_of, stack_bars
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.fractions.estimator import MixtureFractions

MOST_FEATURES = 60
"""Features shown: more cannot be read."""


def plot_fractions(model: MixtureFractions, samples: Any = None, *, ax: Any = None) -> Any:
    """Stacked bars: the fractions of every sample, sorted by its largest part.

    Parameters
    ----------
    model : latentfit.MixtureFractions
        A fitted model.
    samples : array-like or frame of shape (n_samples, n_features), optional
        Samples as `transform` takes them; None draws those of the fit, which a model file does not store.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import latentfit
    >>> from latentfit.fractions.plot import plot_fractions
    >>> rng = np.random.default_rng(0)
    >>> mixed = rng.dirichlet(np.ones(3), 30) @ rng.beta(0.5, 0.5, (3, 200))
    >>> plot_fractions(latentfit.MixtureFractions(3).fit(mixed)).get_ylabel()
    'fraction'
    """
    check_drawable(model, MixtureFractions)
    fractions, names = sample_fractions(model, samples)
    order = people_order(fractions, None)
    ax = new_axes(min(max(6.0, 0.03 * len(order)), 16.0), 3.0) if ax is None else ax
    parts = [str(part) for part in model.parts_.tolist()]
    stack_bars(ax, np.arange(len(order)), fractions[order], range(len(parts)), parts)
    ax.set_xticks([])
    if len(order) <= MOST_NAMES:
        ax.set_xticks(np.arange(len(order)), [names[at] for at in order], rotation=90, fontsize=6)
    ax.set_ylabel("fraction")
    ax.legend(title="part", frameon=False, ncols=min(len(parts), 8), loc="lower left", bbox_to_anchor=(0, 1.0))
    return ax


def plot_profiles(model: MixtureFractions, *, ax: Any = None) -> Any:
    """Heat map of parts × features, those in which the parts differ most; at most 60.

    Parameters
    ----------
    model : latentfit.MixtureFractions
        A fitted model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import latentfit
    >>> from latentfit.fractions.plot import plot_profiles
    >>> rng = np.random.default_rng(0)
    >>> mixed = rng.dirichlet(np.ones(3), 30) @ rng.beta(0.5, 0.5, (3, 200))
    >>> plot_profiles(latentfit.MixtureFractions(3).fit(mixed)).get_xlabel()
    'feature (60 of 200)'
    """
    check_drawable(model, MixtureFractions)
    chosen = differing_features(model.profiles_)
    ax = new_axes(max(5.0, 1.8 + 0.16 * len(chosen)), max(2.2, 1.4 + 0.3 * model.n_components_)) if ax is None else ax
    image = ax.imshow(model.profiles_[:, chosen], vmin=0, vmax=1, cmap="viridis", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="value of the pure part")
    ax.set_xticks(range(len(chosen)), [str(model.features_[n]) for n in chosen], rotation=90, fontsize=6)
    ax.set_yticks(range(model.n_components_), [str(part) for part in model.parts_.tolist()])
    ax.set_xlabel(some_of("feature", len(chosen), len(model.features_)))
    ax.set_ylabel("part")
    return ax


# --------------------------------------------------------------------- numbers


def sample_fractions(model: MixtureFractions, samples: Any = None) -> tuple[Floats, list[str]]:
    """Fractions (samples, parts) of the fit or of `samples`, and the samples' names."""
    if samples is not None:
        fractions = model.transform(samples)
        names = getattr(samples, "row_names", None) or range(1, len(fractions) + 1)
        return fractions, [str(name) for name in names]
    if not hasattr(model, "fractions_"):
        raise DataError("a model file stores no samples; give samples to draw")
    return model.fractions_, [str(name) for name in model.samples_.tolist()]


def differing_features(profiles: Floats, most: int = MOST_FEATURES) -> NDArray[np.intp]:
    """The features in which parts (K, features) differ most, by variance, those of like profiles side by side."""
    if len(profiles) == 1:
        return np.arange(min(most, profiles.shape[1]))
    chosen = np.argsort(-profiles.var(axis=0), kind="stable")[:most]
    inside = profiles[:, chosen]
    return chosen[np.lexsort((chosen, -inside.max(axis=0), inside.argmax(axis=0)))]
