"""How many topics? Directions of word pairs that hold on documents they have not seen; beyond that, held-out words.

Word pairs of K topics have rank K. Directions u_1, u_2, … (besides the marginal) are found on one half of the documents
and asked on the other half whether they add rank: the form t_j = u_jᵀ C u_j less what u_1 … u_{j−1} explain of it (a
Schur complement, zero in expectation when the rank is used up, and biased downwards only), summed over documents and
divided by its standard error. Both halves take both parts; K − 1 is the number of directions before the first that does
not stand out, if those behind it, taken together, do not stand out either: then the directions have come to an end (one
that few documents carry does not stand out, however strong: of n alike documents the sum is √n standard errors). On
real texts they do not end, or only because documents are few: vocabulary drifts, authors differ, and prediction goes on
to gain a little with every topic. Then the number is a practical one: the smallest of `grid` that has `enough` of what
the best of them gains over one topic on documents left out. It decides where directions do not end, or end at more than
`most_factor` times it; so it does not jump with the number of documents. Duplicates of documents are left aside, since
a duplicate in both halves proves anything.

A limit on the number never changes which question is asked; it only cuts the answer, and that is said. Documents are
split by what they say, not by the seed of the fit, so that the number does not depend on it; `plausible` says which
numbers other documents of the kind might have given.

Differs from the paper's rank-1-against-2 question (Section 5) by asking for any K, and by the documents as the units
that are left out: words of one document are not independent pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.progress import candidate_numbers
from latentfit.topics.data.documents import Documents
from latentfit.topics.em import DEFAULT, FEWEST, MOST_TOKENS, SHORT_ITERATIONS, TopicPrior, TopicSteps, begin, completed
from latentfit.topics.init import first_topics, word_spectrum
from latentfit.topics.moments import WordPairs

STANDS_OUT = 2.5
"""Standard errors above zero by which a direction must hold on the other half."""


@dataclass(frozen=True)
class SelectionSettings:
    """Tuned constants of the choice of the number of topics."""

    most_directions: int = 29  # directions asked for: more than thirty topics are chosen by held-out words
    # Directions behind the last that stands out that say whether the end is reached, where more could have been
    # asked.
    least_rest: int = 5
    grid: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20, 28, 40)  # numbers of topics tried on held-out words
    enough: float = 0.8  # proportion of the best prediction's gain over one topic that the chosen number must reach
    # Directions that come to an end count up to so many times the practical number: topics of simulated documents
    # stay below it, while few documents of a real text show two to three times as many directions as help to predict
    # it.
    most_factor: int = 2
    fewest_documents: int = 20  # with fewer documents, halves are too small to compare numbers: one topic
    # Documents are left out a fifth at a time, each once: a number that hangs on which are left out is nobody's.
    folds: int = 5
    # Resamples of the documents left out, and the proportion of them from which a number is plausible.
    resamples: int = 200
    plausible: float = 0.1


SELECTION = SelectionSettings()


@dataclass(frozen=True)
class TopicNumber:
    """The chosen number, the directions' standard scores, and held-out nats per token where they decided."""

    chosen: int
    directions: list[float]
    heldout: dict[int, float] = field(default_factory=dict)
    plausible: tuple[int, ...] = ()  # numbers that other documents left out might have given
    unlimited: int | None = None  # what a limit cut; None: no limit was in the way

    @property
    def rank(self) -> int:
        """Topics that the directions show: one more than stand out."""
        return 1 + leading(self.directions)


def leading(scores: list[float]) -> int:
    """How many scores stand out before the first that does not."""
    return next((at for at, score in enumerate(scores) if score < STANDS_OUT), len(scores))


def ended(scores: list[float]) -> bool:
    """Whether the directions come to an end: what follows the last that stands out does not, taken together."""
    rest = scores[leading(scores) :]
    enough = len(rest) >= (SELECTION.least_rest if len(scores) == SELECTION.most_directions else 1)
    return enough and bool(sum(rest) / np.sqrt(len(rest)) < STANDS_OUT)


def one_topic(scores: list[float]) -> bool:
    """Whether nothing refutes one topic: the first direction does not stand out, nor do all of them together."""
    return not scores or (leading(scores) == 0 and ended(scores))


def direction_scores(documents: Documents, most: int, seed: int) -> list[float]:
    """Standard scores of up to `most` directions; about normal where there is nothing, large where there is a topic."""
    used = documents.take(documents.lengths >= 2)
    most = min(most, documents.n_words - 2, used.n_documents // 4)
    if used.n_documents < SELECTION.fewest_documents or most < 1:
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
    number = _unlimited(documents.distinct(), seed, n_jobs)
    if most is None or number.chosen <= most:
        return number
    return replace(number, chosen=most, unlimited=number.chosen)


def _unlimited(documents: Documents, seed: int, n_jobs: int | None) -> TopicNumber:
    scores = direction_scores(documents, SELECTION.most_directions, seed)
    number = TopicNumber(1 + leading(scores), scores)
    few = one_topic(scores) or documents.n_documents < FEWEST
    if few or (
        ended(scores) and number.rank <= SELECTION.most_factor * SELECTION.grid[1]
    ):  # the practical number is no less than that
        return number
    return _by_held_out_words(documents, scores, seed, n_jobs)


def _by_held_out_words(documents: Documents, scores: list[float], seed: int, n_jobs: int | None) -> TopicNumber:
    values, tokens, grid = _predicted(documents, seed, n_jobs)
    best, chosen = _pick(values.sum(axis=0), grid)
    rank = 1 + leading(scores)
    # prediction may not tell any number from one topic, and the directions have refuted one
    if best == 0 or (ended(scores) and rank <= SELECTION.most_factor * grid[chosen]):
        return TopicNumber(rank, scores)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=SELECTION.resamples) @ values
    picks = [grid[_pick(line, grid)[1]] for line in drawn]
    plausible = tuple(number for number in grid if picks.count(number) >= SELECTION.plausible * SELECTION.resamples)
    heldout = {number: float(value) for number, value in zip(grid, values.sum(axis=0) / max(tokens, 1.0), strict=True)}
    return TopicNumber(grid[chosen], scores, heldout, plausible)


def _pick(values: Floats, grid: list[int]) -> tuple[int, int]:
    """Places of the number that predicts best and of the first that has enough of its gain over one topic."""
    best = int(values.argmax())
    return best, int((values >= values[0] + SELECTION.enough * (values[best] - values[0])).argmax())


def _predicted(documents: Documents, seed: int, n_jobs: int | None) -> tuple[Floats, float, list[int]]:
    """Log-likelihoods (document left out, number) under fits to the others, the tokens predicted, the numbers."""
    order = np.argsort(documents.hashes(seed), kind="stable")
    if documents.total > MOST_TOKENS:
        order = order[: max(int(len(order) * MOST_TOKENS / documents.total), FEWEST)]
    fifth = np.arange(len(order)) % SELECTION.folds
    most = min(SELECTION.grid[-1], documents.n_words - 1, int((fifth != 0).sum()) - 1)
    grid = [number for number in SELECTION.grid if number <= most]
    folds = []
    for fold in range(SELECTION.folds):
        fitted, other = (documents.take(np.sort(order[which])) for which in (fifth != fold, fifth == fold))
        folds.append((fitted, word_spectrum(WordPairs.of(fitted), grid[-1] - 1, tol=1e-6), other.split(0.5, seed)))
    values = []
    for number in candidate_numbers(grid, "topics"):
        fold_values = []
        for fitted, spectrum, halves in folds:
            steps = TopicSteps.of(fitted, TopicPrior.of(fitted, number, *DEFAULT), n_jobs)
            start = begin(steps, first_topics(spectrum, number))
            topics = em(steps, start, max_iter=SHORT_ITERATIONS, tol=1e-4, accelerate=True).params.topics
            fold_values.append(completed(halves, topics, steps.prior.a, n_jobs)[0])
        values.append(np.concatenate(fold_values))
    return np.column_stack(values), sum(halves[1].total for *_, halves in folds), grid
