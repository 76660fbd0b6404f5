"""Corollary 1.3: two topics from N bigrams, the error of topics and weights against N/M for growing dictionaries.

The corollary is that of Huang, Kakade, Kong & Valiant 2018, who have no figure of it.

Documents have one topic each (Definition 1.2), the first with probability .3. Dictionaries are Example 1 (every word
occurs in both topics: no anchors) and two Zipf laws over orders of their own. Pairs determine ρ and Δ only; the weight
comes from `TRIPLES` documents of three words, a number that does not grow with M, or from anchors. A linear sample size
shows as curves of different M that coincide, or fall, at the same N/M.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from latentfit.core.counts import Counts, read_counts
from latentfit.core.kernels import Floats
from latentfit.core.spectral import scaled_svd
from latentfit.engine.limits import one_blas_thread
from latentfit.pairs.em import shrink_pairs
from latentfit.pairs.init import rank_two
from latentfit.pairs.simulate import draw_pairs, pairs
from latentfit.topics.init import TwoTopics, two_topics, weight_from_anchors, weight_from_triples
from latentfit.topics.simulate import draw_documents
from reproduction.draw import draw_against
from reproduction.table import Curves, Outcome, Row, Run, add_line, mean_row

Lifts = tuple[Floats, Floats]

WEIGHT = 0.3
TRIPLES = 20_000
WORLDS = ("example1", "zipf")
SIZES, QUICK_SIZES = (500, 2_000, 10_000, 50_000), (500, 2_000)
RATIOS, QUICK_RATIOS = (5, 10, 20, 50, 100), (5, 20)
REPEATS = 5
ANCHOR_TAIL = 0.005
"""Share of the counts beyond each end of Δ/ρ: single words at the very end are noise."""
SVD, BAYES, ANCHORS = "scaled SVD, triples", "empirical Bayes, triples", "empirical Bayes, anchors"
TOPICS, WEIGHTS = "mean ‖p − p̂‖₁, ‖q − q̂‖₁", "|π − π̂|"


def raw_lifts(counts: Counts) -> Lifts:
    """ρ and Δ/ρ of one regularised scaled SVD, Δ/ρ cut at ±√(π/(1 − π))'s bound for weights above `LEAST_WEIGHT`."""
    found = scaled_svd(counts.matrix, 1, symmetric=True, centred=True)
    lift = found.embedding()[0][:, 0] * np.sqrt(max(float(found.values[0]), 0.0))
    return found.row_marginal, np.clip(lift, -10, 10)


def shrunk_lifts(counts: Counts) -> Lifts:
    """ρ of B and Δ/ρ by empirical Bayes, which finds lifts beside ρ: centred, as Δ adds up to nothing."""
    found = shrink_pairs(counts, scaled_svd(counts.matrix, 1, symmetric=True, centred=True))
    rho = rank_two((found.marginal, found.marginal), (found.lift, found.lift), found.sign).marginal
    return rho, found.lift - rho @ found.lift


def ends(rho: Floats, lift: Floats) -> tuple[float, float]:
    """The lift below which, and above which, a share `ANCHOR_TAIL` of the counts lies."""
    order = np.argsort(lift, kind="stable")
    mass = np.cumsum(rho[order]) / rho.sum()
    low, high = np.searchsorted(mass, (ANCHOR_TAIL, 1 - ANCHOR_TAIL))
    return float(lift[order[low]]), float(lift[order[min(high, len(order) - 1)]])


def by_triples(lifts: Lifts, triples: sp.csr_array) -> TwoTopics:
    rho, lift = lifts
    weight = weight_from_triples(triples, lift)
    return two_topics(rho, rho * lift, 0.5 if weight is None else weight)


def by_anchors(lifts: Lifts, _: sp.csr_array) -> TwoTopics:
    return two_topics(lifts[0], lifts[0] * lifts[1], weight_from_anchors(*ends(*lifts)))


METHODS: dict[str, tuple[Callable[[Counts], Lifts], Callable[[Lifts, sp.csr_array], TwoTopics]]] = {
    SVD: (raw_lifts, by_triples),
    BAYES: (shrunk_lifts, by_triples),
    ANCHORS: (shrunk_lifts, by_anchors),
}


def topics(run: Run) -> Outcome:
    """Corollary 1.3: the table and the curves of topic errors by empirical Bayes."""
    sizes, ratios = (QUICK_SIZES, QUICK_RATIOS) if run.quick else (SIZES, RATIOS)
    rows: list[Row] = []
    columns: dict[str, list[object]] = {"N/M": [], "method": [], "error": []}
    for world in WORLDS:
        for size in sizes:
            for ratio in ratios:
                name = f"topics {world} {size} {ratio}"
                found = [run.piece(f"{name} {s}", partial(one, world, size, ratio, s)) for s in run.seeds(REPEATS, 1)]
                for method in METHODS:
                    for measure, at in ((TOPICS, 0), (WEIGHTS, 1)):
                        row = Row(world, method, f"M = {size}, N/M = {ratio}", measure)
                        rows.append(mean_row(row, [f[method][at] for f in found], [f[method][2] for f in found]))
                add_line(columns, ratio, f"{world}, M = {size}", float(np.mean([f[BAYES][0] for f in found])))
            run.say(f"{world}, M = {size}")
    notes = [
        f"one topic a document, weights {WEIGHT} and {1 - WEIGHT:g}, {TRIPLES:,} documents of three words for every M",
        "Example 1 has no words of one topic only: anchors cannot know its weight",
    ]
    return Outcome("Corollary 1.3, two topics from bigrams", rows, notes, Curves(dict(columns), draw_against))


def one(world: str, size: int, ratio: float, seed: int) -> dict[str, list[float]]:
    """Error of the topics, error of the weight and seconds of every method on one draw."""
    rng = np.random.default_rng(seed)
    dictionary = pairs(size, 1, world, random_state=rng).left  # type: ignore[arg-type]
    mixing = np.diag([WEIGHT, 1 - WEIGHT])
    counts = read_counts(draw_pairs(dictionary, dictionary, mixing, int(ratio * size), rng))
    proportions = np.eye(2)[(rng.random(TRIPLES) > WEIGHT).astype(int)]
    triples = draw_documents(dictionary.T, proportions, np.full(TRIPLES, 3), rng)
    out: dict[str, list[float]] = {}
    for method, (lifts_of, finish) in METHODS.items():
        begin = time.process_time()
        with one_blas_thread():
            found = finish(lifts_of(counts), triples)
        seconds = time.process_time() - begin
        ways = []
        for order in ((0, 1), (1, 0)):
            apart = np.abs(found.topics[list(order)] - dictionary.T).sum(axis=1).mean()
            ways.append((float(apart), abs(float(found.weights[order[0]]) - WEIGHT)))
        out[method] = [*min(ways), seconds]
    return out
