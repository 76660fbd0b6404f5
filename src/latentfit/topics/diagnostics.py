"""Can topics be trusted? The verdict, with the numbers behind it.

Nothing found, duplicates, words that all topics share, counts that are not whole: each is a finding. Three checks have
their own question. Is there any structure, and enough for so many topics: directions of word pairs
found on one half of the documents are asked on the other (`topics/select.py`; the paper's lower bound says that
below a constant number of pairs per word nothing can be known). Would other documents of the kind give the same topics:
two halves are fitted apart from scratch and matched. Do the documents determine topics at all: proportions inside the
simplex without pure words or documents leave its vertices open, and pairs alone never fix weights (Corollary 1.3:
they need a third token, or words that only one topic uses).

Paper     Huang, Kakade, Kong & Valiant 2018: N/M (5), Corollary 1.3, and Section 5.1 for the lower bound
Needs     fitted topics and proportions, the documents, and a function that fits halves of them
Promises  on 200 simulated inputs without an answer a finding every time, on 200 sound ones none (docs/guide/topics.md)
Differs   the paper has two topics and asks for rank 1 or 2; here any number, by directions on documents left out

Symbols   paper   here              meaning
          d₀      tokens_per_word   N/M (5)
          —       directions        z, standard scores of the directions besides the marginal
          —       distances         TV, ½ Σ_w |φ_kw − φ'_kw|
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner
from latentfit.topics.data.documents import Documents
from latentfit.topics.em import TopicPrior, TopicSteps
from latentfit.topics.init import best_em_run, first_topics, word_spectrum
from latentfit.topics.moments import WordPairs
from latentfit.topics.select import STANDS_OUT, TopicNumber, direction_scores, leading, one_topic


@dataclass(frozen=True)
class Thresholds:
    """Values at which a check reports."""

    alike: float = 0.1  # two topics that share more than nine tenths of their words' probability are one
    apart: float = 0.5  # distance of a topic's two half-sample fits at which its words are a different list
    # A word is pure when so much of it is one topic's; a topic is anchored by so much of its probability on pure
    # words.
    pure_word: float = 0.9
    pure_words: float = 0.02
    # A document is pure from such a proportion on; so many pure documents anchor a topic too.
    pure_proportion: float = 0.8
    pure_documents: int = 3
    smallest: float = 30.0  # tokens below which a topic is empty: three for each of the ten words that its list shows
    # Words of a list that is shown, and the proportion of them on half of the other lists that makes lists alike: .65
    # to .85 on raw texts, below .1 without stop words, up to .4 for two simulated topics over common words.
    top_words: int = 10
    shared: float = 0.5
    # Words on so many of all lists, of four topics or more, that are stop words: 3 to 8 on raw docstrings and
    # manuals, at most one on bbc_news, m10 and state_union with 7 and 14 topics.
    everywhere: int = 3
    nearly_all: float = 0.8
    few_topics: int = 4
    many_duplicates: float = 0.25  # proportion of duplicates from which the documents say much less than their number
    half_iterations: int = 100  # EM iterations on half of the documents at most


THRESHOLDS = Thresholds()


def examine_topics(
    documents: Documents,
    topics: Floats,
    proportions: Floats,
    weights: Floats,
    *,
    prior: tuple[float, float],
    number: TopicNumber | None,
    converged: bool,
    seed: int,
    n_jobs: int | None,
) -> Examination:
    """Diagnose topics (K, M) with proportions (D, K); `prior` are the pseudo-counts per topic and per word."""
    examiner, K = Examiner(), len(topics)
    lengths, distinct = documents.lengths, documents.distinct()
    examiner.quantities |= {
        "n_documents": documents.n_documents,
        "n_distinct": distinct.n_documents,
        "n_words": documents.n_words,
        "n_tokens": documents.total,
        "tokens_per_word": documents.total / max(int((documents.totals > 0).sum()), 1),
        "empty_documents": int((lengths == 0).sum()),
        "documents_of_three": int((lengths >= 3).sum()),
    }
    unlike = len(np.unique(documents.content))  # short ones too: a handful of texts, however often, fits any model
    examiner.check_size(unlike, "documents" if unlike == documents.n_documents else "different documents")
    _examine_counts(examiner, documents, distinct)
    enough = _examine_structure(examiner, distinct, K, number, seed)
    if K > 1:
        _examine_lists(examiner, documents, topics, weights)
        _examine_anchors(examiner, documents, topics, proportions, weights)
        if enough:
            _examine_halves(examiner, distinct, topics, prior, seed, n_jobs)
    if examiner.quantities["empty_documents"]:
        examiner.quantities["note"] = "documents without words got the mean proportions"
    examiner.check_converged(converged, what="topics")
    return examiner.conclude()


def _examine_counts(examiner: Examiner, documents: Documents, distinct: Documents) -> None:
    """Duplicates of documents, and counts that are not whole."""
    duplicates = documents.n_documents - distinct.n_documents
    if duplicates >= THRESHOLDS.many_duplicates * documents.n_documents:
        examiner.doubt(
            "caution",
            f"{duplicates} of the {documents.n_documents} documents duplicate others word for word, so that they say "
            f"what {_documents(distinct)} would: number and checks rest on those; leave the duplicates out.",
        )
    if (documents.matrix.data != np.floor(documents.matrix.data)).any():
        examiner.doubt(
            "caution",
            "The counts are not whole (tf-idf?): they were taken as weights, and the checks assume how often words "
            "occur; give counts.",
        )


def _documents(documents: Documents) -> str:
    return f"{documents.n_documents} document{'s' if documents.n_documents != 1 else ''}"


def _examine_structure(examiner: Examiner, documents: Documents, K: int, number: TopicNumber | None, seed: int) -> bool:
    """Whether word pairs show so many topics; False where the halves need not be asked any more."""
    scores = number.directions if number is not None else direction_scores(documents, max(K, 2), seed)
    rank = 1 + leading(scores)
    examiner.quantities |= {"directions": scores, "topics_shown": rank}
    d0 = examiner.quantities["tokens_per_word"]
    if K == 1 < rank:
        examiner.doubt(
            "caution",
            f"Word pairs of half of the documents show {rank} topics or more on the other half, and one was fitted; "
            f"ask for {rank}.",
        )
    if K == 1 and number is not None and number.unlimited is None and rank == 1:  # chosen, not asked for
        seen = f"the first direction of the word pairs stands {scores[0]:.1f} standard errors out" if scores else (
            f"{_documents(documents)} with words are too few to show any"
        )  # fmt: skip
        examiner.doubt(
            "caution",
            f"No structure found: {seen}; one topic is the marginal of the words; bring more or longer documents.",
        )
    if K == 1:
        return False
    if not (documents.lengths >= 2).any():
        examiner.doubt("not identifiable", "No document has two words, so nothing shows which words go together.")
        return False
    if one_topic(scores):
        examiner.doubt(
            "not identifiable",
            f"Nothing tells {K} topics from one: with {d0:.1f} tokens per word the first direction of the word pairs "
            f"stands {scores[0] if scores else 0.0:.1f} standard errors out of chance on documents left out, and "
            f"{STANDS_OUT} would show a second topic. Ask for one topic, or bring more or longer documents.",
        )
        return False
    if rank == 1:  # a direction that few documents carry, before others that many do
        together = sum(scores) / np.sqrt(len(scores))
        examiner.doubt(
            "caution",
            f"The first direction of the word pairs stands {scores[0]:.2f} standard errors out of chance on documents "
            f"left out, less than the {STANDS_OUT} that show a topic, and all {len(scores)} together {together:.1f}: "
            "there are topics, and word pairs do not say how many; look for a few documents unlike all others, which "
            "make such a direction.",
        )
    elif rank < K and rank <= len(scores):  # else every direction asked for stood out, and nothing is known of others
        examiner.doubt(
            "caution",
            f"Word pairs of half of the documents show {rank} topics on the other half, and {K} were fitted: the rest "
            f"follows chance. Ask for {rank}, or bring more documents.",
        )
    if not examiner.quantities["documents_of_three"]:
        examiner.doubt(
            "caution",
            "No document has three words, and pairs alone do not fix the weights of topics nor the topics themselves: "
            "every weight fits them equally well. What is given rests on words that only one topic uses.",
        )
    return True


def _examine_lists(examiner: Examiner, documents: Documents, topics: Floats, weights: Floats) -> None:
    """Topics that are one, and topics without documents."""
    apart = distances(topics, topics) + np.eye(len(topics))
    one, other = np.unravel_index(int(apart.argmin()), apart.shape)
    examiner.quantities["nearest_topics"] = float(apart[one, other])
    if apart[one, other] < THRESHOLDS.alike:
        examiner.doubt(
            "caution",
            f"Topics {min(one, other)} and {max(one, other)} share {1 - apart[one, other]:.0%} of their words' "
            "probability: they are one; ask for fewer topics.",
        )
    listed = top_words(topics, min(THRESHOLDS.top_words, topics.shape[1]))
    shared = shared_top_words(listed)
    examiner.quantities["shared_top_words"] = shared
    counted = Counter(listed.reshape(-1).tolist()).most_common()
    everywhere = (
        sum(times >= THRESHOLDS.nearly_all * len(topics) for _, times in counted)
        if len(topics) >= THRESHOLDS.few_topics
        else 0
    )
    examiner.quantities["top_words_everywhere"] = everywhere
    if (shared >= THRESHOLDS.shared or everywhere >= THRESHOLDS.everywhere) and listed.shape[1] == THRESHOLDS.top_words:
        most = "most" if shared >= THRESHOLDS.shared else "many"
        words = ", ".join(repr(str(documents.words[word])) for word, _ in counted[:3])
        examiner.doubt(
            "caution",
            f"Topics share {most} of their top words ({words} …), which tell nothing of what a topic is about; leave "
            "out stop words and words of most documents.",
        )
    least = int(weights.argmin())
    tokens = float(weights[least] * documents.total)
    examiner.quantities["smallest_topic_tokens"] = tokens
    if tokens < THRESHOLDS.smallest:
        examiner.doubt("caution", f"Topic {least} has only {tokens:.0f} tokens: its words are chance; ask for fewer.")


def _examine_anchors(
    examiner: Examiner, documents: Documents, topics: Floats, proportions: Floats, weights: Floats
) -> None:
    """Is every vertex of the simplex held by words or documents that are (nearly) pure?"""
    joint = weights[:, None] * topics
    posterior = joint / np.maximum(joint.sum(axis=0), 1e-300)
    words = np.where(posterior >= THRESHOLDS.pure_word, topics, 0.0).sum(axis=1)
    pure = ((proportions >= THRESHOLDS.pure_proportion) & (documents.lengths > 0)[:, None]).sum(axis=0)
    examiner.quantities |= {"pure_word_probability": words.tolist(), "pure_documents": pure.tolist()}
    open_ = np.flatnonzero((words < THRESHOLDS.pure_words) & (pure < THRESHOLDS.pure_documents))
    if len(open_):
        examiner.doubt(
            "caution",
            f"Topic {open_[0]} has neither words nor documents nearly of its own, so that other topics explain the "
            "documents as well; ask for fewer topics.",
        )


def _examine_halves(
    examiner: Examiner, documents: Documents, topics: Floats, prior: tuple[float, float], seed: int, n_jobs: int | None
) -> None:
    apart = half_sample_distances(documents, topics, prior, seed, n_jobs)
    examiner.quantities["half_sample_distances"] = apart.tolist()
    if apart.max() > THRESHOLDS.apart:
        worst = int(apart.argmax())
        examiner.doubt(
            "caution",
            f"Topic {worst} is another one when half of the documents are fitted anew: {apart[worst]:.0%} of its "
            "words' probability moves. Bring more documents, or ask for fewer topics.",
        )


def half_sample_distances(
    documents: Documents, topics: Floats, prior: tuple[float, float], seed: int, n_jobs: int | None = None
) -> Floats:
    """Distance (K,) of every topic to its like in fits of two halves, the mean of both."""
    K = len(topics)
    first = documents.every_other(seed + 5)
    total = np.zeros(K)
    for half in (documents.take(first), documents.take(~first)):
        steps = TopicSteps.of(half, TopicPrior.of(half, K, *prior), n_jobs)
        start = first_topics(word_spectrum(WordPairs.of(half), K - 1, tol=1e-6), K)
        half_topics = best_em_run(
            steps, {"half": start}, max_iter=THRESHOLDS.half_iterations, tol=1e-5
        ).refined.params.topics.T
        apart = distances(topics, half_topics)
        total += apart[np.arange(K), match_classes(-apart)]
    return np.asarray(total / 2)


def shared_top_words(listed: NDArray[np.intp]) -> float:
    """Mean proportion of a topic's listed words (topic, word) that stand on the lists of at least half of the
    others."""
    on = Counter(listed.reshape(-1).tolist())
    others = len(listed) - 1
    return float(np.mean([[on[word] - 1 >= others / 2 for word in line] for line in listed.tolist()]))


def distances(one: Floats, other: Floats) -> Floats:
    """Total variation (K, K') between topics (K, M) and (K', M)."""
    return np.array([[0.5 * float(np.abs(left - right).sum()) for right in other] for left in one])


# -----------------------------------------------------------------------------
# NPMI coherence: do the top words of a topic occur in the same documents?
#
#     NPMI(i, j) = log(P_ij / (P_i P_j)) / −log P_ij,   P the proportion of documents that hold the word, or both words
#
# averaged over the pairs of a topic's top words; −1 for two words that never meet, 1 for words that only occur
# together. #
# Paper     Bouma 2009
# Needs     documents, the fitted ones or others
# Promises  a number from −1 to 1; NaN where a topic has no pair to ask
# Differs   whole documents in place of sliding windows; a word that no document holds makes no pair
#
# Symbols   here      shape     meaning
#           topics    (K, M)    probabilities of words
#           n_words   —         top words of a topic


def npmi_coherence(documents: Documents, topics: Floats, n_words: int = 10) -> Floats:
    """Coherence (K,) of topics (K, M) by their `n_words` top words; NaN where a topic has no pair to ask."""
    shown = documents.matrix.tocsc(copy=True)
    shown.data[:] = 1.0
    return np.array([_mean_npmi(shown[:, top].toarray()) for top in top_words(topics, n_words)])


def top_words(topics: Floats, n_words: int) -> NDArray[np.intp]:
    """Indices (K, n) of the most probable words of topics (K, M), of equals the earlier."""
    return np.argsort(-topics, axis=1, kind="stable")[:, :n_words]


def _mean_npmi(shown: Floats) -> float:
    n = len(shown)
    joint = shown.T @ shown / n
    single = np.diag(joint)
    upper = np.triu(np.ones(joint.shape, bool), 1) & (single[:, None] > 0) & (single > 0)
    if not upper.any():
        return float("nan")
    both, product = joint[upper], np.outer(single, single)[upper]
    meet = (both > 0) & (both < 1)
    values = np.where(both > 0, 1.0, -1.0)  # words in every document: together always
    values[meet] = np.log(both[meet] / product[meet]) / -np.log(both[meet])
    return float(values.mean())
