"""Literal twins of the hidden Markov kernels: loops over steps and states, written from the model alone."""

from __future__ import annotations

import itertools
import math

import numpy as np


def emission(B, k, symbol):
    """P(symbol | state); a gap says nothing."""
    return 1.0 if symbol < 0 else float(B[k][symbol])


def forward_backward(codes, offsets, start, A, B):
    """Expected starts, transitions and emissions, log-likelihood of each sequence, posterior of each step."""
    K, M = B.shape
    starts, moves, emits = np.zeros(K), np.zeros((K, K)), np.zeros((K, M))
    told, posterior = [], np.zeros((len(codes), K))
    for s in range(len(offsets) - 1):
        x = codes[offsets[s] : offsets[s + 1]].tolist()
        if not x:
            told.append(0.0)
            continue
        alpha = [[start[k] * emission(B, k, x[0]) for k in range(K)]]
        for t in range(1, len(x)):
            alpha.append([sum(alpha[-1][i] * A[i][k] for i in range(K)) * emission(B, k, x[t]) for k in range(K)])
        beta = [[1.0] * K]
        for t in range(len(x) - 2, -1, -1):
            beta.insert(0, [sum(A[k][j] * emission(B, j, x[t + 1]) * beta[0][j] for j in range(K)) for k in range(K)])
        whole = sum(alpha[-1])
        told.append(math.log(whole))
        for t in range(len(x)):
            for k in range(K):
                p = alpha[t][k] * beta[t][k] / whole
                posterior[offsets[s] + t, k] = p
                if x[t] >= 0:
                    emits[k, x[t]] += p
                if t == 0:
                    starts[k] += p
                else:
                    for i in range(K):
                        moves[i, k] += alpha[t - 1][i] * A[i][k] * emission(B, k, x[t]) * beta[t][k] / whole
    return starts, moves, emits, np.array(told), posterior


def best_path(codes, start, A, B):
    """The most probable path of one short sequence, by looking at all of them."""
    K = len(start)
    best, most = None, -math.inf
    for path in itertools.product(range(K), repeat=len(codes)):
        value = math.log(start[path[0]])
        value += sum(math.log(A[i][j]) for i, j in itertools.pairwise(path))
        value += sum(math.log(emission(B, k, symbol)) for k, symbol in zip(path, codes.tolist(), strict=True))
        if value > most + 1e-12:
            best, most = path, value
    return list(best), most
