"""Belief propagation as written in Decelle et al. 2011 and Yan et al. 2014, one node at a time; and all labellings."""

from __future__ import annotations

import itertools

import numpy as np


def sweep(matrix, mass, prior, affinity, messages, posterior, groups, damping=0.0):
    """One sweep over groups of nodes; `messages` is {(sender, receiver): (K,)}, changed like `posterior` in place."""
    for group in groups:
        field = affinity @ (mass @ posterior)
        said, now = {}, {}
        for i in group:
            heard = {j: (affinity ** matrix[i, j]) @ messages[j, i] for j in np.flatnonzero(matrix[i])}
            weight = prior * np.exp(-mass[i] * field)
            whole = weight * np.prod([*heard.values(), np.ones(len(prior))], axis=0)
            now[i] = whole / whole.sum()
            for j in heard:
                rest = weight * np.prod([heard[k] for k in heard if k != j] + [np.ones(len(prior))], axis=0)
                said[i, j] = (1 - damping) * rest / rest.sum() + damping * messages[i, j]
        messages.update(said)
        for i, belief in now.items():
            posterior[i] = belief


def bethe(matrix, mass, prior, affinity, messages, posterior):
    """Bethe's log Z, and the expected weight of edges between blocks, from both ends."""
    n, K = posterior.shape
    held = mass @ posterior
    field = affinity @ held
    value, pairs = field @ held / 2, np.zeros((K, K))
    for i in range(n):
        heard = [(affinity ** matrix[i, j]) @ messages[j, i] for j in np.flatnonzero(matrix[i])]
        value += np.log((prior * np.exp(-mass[i] * field) * np.prod([*heard, np.ones(K)], axis=0)).sum())
    for i, j in itertools.combinations(range(n), 2):
        if matrix[i, j]:
            joint = affinity ** matrix[i, j] * np.outer(messages[i, j], messages[j, i])
            value -= np.log(joint.sum())
            both = matrix[i, j] * joint / joint.sum()
            pairs += both + both.T
    return value, pairs


def exact(matrix, mass, prior, affinity):
    """log Z and beliefs by summing over all labellings, every pair of nodes with its Poisson factor."""
    n, K = len(matrix), len(prior)
    total, posterior = 0.0, np.zeros((n, K))
    for labels in itertools.product(range(K), repeat=n):
        at = np.array(labels)
        rate = affinity[np.ix_(at, at)]
        upper = np.triu_indices(n, 1)
        log = np.log(prior[at]).sum()
        log += (matrix * np.log(rate) - np.outer(mass, mass) * rate)[upper].sum()
        weight = np.exp(log)
        total += weight
        posterior[np.arange(n), at] += weight
    return np.log(total), posterior / total
