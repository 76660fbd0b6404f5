"""First topics from word pairs: one regularised, marginal-scaled spectrum, its anchors, their words.

Paper     Huang, Kakade, Kong & Valiant 2018, step 3(a) of Algorithm 1 with one decomposition for all words
          (`core/spectral.py` says how it differs); anchors as in `core/spectral.py`
Needs     documents with two tokens at least; for every topic a group of words nearly its own; K at most the rank
Promises  with exact pair frequencies and one pure group of words per topic, the topics exactly
Differs   the pair matrix is applied, never formed: two passes over the documents' cells for each of ARPACK's vectors;
          memberships are barycentric coordinates cut at zero, not the nearest point of the simplex: as good a start
          for EM, at a hundredth of the time for forty topics; a weight `BLEND` of the marginal is mixed in, since EM
          cannot lift a probability from zero

Symbols   paper   here          shape      meaning
          B_N/N   pairs         (M, M)     frequencies of word pairs inside documents
          ρ̂       row_marginal  (M,)       frequencies of words
          D       topics        (M, K)     first topics
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.spa import successive_projection
from latentfit.core.spectral import CENTRES, DENSE_BELOW, ScaledSVD, peak_signs, start_vector, weighted_centres
from latentfit.topics.init.two_topics import two_topics, weight_from_triples
from latentfit.topics.moments import WordPairs

BLEND = 0.1
"""Weight of the words' marginal in every initial topic."""


def word_spectrum(pairs: WordPairs, rank: int, *, regularise: float = 1.0, tol: float = 0.0) -> ScaledSVD:
    """Leading eigenpairs, largest value first, of D^{-1/2} (C/N − ρρᵀ) D^{-1/2} with D = ρ + regularise · mean ρ.

    Topics make word pairs positive definite, so negative values are noise and not asked for.
    """
    size = pairs.matrix.shape[1]
    if not 0 <= rank < size:
        raise NotIdentifiableError(
            f"{rank + 1} topics are asked of {size} words, whose pairs tell {size} apart; ask for fewer"
        )
    total = pairs.total
    marginal = pairs.row_sums / total if total > 0 else np.full(size, 1 / size)  # (6)
    scale = marginal + regularise * marginal.mean()
    root = 1 / np.sqrt(scale)
    if rank == 0 or total <= 0:
        return _found(np.zeros(rank), np.zeros((size, rank)), marginal, scale)

    def product(vectors: Floats) -> Floats:
        turned = root[:, None] * vectors.reshape(size, -1)
        out = pairs.product(turned) / total - np.outer(marginal, marginal @ turned)
        return np.asarray(root[:, None] * out).reshape(vectors.shape)

    if size < DENSE_BELOW or rank >= size - 1:
        full = product(np.eye(size))
        values, vectors = np.linalg.eigh((full + full.T) / 2)
    else:
        operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
        values, vectors = eigsh(operator, k=rank, which="LA", v0=start_vector(size), tol=tol)
    order = np.argsort(-values, kind="stable")[:rank]
    return _found(values[order], vectors[:, order], marginal, scale)


def _found(values: Floats, vectors: Floats, marginal: Floats, scale: Floats) -> ScaledSVD:
    vectors = vectors * peak_signs(vectors)
    return ScaledSVD(values, vectors, vectors, marginal, marginal, scale, scale, True, True)


def first_topics(spectrum: ScaledSVD, n_topics: int) -> Floats:
    """Topics (M, K) from the first K − 1 vectors of a spectrum."""
    marginal = spectrum.row_marginal
    points = spectrum.embedding()[0][:, : n_topics - 1] * np.sqrt(np.maximum(spectrum.values[: n_topics - 1], 0.0))
    lifted = np.column_stack([np.ones(len(points)), points])
    centres = weighted_centres(points, marginal, CENTRES * n_topics) if n_topics > 1 else points[:1]
    corners = np.column_stack([np.ones(len(centres)), centres])
    chosen = successive_projection(corners.T, n_topics)
    inside = lifted @ np.linalg.pinv(corners[chosen])  # P(topic | word) where the anchors are pure
    joint = np.maximum(inside, 0.0) * marginal[:, None]
    sums = joint.sum(axis=0)
    topics = np.tile(marginal[:, None], (1, n_topics))  # fewer anchors than topics: the marginal fills the places
    alive = np.flatnonzero(sums > 0)
    topics[:, alive] = (1 - BLEND) * joint[:, alive] / sums[alive] + BLEND * marginal[:, None]
    return np.asarray(topics / topics.sum(axis=0))


def topics_by_triples(counts: sp.csr_array, spectrum: ScaledSVD) -> Floats | None:
    """Two topics (M, 2) with the weights that triples of words ask for (Corollary 1.3); None without triples."""
    marginal, value = spectrum.row_marginal, max(float(spectrum.values[0]), 0.0)
    lift = spectrum.embedding()[0][:, 0] * np.sqrt(value)
    weight = weight_from_triples(counts, lift)
    if weight is None:
        return None
    return np.asarray((1 - BLEND) * two_topics(marginal, marginal * lift, weight).topics.T + BLEND * marginal[:, None])
