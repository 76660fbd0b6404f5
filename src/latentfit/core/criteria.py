"""Fit indices of latent class models: what a likelihood is worth after paying for its parameters.

All criteria are smaller-is-better; with ℓ the log-likelihood in nats at the parameters given (a smoothed fit lies a
little below the maximum), q the free parameters and n the rows, or Kish's effective number under sampling weights:

    AIC    −2ℓ + 2q                 (Akaike 1974)
    AIC3   −2ℓ + 3q                 (Bozdogan 1993)
    BIC    −2ℓ + q ln n             (Schwarz 1978)
    SABIC  −2ℓ + q ln((n + 2)/24)   (Sclove 1987)
    CAIC   −2ℓ + q (ln n + 1)       (Bozdogan 1987)

Entropy R² is 1 − Σ_s H(posterior of row s) / (n ln F): 1 when every row is sure of its class, 0 when none is told
anything. It is not a number for one class.

Paper     those named beside the criteria
Needs     a fitted mixture and its table
Promises  the definitions; how often each finds the number of clusters: docs/reproduction/clusters.md
Differs   under sampling weights ℓ is a pseudo-log-likelihood on the scale of Kish's number of rows
          (core/table/weights.py)

Symbols   above
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.progress import tried
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of

Fit = Callable[[Table, int], Mixture]
Number = TypeVar("Number", float, Floats)
"""Fits a number of classes to a table."""


@dataclass(frozen=True)
class FitIndices:
    """One fit's indices, with what they were computed from."""

    log_likelihood: float
    n_parameters: int
    n_rows: float
    aic: float
    aic3: float
    bic: float
    sabic: float
    caic: float
    entropy_r2: float  # not a number for one class


def entropy_r2(posterior: Floats, row_weight: Floats | None = None) -> float:
    """How sure rows (n, F) are of their class, relative to knowing nothing; not a number for one class."""
    n_rows, n_classes = posterior.shape
    if n_classes < 2:
        return float("nan")
    weight = np.ones(n_rows) if row_weight is None else row_weight
    logs = np.log(np.where(posterior > 0, posterior, 1.0))
    entropy = -(posterior * logs).sum(axis=1)
    return float(1 - (weight @ entropy) / (weight.sum() * np.log(n_classes)))


def fit_indices(table: Table, mixture: Mixture, *, n_jobs: int | None = None) -> FitIndices:
    """The indices of a fitted mixture on a table: one pass over its rows."""
    posterior, by_row = posterior_of(MemoryEngine(table, n_jobs), mixture)
    log_likelihood = float(by_row.sum() if table.row_weight is None else by_row @ table.row_weight)
    n_parameters, n_rows = count_parameters(table.first, mixture.n_classes), table.total_weight
    criteria = information_criteria(log_likelihood, n_parameters, n_rows)
    sure = entropy_r2(posterior, table.row_weight)
    return FitIndices(log_likelihood, n_parameters, n_rows, **criteria, entropy_r2=sure)


def compare(table: Table, numbers: Iterable[int], fit: Fit) -> dict[str, list[float] | list[int]]:
    """One row per number of classes, ready for a frame: every index, and the share of the smallest class."""
    wanted = [int(number) for number in numbers]
    out: dict[str, list[float] | list[int]] = {"n_components": wanted}
    rows: list[dict[str, float]] = []
    for number in tried(wanted, "classes"):
        mixture = fit(table, number)
        rows.append(asdict(fit_indices(table, mixture)) | {"smallest": float(mixture.weights.min())})
    for name in rows[0] if rows else []:
        out[name] = [row[name] for row in rows]
    return out


def information_criteria(log_likelihood: Number, n_parameters: Any, n_rows: float) -> dict[str, Number]:
    """AIC, AIC3, BIC, SABIC and CAIC (for `core/criteria.py`) by name, of one fit or of several at once."""
    q, deviance, n = n_parameters, -2 * log_likelihood, max(n_rows, 1.0)
    return {
        "aic": deviance + 2 * q,
        "aic3": deviance + 3 * q,
        "bic": deviance + q * float(np.log(n)),
        "sabic": deviance + q * float(np.log((n + 2) / 24)),
        "caic": deviance + q * (float(np.log(n)) + 1),
    }
