"""The literal twin of the mixture kernels: loops over rows and classes, written from the model alone."""

from __future__ import annotations

import math

import numpy as np


def twin_pass(rows, weights, table, row_weight=None):
    """Log-likelihood, class totals, table sums, posteriors and row log-likelihoods; `rows` lists table rows."""
    n_classes = len(weights)
    totals, sums = np.zeros(n_classes), np.zeros_like(table)
    posterior, log_likelihoods = [], []
    for index, cells in enumerate(rows):
        log_joint = [math.log(weights[f]) + sum(math.log(table[c, f]) for c in cells) for f in range(n_classes)]
        top = max(log_joint)
        norm = top + math.log(math.fsum(math.exp(value - top) for value in log_joint))
        belief = [math.exp(value - norm) for value in log_joint]
        weight = 1.0 if row_weight is None else row_weight[index]
        for f in range(n_classes):
            totals[f] += weight * belief[f]
            for c in cells:
                sums[c, f] += weight * belief[f]
        posterior.append(belief)
        log_likelihoods.append(norm)
    scale = np.ones(len(rows)) if row_weight is None else np.asarray(row_weight)
    return float(scale @ log_likelihoods), totals, sums, np.array(posterior), np.array(log_likelihoods)
