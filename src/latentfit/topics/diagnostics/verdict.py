"""The verdict on fitted topics: every check with its value and limit, and the expected error of the topics.

Four checks have their own question. Is there any structure, and enough for so many topics: directions of word pairs
found on one half of the documents are asked on the other (`topics/select.py`; the paper's lower bound says that
below a constant number of pairs per word nothing can be known). Would other documents of the kind give the same topics:
two halves are fitted apart from scratch and matched. Would another seed: a random initialisation of its own is run, and
must not find other topics with an objective as good. Do the documents determine topics at all: proportions inside the
simplex without pure words or documents leave its vertices open, and pairs alone never fix weights (Corollary 1.3:
they need a third token, or words that only one topic uses).

Paper     Huang, Kakade, Kong & Valiant 2018: N/M (5), Corollary 1.3, and Section 5.1 for the lower bound
Needs     fitted topics and proportions, the documents, and a function that fits halves of them
Promises  what the gauntlet measured (docs/guide/topics.md)
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
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtr

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport
from latentfit.topics.data.documents import Documents
from latentfit.topics.diagnostics.coherence import top_words
from latentfit.topics.diagnostics.duplicates import near_duplicate_proportion
from latentfit.topics.em import TopicParams, TopicPrior, TopicSteps, begin
from latentfit.topics.init import best_em_run, first_topics, random_topics, word_spectrum
from latentfit.topics.moments import WordPairs
from latentfit.topics.select import SELECTION, STANDS_OUT, TopicNumber, direction_scores, leading, one_topic


@dataclass(frozen=True)
class Thresholds:
    """Limits of the checks."""

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
    divisor_p: float = 1e-6  # probability that all counts have a common divisor by chance
    one_word: float = 0.4  # proportion of all tokens that are one word: no text has that, columns that are no words do
    fewest_words: int = 20  # words below which one of them may well have so many tokens
    # Documents from which a word whose counts are all different, and fill so much of their range, is an identifier.
    fewest_ids: int = 30
    id_range: float = 2 / 3
    different_words: int = 10  # directions along which pairs of different words are asked, together
    separate: float = 0.05  # proportion of the tokens from which documents that share no word with others are a group
    half_iterations: int = 100  # EM iterations on half of the documents at most
    half_tol: float = 1e-4  # nats per token: EM's own tolerance
    # Of more tokens than this, other seeds are tried on a sample of the documents.
    seed_tokens: int = 100_000
    seed_iterations: int = 60
    seed_tol: float = 1e-4  # nats per token by which an objective may be lower and still as good: EM's own tolerance


THRESHOLDS = Thresholds()
OTHER_SEED = 7_001
"""Apart from the seeds of the fit's own initialisations."""


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
    _examine_columns(examiner, documents)
    _examine_near_duplicates(examiner, documents, topics, proportions)
    enough = _examine_structure(examiner, distinct, K, number, seed)
    if K > 1:
        _examine_lists(examiner, documents, topics, weights)
        _examine_vocabularies(examiner, documents, topics)
        _examine_anchors(examiner, documents, topics, proportions, weights)
    _examine_halves(examiner, distinct, topics, weights, prior, seed, n_jobs, checked=enough)
    if enough:
        _examine_seeds(examiner, documents, TopicParams(topics.T, proportions), prior, seed, n_jobs)
    if examiner.quantities["empty_documents"]:
        examiner.quantities["note"] = "documents without words got the mean proportions"
    examiner.check_converged(converged, what="topics")
    return examiner.conclude()


# ----------------------------------------------------------- the documents


def _examine_counts(examiner: Examiner, documents: Documents, distinct: Documents) -> None:
    """Duplicates of documents, and counts that are not whole or have a common divisor."""
    duplicates = documents.n_documents - distinct.n_documents
    proportion, limit = duplicates / max(documents.n_documents, 1), THRESHOLDS.many_duplicates
    examiner.check(
        "duplicates", "Documents that duplicate others", proportion < limit,
        f"{duplicates} of the {documents.n_documents} documents ({proportion:.0%}, limit {limit:.0%}) duplicate others "
        f"word for word, so that they say what {_documents(distinct)} would, and the number of topics and the "
        "checks rest on those; leave the duplicates out.",
        value=proportion, limit=limit,
    )  # fmt: skip
    data = documents.matrix.data
    whole = bool((data == np.floor(data)).all())
    fractional = 0.0 if whole else float((data != np.floor(data)).mean())
    examiner.check(
        "whole_counts", "Counts that are not whole numbers", whole,
        f"{fractional:.0%} of the counts are not whole numbers (tf-idf?; limit 0 %): they were taken as weights, and "
        "the checks assume how often words occur; give counts.",
        value=fractional, limit=0,
    )  # fmt: skip
    if whole and len(data):
        divisor = int(np.gcd.reduce(data.astype(np.int64)))
        probability = float(divisor ** -float(min(len(data), 100))) if divisor > 1 else 1.0
        examiner.check(
            "common_divisor", "Counts without a common divisor", probability > THRESHOLDS.divisor_p,
            f"Every count is a multiple of {divisor}, where 1 is expected: words look as if each had been written "
            f"{divisor} times, so that proportions rest on fewer tokens than there seem to be; divide the counts by "
            f"{divisor}.",
            value=divisor, limit=1, p_value=probability,
        )  # fmt: skip


def _examine_columns(examiner: Examiner, documents: Documents) -> None:
    """Columns that are no words: one that outweighs all others, numbers of documents."""
    used = int((documents.totals > 0).sum())
    top = int(documents.totals.argmax())
    proportion, limit = float(documents.totals[top]) / max(documents.total, 1e-300), THRESHOLDS.one_word
    if used >= THRESHOLDS.fewest_words:
        examiner.check(
            "one_word", "Tokens of the most frequent word", proportion <= limit,
            f"Word {str(documents.words[top])!r} is {proportion:.0%} of all tokens (limit {limit:.0%}), so that "
            "proportions mostly say how often it occurs: it may be a column that is no word, such as an identifier "
            "or a length; leave it out.",
            value=proportion, limit=limit,
        )  # fmt: skip
    names = [str(documents.words[word]) for word in identifier_words(documents)]
    examiner.check(
        "identifiers", "Words that number the documents", not names,
        f"The counts of word {names[0] if names else ''!r} differ in all documents and fill their range, as the "
        f"numbers of documents do ({len(names)} such columns, limit 0), so that topics order the documents by their "
        "number; leave the column out.",
        value=len(names), limit=0,
    )  # fmt: skip


def identifier_words(documents: Documents) -> list[int]:
    """Words whose counts are different whole numbers in all of their documents, and most numbers of their range."""
    columns = documents.matrix.tocsc()
    many = np.flatnonzero(np.diff(columns.indptr) >= THRESHOLDS.fewest_ids)
    found = []
    for word in many[documents.totals[many] >= THRESHOLDS.fewest_ids**2 / 2]:  # the least sum of different numbers
        counts = columns.data[columns.indptr[word] : columns.indptr[word + 1]]
        size = len(counts)
        if np.ptp(counts) + 1 <= size / THRESHOLDS.id_range and len(np.unique(counts)) == size:
            found.append(int(word))
    return found


def _documents(documents: Documents) -> str:
    return f"{documents.n_documents} document{'s' if documents.n_documents != 1 else ''}"


def _examine_near_duplicates(examiner: Examiner, documents: Documents, topics: Floats, proportions: Floats) -> None:
    """Documents that are nearly the same, beside exact duplicates."""
    first = ~documents.duplicates
    proportion, looked_at = near_duplicate_proportion(documents.take(first), topics, proportions[first])
    limit = THRESHOLDS.many_duplicates
    examiner.check(
        "near_duplicates", "Documents with a near-duplicate", proportion < limit,
        f"{proportion:.0%} of the documents (limit {limit:.0%}; {looked_at} were compared) are near-duplicates of "
        "another, such as form letters or versions of one text: topics then describe single texts, and the "
        "documents say less than their number; keep one version of each.",
        value=proportion, limit=limit,
    )  # fmt: skip


# --------------------------------------------------------------- structure


def _examine_structure(examiner: Examiner, documents: Documents, K: int, number: TopicNumber | None, seed: int) -> bool:
    """Whether word pairs show so many topics; False where stability need not be asked any more."""
    scores = number.directions if number is not None else direction_scores(documents, max(K, 2), seed)
    rank = 1 + leading(scores)
    examiner.quantities |= {"directions": scores, "topics_shown": rank}
    d0 = examiner.quantities["tokens_per_word"]
    first = scores[0] if scores else 0.0
    if K == 1:
        chosen = number is not None and number.unlimited is None
        if chosen:
            seen = f"the first direction of the word pairs stands {first:.1f} standard errors out of chance" if scores \
                else f"{_documents(documents)} with words are too few to show any"  # fmt: skip
            examiner.check(
                "structure_found", "First direction of the word pairs on documents left out", rank > 1,
                f"No structure found: {seen} (limit {STANDS_OUT:g}), and one topic is the marginal of the words; bring "
                "more or longer documents.",
                value=first, limit=STANDS_OUT, p_value=float(ndtr(-first)),
            )  # fmt: skip
        examiner.check(
            "topics_missed", "Topics that word pairs show", rank == 1,
            f"Word pairs of half of the documents show {rank} topics or more on the other half, and one was fitted, "
            f"which mixes them; ask for {rank} (n_topics={rank}, --topics {rank}).",
            value=rank, limit=1,
        )  # fmt: skip
        return False
    if not examiner.check(
        "two_words", "Documents with two words", bool((documents.lengths >= 2).any()),
        "No document has two words (at least 1 must), so that nothing shows which words go together; bring longer "
        "documents.",
        value=float((documents.lengths >= 2).sum()), limit=1, level="not identifiable",
    ):  # fmt: skip
        return False
    if not examiner.check(
        "structure_found", "First direction of the word pairs on documents left out", not one_topic(scores),
        f"No structure found: nothing tells {K} topics from one. With {d0:.1f} tokens per word the first direction of "
        f"the word pairs stands {first:.1f} standard errors out of chance on documents left out, and {STANDS_OUT:g} "
        "would show a second topic; bring more or longer documents, or ask for one topic (n_topics=1, --topics 1).",
        value=first, limit=STANDS_OUT, p_value=float(ndtr(-first)), level="not identifiable",
    ):  # fmt: skip
        return False
    together = sum(scores) / np.sqrt(len(scores)) if scores else 0.0
    if examiner.check(  # a direction that few documents carry, before others that many do
        "leading_direction", "The strongest direction is carried by many documents", rank > 1,
        f"The first direction of the word pairs stands {first:.2f} standard errors out of chance on documents left "
        f"out, less than the {STANDS_OUT:g} that show a topic, and all {len(scores)} together {together:.1f}: there "
        "are topics, and word pairs do not say how many; leave out the few documents unlike all others that make such "
        "a direction.",
        value=first, limit=STANDS_OUT,
    ):  # fmt: skip
        shown = rank >= K or rank > len(scores)  # every direction asked for stood out: nothing is known of others
        examiner.check(
            "topics_supported", "Topics that word pairs show", shown,
            f"Word pairs of half of the documents show {rank} topics on the other half, and {K} were fitted, so that "
            f"the rest follows chance; ask for {rank} (n_topics={rank}, --topics {rank}), or bring more documents.",
            value=rank, limit=K,
        )  # fmt: skip
    score = different_words_score(documents, seed)
    if score is not None:
        examiner.quantities["different_words_score"] = score
        examiner.check(
            "different_words", "Directions among pairs of different words, on documents left out",
            score >= STANDS_OUT,
            f"Without pairs of a word with itself the directions stand {score:.1f} standard errors out of chance on "
            f"documents left out, less than {STANDS_OUT:g}: what looks like topics are words that a document repeats "
            "once it has used them; ask for one topic (n_topics=1, --topics 1), or count a word once per document.",
            value=score, limit=STANDS_OUT, p_value=float(ndtr(-score)),
        )  # fmt: skip
    examiner.check(
        "three_words", "Documents with three words", examiner.quantities["documents_of_three"] > 0,
        "No document has three words (at least 1 must), and pairs alone fix neither the weights of topics nor the "
        "topics themselves: every weight fits them equally well, and what is given rests on words that only one topic "
        "uses; bring longer documents, or use PairMatrix.",
        value=examiner.quantities["documents_of_three"], limit=1,
    )  # fmt: skip
    return True


def different_words_score(documents: Documents, seed: int) -> float | None:
    """Standard score of all directions of one half on the other, by pairs of different words alone.

    A word that documents repeat (bursts) makes a direction of its own in pairs of a word with itself, but none in
    others. What such pairs would give under one topic is put in their place; None for fewer than twenty documents.
    """
    used = documents.take(documents.lengths >= 2)
    if used.n_documents < SELECTION.fewest_documents or documents.n_words < 3:
        return None
    most = min(THRESHOLDS.different_words, documents.n_words - 2)
    first = used.every_other(seed)
    total = 0.0
    for half in (first, ~first):
        spectrum = word_spectrum(WordPairs.of(used.take(half)), most, tol=1e-6)
        asked_on = used.take(~half)
        pairs, counts = WordPairs.of(asked_on), asked_on.matrix
        marginal = pairs.row_sums / pairs.total
        directions = spectrum.left / np.sqrt(spectrum.row_scale)[:, None]
        directions = directions - marginal @ directions
        squares = counts.copy()
        squares.data **= 2
        forms = ((counts @ directions) ** 2 - squares @ directions**2).sum(axis=1) * pairs.scale
        forms += asked_on.lengths * float((marginal**2 @ directions**2).sum())
        error = float(np.sqrt((forms**2).sum()))
        total += float(forms.sum()) / error if error > 0 else 0.0
    return total / float(np.sqrt(2))


# -------------------------------------------------------------- the topics


def _examine_lists(examiner: Examiner, documents: Documents, topics: Floats, weights: Floats) -> None:
    """Topics that are one, lists of stop words, and topics without tokens."""
    apart = distances(topics, topics) + np.eye(len(topics))
    one, other = np.unravel_index(int(apart.argmin()), apart.shape)
    nearest = float(apart[one, other])
    examiner.quantities["nearest_topics"] = nearest
    examiner.check(
        "topics_differ", "Distance of the two nearest topics", nearest >= THRESHOLDS.alike,
        f"Topics {min(one, other)} and {max(one, other)} share {1 - nearest:.0%} of their words' probability (limit "
        f"{1 - THRESHOLDS.alike:.0%}), so that they are one; ask for fewer topics (n_topics, --topics).",
        value=nearest, limit=THRESHOLDS.alike,
    )  # fmt: skip
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
    if listed.shape[1] == THRESHOLDS.top_words:
        most = "most" if shared >= THRESHOLDS.shared else "many"
        words = ", ".join(repr(str(documents.words[word])) for word, _ in counted[:3])
        examiner.check(
            "shared_top_words", "Top words that topics share",
            shared < THRESHOLDS.shared and everywhere < THRESHOLDS.everywhere,
            f"Topics share {most} of their top words ({words} …): {shared:.0%} of them stand on half of the other "
            f"lists (limit {THRESHOLDS.shared:.0%}), and {everywhere} on nearly all (limit {THRESHOLDS.everywhere}). "
            "Such words tell nothing of what a topic is about; leave out stop words and words of most documents.",
            value=shared, limit=THRESHOLDS.shared,
        )  # fmt: skip
    least = int(weights.argmin())
    tokens = float(weights[least] * documents.total)
    examiner.quantities["smallest_topic_tokens"] = tokens
    examiner.check(
        "smallest_topic", "Tokens of the smallest topic", tokens >= THRESHOLDS.smallest,
        f"Topic {least} has only {tokens:.0f} tokens, fewer than {THRESHOLDS.smallest:g}, so that its words are "
        "chance; ask for fewer topics (n_topics, --topics).",
        value=tokens, limit=THRESHOLDS.smallest,
    )  # fmt: skip


def _examine_vocabularies(examiner: Examiner, documents: Documents, topics: Floats) -> None:
    """Groups of documents that share no word, each with several topics: languages, or codes of two sources."""
    size = documents.n_documents
    cells = documents.matrix.tocoo()
    ones, n_nodes = np.ones(len(cells.row)), size + documents.n_words
    graph = sp.csr_array((ones, (cells.row, size + cells.col)), shape=(n_nodes, n_nodes))
    _, labels = connected_components(graph, directed=False)
    tokens = np.bincount(labels[:size], weights=documents.lengths)
    groups = np.flatnonzero(tokens >= THRESHOLDS.separate * documents.total)
    in_group = topics @ (labels[size:, None] == groups)
    several = [group for group, part in zip(groups, (in_group >= 0.5).T, strict=True) if part.sum() > 1]
    outside = 1 - float(tokens.max()) / max(documents.total, 1e-300)
    examiner.check(
        "common_vocabulary", "Tokens of documents that share no word with most others", len(several) < 2,
        f"The documents fall into {len(groups)} groups that share no word, {outside:.0%} of the tokens outside the "
        f"largest (limit {THRESHOLDS.separate:.0%}), and each has several topics: no topic can be compared between "
        "groups, as with two languages or two ways of writing words; write words in one way, or fit each group alone.",
        value=outside, limit=THRESHOLDS.separate,
    )  # fmt: skip


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
    at = int(open_[0]) if len(open_) else int(words.argmin())
    examiner.check(
        "anchors", "Topics without words or documents of their own", not len(open_),
        f"Topic {at} has neither words nor documents nearly of its own ({words[at]:.1%} of its probability on words of "
        f"its own, limit {THRESHOLDS.pure_words:.0%}; {pure[at]} documents, limit {THRESHOLDS.pure_documents}), so "
        "that other topics explain the documents as well; ask for fewer topics (n_topics, --topics).",
        value=len(open_), limit=0,
    )  # fmt: skip


# --------------------------------------------------------------- stability


def _examine_halves(
    examiner: Examiner, documents: Documents, topics: Floats, weights: Floats, prior: tuple[float, float], seed: int,
    n_jobs: int | None, *, checked: bool,
) -> None:  # fmt: skip
    """Fits to halves: whether topics stay (where `checked`), and the expected error.

    A fit to half of the documents has twice the variance, and it lies as far from the fit to all of them as that lies
    from the truth.
    """
    if int((documents.lengths > 0).sum()) < 2:
        examiner.expected = Expectation(
            "error of the topics", 1.0, sentence="One document with words gives no half to fit anew: nothing is known "
            "of the error.",
        )  # fmt: skip
        return
    apart = half_sample_distances(documents, topics, prior, seed, n_jobs)
    worst, mean = int(apart.argmax()), float(apart @ weights / weights.sum())
    least = f" (topic {worst}: {1 - apart[worst]:.0%})" if len(topics) > 1 else ""
    examiner.expected = Expectation(
        "error of the topics", mean,
        sentence=f"Fitted anew to half of the documents, topics keep {1 - mean:.0%} of their words' probability on "
        f"average{least}; {mean:.0%} is expected to be wrong.",
    )  # fmt: skip
    if checked:
        examiner.quantities["half_sample_distances"] = apart.tolist()
        examiner.check(
            "halves_agree", "Probability that moves between halves, least stable topic",
            apart.max() <= THRESHOLDS.apart,
            f"Topic {worst} is unstable under resampling: fitted anew to half of the documents, {apart[worst]:.0%} of "
            f"its words' probability moves (limit {THRESHOLDS.apart:.0%}), so that other documents would give another "
            "topic; bring more documents, or ask for fewer topics (n_topics, --topics).",
            value=float(apart.max()), limit=THRESHOLDS.apart,
        )  # fmt: skip


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
            steps, {"half": start}, max_iter=THRESHOLDS.half_iterations, tol=THRESHOLDS.half_tol
        ).refined.params.topics.T
        apart = distances(topics, half_topics)
        total += apart[np.arange(K), match_classes(-apart)]
    return np.asarray(total / 2)


def _examine_seeds(
    examiner: Examiner, documents: Documents, fitted: TopicParams, prior: tuple[float, float], seed: int,
    n_jobs: int | None,
) -> None:  # fmt: skip
    gain, apart = other_seed(documents, fitted, prior, seed, n_jobs)
    examiner.quantities |= {"other_seed_gain": gain, "other_seed_distances": apart.tolist()}
    worst, limit = int(apart.argmax()), THRESHOLDS.apart
    moved = float(apart[worst]) if gain >= -THRESHOLDS.seed_tol else 0.0
    examiner.check(
        "seeds_agree", "Probability that moves under another seed with an objective as good", moved <= limit,
        f"Another random initialisation gives an objective as good ({gain:+.4f} nats per token) with another topic "
        f"{worst}: {moved:.0%} of its words' probability differs (limit {limit:.0%}), so that the topics depend on the "
        "seed; ask for fewer topics (n_topics, --topics), or raise n_init.",
        value=moved, limit=limit,
    )  # fmt: skip


def other_seed(
    documents: Documents, fitted: TopicParams, prior: tuple[float, float], seed: int, n_jobs: int | None = None
) -> tuple[float, Floats]:
    """Gain of a random initialisation over the fit, in nats per token, and the distances (K,) of its topics.

    Of many documents a sample is taken by a hash of their content, on which EM goes on from the fit, too.
    """
    K = fitted.topics.shape[1]
    if documents.total > THRESHOLDS.seed_tokens:
        order = np.argsort(documents.hashes(seed + 9), kind="stable")
        size = max(int(len(order) * THRESHOLDS.seed_tokens / documents.total), 1)
        documents = documents.take(np.sort(order[:size]))
        steps = TopicSteps.of(documents, TopicPrior.of(documents, K, *prior), n_jobs)
        here = em(steps, begin(steps, fitted.topics), max_iter=THRESHOLDS.seed_iterations, tol=1e-4, accelerate=True)
        objective, topics = here.objective, here.params.topics.T
    else:
        steps = TopicSteps.of(documents, TopicPrior.of(documents, K, *prior), n_jobs)
        fitted = TopicParams(np.ascontiguousarray(fitted.topics), np.ascontiguousarray(fitted.proportions))
        objective, topics = steps.objective(fitted, steps.e_step(fitted)), fitted.topics.T
    start = begin(steps, random_topics(documents, K, seed + OTHER_SEED))
    other = em(steps, start, max_iter=THRESHOLDS.seed_iterations, tol=1e-4, accelerate=True)
    apart = distances(topics, other.params.topics.T)
    gain = (other.objective - objective) / max(documents.total, 1.0)
    return float(gain), apart[np.arange(K), match_classes(-apart)]


def shared_top_words(listed: NDArray[np.intp]) -> float:
    """Mean proportion of a topic's listed words (topic, word) that stand on the lists of at least half of the
    others."""
    on = Counter(listed.reshape(-1).tolist())
    others = len(listed) - 1
    return float(np.mean([[on[word] - 1 >= others / 2 for word in line] for line in listed.tolist()]))


def distances(one: Floats, other: Floats) -> Floats:
    """Total variation (K, K') between topics (K, M) and (K', M)."""
    return np.array([[0.5 * float(np.abs(left - right).sum()) for right in other] for left in one])


def number_statement(report: FitReport, n_topics: int) -> str:
    """The number of topics as a title says it: one that a check rejects is not announced as found."""
    failed = {check.name for check in report.checks if not check.passed}
    topics, shown = f"{n_topics} topic{'s' if n_topics > 1 else ''}", report.quantities.get("topics_shown")
    if "structure_found" in failed:
        return f"{topics} fitted, no structure found"
    if failed & {"topics_supported", "topics_missed"}:
        return f"{topics} fitted, {shown} shown by the documents"
    return topics
