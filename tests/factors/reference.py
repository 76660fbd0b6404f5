"""Hidden switches from the paper alone: dense m³ moments, loops over states, Algorithms 1 and 2 to the letter."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.stats import norm


def moments(X):
    """μ, M and 𝓜 of (9), by loops over rows."""
    n, m = X.shape
    mu, M, T = np.zeros(m), np.zeros((m, m)), np.zeros((m, m, m))
    for x in X:
        mu += x / n
        M += np.multiply.outer(x, x) / n
        T += np.multiply.outer(np.multiply.outer(x, x), x) / n
    return mu, M, T


def corrected(mu, M, T, sigma):
    """M_σ and 𝓜_σ of (17)."""
    m = len(mu)
    out = T.copy()
    for i in range(m):
        e = np.eye(m)[i]
        for one in ((mu, e, e), (e, mu, e), (e, e, mu)):
            out -= sigma**2 * np.einsum("i,j,k->ijk", *one)
    return M - sigma**2 * np.eye(m), out


def whitened(X, d, sigma):
    """K (m, d) and 𝓦_σ of (19), signs of K by the mean."""
    mu, M, T = moments(X)
    M, T = corrected(mu, M, T, sigma)
    values, vectors = np.linalg.eigh(M)
    top = np.argsort(-values)[:d]
    K = np.empty((len(mu), d))
    for column, at in enumerate(top):
        v = vectors[:, at]
        K[:, column] = v * (1 if v @ mu >= 0 else -1) / np.sqrt(values[at])
    return K, np.einsum("abc,ai,bj,ck->ijk", T, K, K, K)


def normal_cdf(z):
    return (1 + math.erf(z / math.sqrt(2))) / 2


def ks_score(t, eigenvalue, spread):
    """Δ_n (30), looking at both sides of every jump."""
    t = sorted(t)
    p, worst = min(1 / eigenvalue**2, 1.0), 0.0
    for rank, value in enumerate(t):
        G = (1 - p) * normal_cdf(value / spread) + p * normal_cdf((value - 1) / spread)
        worst = max(worst, abs(G - rank / len(t)), abs(G - (rank + 1) / len(t)))
    return worst


def is_binary(t, tolerance):
    return all(min(abs(value), abs(value - 1)) <= tolerance for value in t)


def algorithm_2(X, pairs, K, tolerance=1e-6):
    """Step 6 on: candidates, the binary ones, their pseudo-inverse."""
    kept = []
    for u, eigenvalue in pairs:
        v = K @ u / eigenvalue
        if eigenvalue > 1 - 1e-9 and is_binary(X @ v, tolerance):
            kept.append(v)
    return np.linalg.pinv(np.array(kept).T)


def algorithm_1(X, pairs, K, sigma, tau):
    """Step 6 on: candidates, scores, the d smallest, their pseudo-inverse."""
    scored = []
    for u, eigenvalue in pairs:
        if eigenvalue > 1 - tau:
            v = K @ u / eigenvalue
            scored.append((ks_score(X @ v, eigenvalue, sigma * np.linalg.norm(v)), tuple(v)))
    scored.sort()
    best = np.array([v for _, v in scored[: K.shape[1]]]).T
    return np.linalg.pinv(best)


def state_weights(x, W, log_prior, sigma2):
    """P(h, x) for all h, by a loop over states; state number has switch i in bit i."""
    d = len(W)
    out = np.empty(2**d)
    for code in range(2**d):
        h = np.array([(code >> i) & 1 for i in range(d)])
        density = norm.logpdf(x, loc=h @ W, scale=np.sqrt(sigma2)).sum()
        out[code] = log_prior[code] + density
    return out


def weighted_least_squares(X, W, sigma, K=6):
    """Appendix K, row by row."""
    d = len(W)
    rows, targets, weights = [], [], []
    for x in X:
        found = []
        for h in itertools.product((0, 1), repeat=d):
            found.append((-((x - np.array(h) @ W) ** 2).sum() / (2 * sigma**2), h))
        found.sort(reverse=True)
        best = found[:K]
        share = np.exp([value - best[0][0] for value, _ in best])
        for w, (_, h) in zip(share / share.sum(), best, strict=True):
            rows.append(h)
            targets.append(x)
            weights.append(np.sqrt(w))
    H, Y, w = np.array(rows, float), np.array(targets), np.array(weights)[:, None]
    return np.linalg.lstsq(H * w, Y * w, rcond=None)[0]
