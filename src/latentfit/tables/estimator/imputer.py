"""Gaps of a categorical table filled inside a pipeline: a latent class model whose `transform` is `impute`."""

from __future__ import annotations

from typing import Any

from sklearn.base import OneToOneFeatureMixin

from latentfit.tables.estimator.latent_class import LatentClass


class LatentClassImputer(OneToOneFeatureMixin, LatentClass):
    """Fill missing cells with their best value given the rest of the row; observed cells stay.

    The best value is the most probable category; for numbers cut into intervals it is the expected value.

    The same model, parameters and attributes as `LatentClass`, but as a step of a pipeline: `transform` gives the
    table back with its gaps filled, in the caller's kind of frame, where that of `LatentClass` gives class memberships.
    Use it before a model that refuses gaps; `LatentClassClassifier` needs no imputation. A filled table looks more
    certain than the data were, so judge what follows by cross-validation with the imputer inside the pipeline.

    Parameters
    ----------
    n_components : int or None
        Number of classes; None chooses it. In a grid search: ``latentclassimputer__n_components``.
    init, n_init, smoothing, select, bins, weight_type, max_iter, tol, random_state, n_jobs, verbose, engine
        As in `LatentClass`.

    Attributes
    ----------
    weights_, profiles_, joint_, report_
        As in `LatentClass`.

    Examples
    --------
    >>> import pandas as pd
    >>> from latentfit import LatentClassImputer
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30})
    >>> gap = pd.DataFrame({"sky": ["grey", None], "rain": [None, "no"]})
    >>> LatentClassImputer(2).fit(frame).transform(gap).to_numpy().tolist()
    [['grey', 'yes'], ['blue', 'no']]
    """

    _model_name = "LatentClassImputer"

    def transform(self, X: Any) -> Any:
        """X with its gaps filled: the same as `impute`."""
        return self.impute(X)
