"""How many topics? Directions of word pairs that hold on documents they have not seen; beyond that, held-out words.

Word pairs of K topics have rank K. Directions u_1, u_2, … (beside the marginal) are found on one half of the documents
and asked on the other half whether they add rank: the form t_j = u_jᵀ C u_j less what u_1 … u_{j−1} explain of it (a
Schur complement, zero in expectation when the rank is used up, and biased downwards only), summed over documents and
divided by its standard error. Both halves take both parts; K − 1 is the number of directions before the first that does
not stand out. On real texts every direction stands out for long: vocabulary drifts, authors differ, and prediction goes
on to gain a little with every topic. Then the number is a practical one: the smallest that has `ENOUGH` of what the
best number gains over one topic on documents left out.

Differs from the paper's rank-1-against-2 question (Section 5) by asking for any K, and by the documents as the units
that are left out: words of one document are not independent pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tacit.data.documents import Documents
from tacit.factor.topic_start import first_topics, word_spectrum
from tacit.kernels import Floats
from tacit.moments.word_pairs import WordPairs
from tacit.progress import tried
from tacit.refine.em import em
from tacit.refine.topic_prior import DEFAULT, PASSES, completion, left_out
from tacit.refine.topic_starts import begin
from tacit.refine.topics import TopicPrior, TopicSteps

STANDS_OUT = 2.5
"""Standard errors above zero by which a direction must hold on the other half."""
MOST_DIRECTIONS = 29
"""Directions asked for: more than thirty topics are chosen by held-out words."""
GRID = (1, 3, 5, 7, 10, 14, 20, 28, 40)
"""Numbers of topics tried on held-out words."""
ENOUGH = 0.8
"""Share of the best prediction's gain over one topic that the chosen number must reach."""
FEWEST_DOCUMENTS = 20
"""Half of fewer documents than this tells nothing: one topic."""


@dataclass(frozen=True)
class TopicNumber:
    """The chosen number, the directions' standard scores, and held-out nats per token where they decided."""

    chosen: int
    directions: list[float]
    heldout: dict[int, float] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Topics that the directions show: one more than stand out."""
        return 1 + leading(self.directions)


def leading(scores: list[float]) -> int:
    """How many scores stand out before the first that does not."""
    return next((at for at, score in enumerate(scores) if score < STANDS_OUT), len(scores))


def direction_scores(documents: Documents, most: int, seed: int) -> list[float]:
    """Standard scores of up to `most` directions; about normal where there is nothing, large where there is a topic."""
    used = documents.take(documents.lengths >= 2)
    most = min(most, documents.n_words - 2, used.n_documents // 4)
    if used.n_documents < FEWEST_DOCUMENTS or most < 1:
        return []
    first = used.every_other(seed)
    scores = np.zeros(most)
    for half in (first, ~first):
        scores += _asked(used.take(half), used.take(~half), most)
    return [float(score) for score in scores / np.sqrt(2)]


def _asked(found_on: Documents, asked_on: Documents, most: int) -> Floats:
    """Scores (most,) on one half of the directions found on the other."""
    spectrum = word_spectrum(WordPairs.of(found_on), most, tol=1e-6)
    directions = spectrum.left / np.sqrt(spectrum.row_scale)[:, None]
    pairs = WordPairs.of(asked_on)
    directions = directions - (pairs.row_sums / pairs.total) @ directions
    gram = directions.T @ pairs.product(directions)
    left_over = directions @ _schur(gram)
    forms = pairs.forms(left_over)
    error = np.sqrt((forms**2).sum(axis=0))
    return np.where(error > 0, forms.sum(axis=0) / np.where(error > 0, error, 1.0), 0.0)


def _schur(gram: Floats) -> Floats:
    """Unit upper triangular C: column j is direction j less what the ones before it explain under `gram`."""
    size = len(gram)
    turned = np.eye(size)
    for j in range(1, size):
        before = gram[:j, :j] + 1e-9 * max(float(np.trace(gram[:j, :j])), 0.0) * np.eye(j)
        turned[:j, j] = -np.linalg.lstsq(before, gram[:j, j], rcond=None)[0]
    return turned


def choose_topics(
    documents: Documents, seed: int, *, most: int | None = None, n_jobs: int | None = None
) -> TopicNumber:
    """A number of topics for documents, at most `most`."""
    limit = min(MOST_DIRECTIONS, (most or MOST_DIRECTIONS + 1) - 1)
    scores = direction_scores(documents, limit, seed)
    rank = 1 + leading(scores)
    if most is not None and rank >= most:
        return TopicNumber(most, scores)
    if rank <= len(scores) or len(scores) < MOST_DIRECTIONS:
        return TopicNumber(rank, scores)
    return _by_held_out_words(documents, scores, seed, most, n_jobs)


def _by_held_out_words(
    documents: Documents, scores: list[float], seed: int, most: int | None, n_jobs: int | None
) -> TopicNumber:
    fitted, other = left_out(documents, seed)
    most = min(most or GRID[-1], documents.n_words - 1, fitted.n_documents - 1)
    grid = [number for number in GRID if number <= most]
    spectrum = word_spectrum(WordPairs.of(fitted), grid[-1] - 1, tol=1e-6)
    found: dict[int, float] = {}
    for number in tried(grid, "topics"):
        a, b = DEFAULT
        steps = TopicSteps.of(fitted, TopicPrior.of(fitted, number, a, b), n_jobs)
        start = begin(steps, first_topics(spectrum, number))
        topics = em(steps, start, max_iter=PASSES, tol=1e-4, accelerate=True).params.topics
        values, tokens = completion(other, topics, steps.prior.a, seed, n_jobs)
        found[number] = float(values.sum() / max(tokens, 1.0))
        best = max(found, key=lambda one: found[one])
        # Two numbers past the best; not past one topic, which the directions have refuted: few of many gain nothing.
        if len(found) > 2 and grid[0] < best < list(found)[-2]:
            break
    wanted = found[grid[0]] + ENOUGH * (found[best] - found[grid[0]])
    return TopicNumber(next(number for number in grid if found[number] >= wanted), scores, found)
