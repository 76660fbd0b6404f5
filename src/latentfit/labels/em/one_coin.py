"""M-step of the one-coin model: a worker is right with one probability whatever the class, and errs evenly.

The M-step maximises the objective of the table family over such tables: all right labels of a worker against all its
labels, the pseudo-labels included. Extrapolation keeps the form, because it works on log-probabilities. Class k is
label k by construction, so there is no order of classes to choose.

Paper     Dawid & Skene 1979, with confusion matrices restricted to one accuracy per worker
Needs     workers better than chance on the whole; mistakes that do not depend on the class
Promises  the objective never falls; one parameter per worker where full tables have K (K − 1)
Differs   pseudo-labels; known answers are held fixed

Symbols   paper      here       shape                   meaning
          π_jl^(k)   table      (M·K, K)                accuracy on the diagonal, the rest even
          —          accuracy   (M,)                    share of right labels
          —          counts     (worker, given, true)   expected labels and pseudo-labels
"""

from __future__ import annotations

import numpy as np

from latentfit.core.mixture.em import TableSteps
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import Sums


class OneCoinSteps(TableSteps):
    """EM steps of the one-coin model."""

    def maximise(self, sums: Sums) -> Mixture:
        full = super().maximise(sums)
        size = len(full.weights)
        counts = (sums.table + self.prior.table).reshape(-1, size, size)  # (worker, given, true)
        total = counts.sum(axis=(1, 2))
        right = np.einsum("mkk->m", counts)
        accuracy = np.where(total > 0, right / np.where(total > 0, total, 1.0), 1 / size)[:, None, None]
        same = np.eye(size)
        tables = accuracy * same + (1 - accuracy) / max(size - 1, 1) * (1 - same)
        return Mixture(full.weights, tables.reshape(-1, size), self.first)
