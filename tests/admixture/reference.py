"""Literal twins of the admixture kernels: loops over people, SNPs and populations, written from the model alone."""

from __future__ import annotations

import itertools
import math

import numpy as np


def log_likelihood(calls, proportions, frequencies):
    """Sum over observed calls of g log p + (2 - g) log(1 - p), per person."""
    out = np.zeros(len(proportions))
    for j, row in enumerate(calls):
        for i, g in enumerate(row):
            if g < 3:
                p = sum(proportions[i][k] * frequencies[j][k] for k in range(proportions.shape[1]))
                out[i] += int(g) * math.log(p) + (2 - int(g)) * math.log(1 - p)
    return out


def curvature(calls, proportions, frequencies, squares=False):
    """Value, gradient and minus the Hessian of every person's objective in its proportions."""
    n, K = proportions.shape
    value, gradient, hessian = np.zeros(n), np.zeros((n, K)), np.zeros((n, K, K))
    for j, row in enumerate(calls):
        for i, g in enumerate(row.tolist()):
            if g == 3:
                continue
            p = float(proportions[i] @ frequencies[j])
            if squares:
                value[i] -= 0.5 * (g / 2 - p) ** 2
                slope, bend = g / 2 - p, 1.0
            else:
                value[i] += g * math.log(p) + (2 - g) * math.log(1 - p)
                slope, bend = g / p - (2 - g) / (1 - p), g / p**2 + (2 - g) / (1 - p) ** 2
            for k in range(K):
                gradient[i, k] += slope * frequencies[j, k]
                for l in range(K):
                    hessian[i, k, l] += bend * frequencies[j, k] * frequencies[j, l]
    return value, gradient, hessian


def newton_step(row, proportions, frequencies, floor):
    """The box-constrained Newton step of one SNP's frequencies, by trying every set of bounds; halved until uphill."""
    K = len(frequencies)
    value, gradient, hessian = (
        part[0] for part in curvature(row[:, None], frequencies[None, :], proportions)
    )  # the model is symmetric: a SNP's row of F plays the person, people play SNPs
    best, best_value = frequencies, -math.inf
    for bounds in itertools.product((None, floor, 1 - floor), repeat=K):
        held = np.array([bound is not None for bound in bounds])
        x = np.array([0.0 if bound is None else bound for bound in bounds])
        if not held.all():
            right = gradient + hessian @ frequencies - hessian[:, held] @ x[held]
            x[~held] = np.linalg.solve(hessian[np.ix_(~held, ~held)], right[~held])
        if (x < floor - 1e-15).any() or (x > 1 - floor + 1e-15).any():
            continue
        d = x - frequencies
        model = gradient @ d - 0.5 * d @ hessian @ d
        if model > best_value:
            best, best_value = x, model
    for _ in range(8):
        if log_likelihood(row[None, :], proportions, best[None, :]).sum() >= value:
            return best
        best = 0.5 * (best + frequencies)
    return frequencies
