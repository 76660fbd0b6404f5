"""Reliabilities of binary raters from the ratio of two eigenvectors.

Paper     Dalvi, Dasgupta, Kumar & Rastogi (2013), "Aggregating crowdsourced binary ratings", WWW: the ratio
          of eigenvectors on normalised matrices
Needs     two classes; raters who err alike on both classes; raters connected through shared tasks; the crowd
          right more often than wrong
Promises  for any assignment of raters to tasks an error governed by the spectral gap (the expansion) of the
          graph of raters who share a task
Differs   each connected component of that graph is solved by itself (the paper assumes one: elsewhere the
          ratio is 0 / 0); components of one or two raters, whose reliabilities nothing determines, vote with equal
          weight; the sign comes from the votes, by component
Objective the best rank-one fit by eigenvectors: E[R] = G ∘ wwᵀ, so R's leading vector over G's is w

Symbols   paper  here     shape   meaning
          U      A        (n, M)  ratings +1 / −1, 0 where a rater gave no label
          O/N    R        (M, M)  agreements less disagreements, per shared task
          G      G        (M, M)  1 where two raters share a task
          w      weights  (M,)    2 · reliability − 1, up to one factor per component
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import aslinearoperator

from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels
from latentfit.labels.init.ghosh import binary_ratings, leading_eigenvector, soft_binary
from latentfit.labels.moments import check_pair_memory

SMALLEST_COMPONENT = 3
"""Fewer raters than this share no triangle: any split of their agreement into reliabilities fits."""

RATIO_FLOOR = 1e-9
"""Smallest entry of G's vector that may divide, relative to the largest; Perron's theorem keeps a connected
part's entries positive, so only rounding is below it."""


def factor_eigenratio(labels: Labels, *, memory: int | None = None) -> Floats:
    """Soft labels (n, 2) of votes weighted by the eigenvector ratio; a DataError for K > 2.

    Refuses when the list of worker pairs, which R and G are, would not fit `memory` bytes.
    """
    A = binary_ratings(labels, "EigenRatio")
    if labels.n_classes < 2 or labels.n_labels == 0:
        return np.full((labels.n_rows, labels.n_classes), 1 / labels.n_classes)
    check_pair_memory(labels, memory)
    weights = rater_weights(A)
    return soft_binary(A @ weights, abs(A) @ np.abs(weights))


def rater_weights(A: sp.csr_array) -> Floats:
    """Weight of every rater (M,), positive for those who side with the votes of their part."""
    shared = (abs(A).T @ abs(A)).tocsr()
    inverse, G = shared.copy(), shared.copy()
    inverse.data, G.data = 1 / shared.data, np.ones_like(shared.data)
    R = ((A.T @ A) * inverse).tocsr()
    support = A.T @ A.sum(axis=1)  # how much each rater sides with the votes
    n_components, component = connected_components(G, directed=False)
    weights = np.ones(A.shape[1])
    for at in np.flatnonzero(np.bincount(component, minlength=n_components) >= SMALLEST_COMPONENT):
        raters = np.flatnonzero(component == at)
        weights[raters] = _ratio(R[raters][:, raters], G[raters][:, raters], support[raters])
    return weights


def _ratio(R: sp.csr_array, G: sp.csr_array, support: Floats) -> Floats:
    above = leading_eigenvector(aslinearoperator(R), R.shape[0])
    below = np.abs(leading_eigenvector(aslinearoperator(G), G.shape[0]))
    ratio = above / np.maximum(below, RATIO_FLOOR * below.max())
    return np.asarray(-ratio if ratio @ support < 0 else ratio)
