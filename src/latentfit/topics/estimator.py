"""Topics of documents: what they are about, and in which proportions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.core import model_file
from latentfit.core.em import EMResult
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import as_frame, backend_of, build_frame, column, find_column, long_columns
from latentfit.core.kernels import WIDEST, Floats
from latentfit.core.model_file import Array, Schema
from latentfit.core.multistart import Selected
from latentfit.core.names import Names, encode, match, to_arrow
from latentfit.core.numbers import as_numbers, is_amount
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.topics.data.documents import Documents
from latentfit.topics.data.input import gathered, is_bags, is_named, read_documents
from latentfit.topics.diagnostics.coherence import npmi_coherence, top_words
from latentfit.topics.diagnostics.verdict import examine_topics
from latentfit.topics.em import (
    PriorChoice,
    TopicParams,
    TopicPrior,
    TopicStatistics,
    TopicSteps,
    choose_prior,
    completion,
    proportions_of,
    word_frequencies,
)
from latentfit.topics.init import (
    best_em_run,
    first_topics,
    random_topics,
    refined_by_pairs,
    topics_by_triples,
    word_spectrum,
)
from latentfit.topics.moments import WordPairs
from latentfit.topics.select import TopicNumber, choose_topics

Smoothing = Literal["auto"] | tuple[float, float]

HALVES_SEED = 1
"""Seed of the halves that `score` makes of a document: the same document, the same halves."""
CHOICE_SEED = 0
"""Seed of the splits behind number, pseudo-counts and verdict: `random_state` does not decide any of them."""


SCHEMA = Schema(
    {
        "topics": Array(("K", "M"), sums_to_one=True),
        "weights": Array(("K",), sums_to_one=True),
        "word_counts": Array(("M",)),
        "pseudo_shares": Array(("K",)),
    },
    names={"words": "M"},
    values={"pseudo_words": (float, 0)},
)
"""What the model file holds, beside the fit history."""


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):
    r"""Find the topics of documents, and the proportions of the topics in every document.

    A token of document :math:`d` is word :math:`w` with probability :math:`\sum_k \theta_{dk} \varphi_{kw}`;
    proportions :math:`\theta_d` and topics :math:`\varphi_k` are the maximum a posteriori under fixed pseudo-counts.
    The spectral initialisation takes anchors of the scaled word-pair matrix; a few random ones compete with it.

    Parameters
    ----------
    n_topics : int or None, default None
        Number of topics. None chooses it: as many as word pairs of one half of the documents show on the other half,
        and where that never ends, the number that predicts held-out words well. The choice does not depend on
        `random_state`.
    init : {"auto", "spectral", "random"}, array of shape (n_topics, n_words), frame or TopicModel, default "auto"
        ``"auto"`` is the spectral initialisation and random ones. Given topics are the only initialisation: an array
        in the order of the words, a frame (topic, word, probability), or a fitted model, whose words are matched by
        name; words that they lack get their frequency in the corpus.
    n_init : int, default 3
        Number of initialisations.
    smoothing : "auto" or tuple (float, float), default "auto"
        Pseudo-counts per topic of a document, and per word of a topic (on average, in proportion to the word
        frequencies). ``"auto"`` chooses those that predict held-out documents best.
    max_topics : int or None, default None
        Largest number of topics that is chosen (up to 40 are compared). It cuts the number that would be chosen
        without it, and a note says so.
    columns : dict or None, default None
        Names of the columns of a long frame where unusual: {"document": …, "word": …, "count": …}.
    max_iter : int, default 500
        Largest number of EM iterations; 0 returns the initialisation.
    tol : float, default 1e-4
        EM has converged when an iteration gains less than `tol` nats per token; 0 runs all of `max_iter`.
    random_state : int or None, default None
        Seed of the random initialisations; None means 0.
    n_jobs : int or None, default None
        Number of threads; results do not depend on it.
    verbose : int, default 0
        1 logs the stages and EM iterations.
    engine : str, default "auto"
        Where passes over the data run.

    Attributes
    ----------
    topics_ : ndarray of shape (n_topics, n_words)
        Probabilities of the words given the topic, heaviest topic first.
    weights_ : ndarray of shape (n_topics,)
        Proportion of all tokens in each topic.
    proportions_ : ndarray of shape (n_documents, n_topics)
        Proportions of the topics in the training documents, as `transform` gives them.
    n_topics_ : int
        Number of topics.
    selection_ : dict or None
        How the number of topics was chosen; None when it was given.
    words_ : ndarray of shape (n_words,)
        Names of the words.
    word_counts_ : ndarray of shape (n_words,)
        How often each word occurs in the training documents.
    documents_ : ndarray of shape (n_documents,)
        Names of the training documents.
    pseudo_shares_ : ndarray of shape (n_topics,)
        Pseudo-counts of each topic in a document.
    pseudo_words_ : float
        Pseudo-counts per word of a topic.
    coherence_ : ndarray of shape (n_topics,)
        NPMI of the ten most probable words in the training documents.
    topic_table_ : frame
        Columns topic, word, probability, rank; the most probable words of a topic first.
    document_table_ : frame
        Columns document, topic, proportion, for the training documents.
    n_iter_ : int
        Number of EM iterations.
    converged_ : bool
        Whether EM converged within `max_iter` iterations.
    log_likelihood_ : float
        Log-likelihood of the training documents, in nats.
    objective_ : float
        Log-likelihood plus the logarithm of the prior.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons and diagnostics.

    Examples
    --------
    >>> from latentfit import TopicModel
    >>> from latentfit.simulate import topic_documents
    >>> data = topic_documents(400, 200, 3, random_state=0)
    >>> model = TopicModel().fit(data.counts)
    >>> model.n_topics_
    3
    >>> model.transform(data.counts[:1]).shape
    (1, 3)
    """

    _model_name = "TopicModel"
    _takes = ("allow_nan", "sparse", "positive_only")
    _for_report = ("_documents", "_clock")

    def __init__(
        self,
        n_topics: int | None = None,
        *,
        init: Any = "auto",
        n_init: int = 3,
        smoothing: Smoothing = "auto",
        max_topics: int | None = None,
        columns: Mapping[str, str] | None = None,
        max_iter: int = 500,
        tol: float = 1e-4,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_topics = n_topics
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.max_topics = max_topics
        self.columns = columns
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None, *, words: Any = None) -> Self:
        """Fit topics to documents.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts of shape (n_documents, n_words), a frame with the columns document, word and count, texts whose words
            stand between blanks, or lists of (word id, count).
        y : None
            Not used.
        words : array-like of shape (n_words,), mapping or None, default None
            Names of the columns of a matrix: a list, gensim's dictionary or a fitted CountVectorizer's names.

        Returns
        -------
        self : TopicModel
            The fitted model.
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                documents = self._read(X, words=words)
            with clock.stage("number"):
                number, given = self._choose(documents)
            with clock.stage("factor"):
                starts = self._starts(documents, number, given)
            with clock.stage("refine"):
                prior, chosen, selected = self._refine(documents, starts)
            self._keep(documents, prior, selected.refined)
        self._clock, self._notes = clock, fit_notes(selected.name, len(starts), self._chosen, chosen)
        self._warn_limit()
        return self

    def fit_transform(self, X: Any, y: Any = None, *, words: Any = None) -> Floats:
        """Fit topics and return the proportions of the training documents.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts of shape (n_documents, n_words), a frame with the columns document, word and count, texts whose words
            stand between blanks, or lists of (word id, count).
        y : None
            Not used.
        words : array-like of shape (n_words,), mapping or None, default None
            Names of the columns of a matrix: a list, gensim's dictionary or a fitted CountVectorizer's names.

        Returns
        -------
        ndarray of shape (n_documents, n_topics)
            `proportions_`.
        """
        return self.fit(X, words=words).proportions_

    def _choose(self, documents: Documents) -> tuple[int, Floats | None]:
        """The number of topics as asked for, given or chosen; given first topics (M, K)."""
        self._chosen: TopicNumber | None = None
        given = None
        if not isinstance(self.init, str):
            given = given_topics(self.init, documents)
            if self.n_topics is not None and self.n_topics != given.shape[1]:
                raise DataError(f"n_topics={self.n_topics}, and init has {given.shape[1]} topics; give one of the two")
            return given.shape[1], given
        if self.n_topics is None:
            self._chosen = choose_topics(documents, CHOICE_SEED, most=self.max_topics, n_jobs=self.n_jobs)
            return self._chosen.chosen, None
        most = min(documents.n_words, documents.n_documents, WIDEST)
        if not 1 <= self.n_topics <= most:
            raise NotIdentifiableError(
                f"n_topics={self.n_topics} topics of {documents.n_documents} documents with {documents.n_words} words; "
                f"give a number from 1 to {most}"
            )
        return self.n_topics, None

    def _starts(self, documents: Documents, number: int, given: Floats | None) -> dict[str, Floats]:
        if given is not None:
            return {"given": given}
        starts, seed = {}, self._seed()
        if self.init != "random":
            spectrum = word_spectrum(WordPairs.of(documents), number - 1, tol=1e-6)
            first = first_topics(spectrum, number)
            starts["spectral"] = refined_by_pairs(documents, first, resolve_jobs(self.n_jobs))
            third = topics_by_triples(documents.matrix, spectrum) if number == 2 and self.init == "auto" else None
            if third is not None:
                starts["third moment"] = third
        if self.init != "spectral" and number > 1:
            for at in range(self.n_init - len(starts)):
                starts[f"random {at + 1}"] = random_topics(documents, number, seed + 1000 * at)
        return starts or {"random": random_topics(documents, number, seed)}

    def _refine(
        self, documents: Documents, starts: dict[str, Floats]
    ) -> tuple[TopicPrior, PriorChoice | None, Selected[TopicParams, TopicStatistics]]:
        """The pseudo-counts, chosen under the first start, and the best of the starts under them."""
        prior, chosen = self._prior(documents, next(iter(starts.values())))
        steps = TopicSteps.of(documents, prior, self.n_jobs)
        selected = best_em_run(steps, starts, max_iter=self.max_iter, tol=self.tol, callback=self._progress("EM"))
        return prior, chosen, selected

    def _prior(self, documents: Documents, topics: Floats) -> tuple[TopicPrior, PriorChoice | None]:
        if self.smoothing == "auto":
            chosen = choose_prior(documents, topics, CHOICE_SEED, self.n_jobs)
            a, b = chosen.proportions, chosen.words
        else:
            chosen, (a, b) = None, self.smoothing
        self.pseudo_words_ = float(b)
        return TopicPrior.of(documents, topics.shape[1], float(a), float(b)), chosen

    def _keep(self, documents: Documents, prior: TopicPrior, refined: EMResult[TopicParams, TopicStatistics]) -> None:
        """Hold topics, the heaviest first, and every document's proportions under them."""
        self._forget()
        weights = refined.sums.documents.sum(axis=0)
        order = np.argsort(-weights, kind="stable")
        topics = np.ascontiguousarray(refined.params.topics.T[order])
        self._publish(topics, weights[order] / weights.sum(), prior.a[order])
        self.words_, self.documents_, self.word_counts_ = documents.words, documents.names, documents.totals
        self._documents = documents
        self.proportions_ = self._proportions(documents)
        self._keep_fit(refined)
        self.selection_ = None
        if self._chosen is not None:
            chosen = self._chosen
            heldout = {str(k): value for k, value in chosen.heldout.items()}
            self.selection_ = {"chosen": chosen.chosen, "directions": chosen.directions, "heldout": heldout}
            if chosen.plausible:
                self.selection_["plausible"] = list(chosen.plausible)
            if chosen.unlimited is not None:
                self.selection_["without_limit"] = chosen.unlimited

    def _publish(self, topics: Floats, weights: Floats, pseudo_shares: Floats) -> None:
        """Parameters under their public names."""
        self.topics_, self.weights_, self.pseudo_shares_ = topics, weights, pseudo_shares
        self.n_topics_ = self._n_features_out = len(topics)

    # ------------------------------------------------------------ results

    def top_words(self, n: int = 10) -> list[list[Any]]:
        """Most probable words of every topic.

        Parameters
        ----------
        n : int, default 10
            Number of words per topic.

        Returns
        -------
        list of list
            One list of words per topic, the most probable first.
        """
        check_is_fitted(self)
        return [self.words_[top].tolist() for top in top_words(self.topics_, n)]

    @cached_property
    def coherence_(self) -> Floats:
        """NPMI (topic,) of the ten top words in the documents of the fit."""
        return self.coherence()

    def coherence(self, X: Any = None, n_words: int = 10) -> Floats:
        """NPMI of the most probable words of every topic.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts (document, word), or anything else that `fit` takes. None takes the training documents.
        n_words : int, default 10
            Number of words per topic.

        Returns
        -------
        ndarray of shape (n_topics,)
            Mean normalised pointwise mutual information over pairs of words, from -1 to 1.
        """
        return npmi_coherence(self._given(X, "measure coherence on"), self.topics_, n_words)

    @cached_property
    def topic_table_(self) -> Any:
        """One row per topic and word, the most probable first: topic, word, probability, rank."""
        check_is_fitted(self)
        return build_frame(topic_columns(self.words_, self.topics_), self._backend)

    @cached_property
    def document_table_(self) -> Any:
        """One row per document of the fit and topic: document, topic, proportion."""
        check_is_fitted(self)
        if not hasattr(self, "proportions_"):
            raise DataError("a model from a file keeps no documents; transform them again")
        return build_frame(document_columns(self.documents_, self.proportions_), self._backend)

    def pyldavis_arrays(self, X: Any = None) -> dict[str, Any]:
        """Arguments of ``pyLDAvis.prepare(**…)``; empty documents are left out.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts (document, word), or anything else that `fit` takes. None takes the training documents.

        Returns
        -------
        dict
            The five arrays that pyLDAvis takes, by name.
        """
        documents = self._given(X, "draw")
        return pyldavis_arrays(documents, self.topics_, self._proportions(documents))

    def _given(self, X: Any, use: str) -> Documents:
        """X, or the documents of the fit."""
        check_is_fitted(self)
        if X is None and not hasattr(self, "_documents"):
            raise DataError(f"a model from a file keeps no documents; give some to {use}")
        return self._documents if X is None else self._read(X, reset=False)

    def _examine(self, notes: list[str]) -> Examination:
        examination = examine_topics(
            self._documents, self.topics_, self.proportions_, self.weights_,
            prior=(float(self.pseudo_shares_[0]), self.pseudo_words_), number=self._chosen,
            converged=self.converged_, seed=CHOICE_SEED, n_jobs=self.n_jobs,
        )  # fmt: skip
        examination.quantities["coherence"] = self.coherence_.tolist()  # files keep it, documents they do not
        return examination

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """Proportions of the topics in documents; a document's answer does not depend on the other documents.

        Words that the fit has not seen are left out, with a warning; a document without known words gets `weights_`.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts (document, word), or anything else that `fit` takes.

        Returns
        -------
        ndarray of shape (n_documents, n_topics)
            Rows sum to one.
        """
        check_is_fitted(self)
        return self._proportions(self._read(X, reset=False))

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of half of every document's tokens given the other half (document completion).

        The half of a token is drawn from the document's content, so the same document always has the same halves.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts (document, word), or anything else that `fit` takes.

        Returns
        -------
        ndarray of shape (n_documents,)
            In nats.
        """
        check_is_fitted(self)
        documents = self._read(X, reset=False)
        with one_blas_thread():
            topics = np.ascontiguousarray(self.topics_.T)
            return completion(documents, topics, self.pseudo_shares_, HALVES_SEED, self.n_jobs)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean over documents of `score_samples`; larger is better.

        Parameters
        ----------
        X : sparse matrix, array, frame, list of texts or bags of words
            Counts (document, word), or anything else that `fit` takes.
        y : None
            Not used.

        Returns
        -------
        float
            In nats per document.
        """
        return float(self.score_samples(X).mean())

    def _proportions(self, documents: Documents) -> Floats:
        """Proportions of documents; one without a known word gets the weights."""
        topics = np.ascontiguousarray(self.topics_.T)
        with one_blas_thread():
            proportions, _ = proportions_of(documents, topics, self.pseudo_shares_, self.n_jobs)
        proportions[documents.lengths == 0] = self.weights_
        return proportions

    # -------------------------------------------------------------- input

    def _read(self, X: Any, *, reset: bool = True, words: Any = None) -> Documents:
        """Documents of X; those of matrices and wide frames under scikit-learn's rules for features."""
        X = gathered(X)
        if reset:
            self._backend = backend_of(X)
        if (bags := is_bags(X)) or is_named(X, self.columns):
            if bags:
                documents = read_documents(X, named=words if reset else self.words_)
            else:
                documents = read_documents(X, columns=self.columns, words=None if reset else self.words_, named=words)
            if reset:
                self.n_features_in_ = documents.n_words
                self.__dict__.pop("feature_names_in_", None)
        elif not reset and self._knows_columns(X):
            documents = read_documents(X, words=self.words_)
        else:
            rules = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
            documents = read_documents(self._validated(X, reset=reset, **rules), named=words)
            if not reset and documents.n_words != len(self.words_):
                raise DataError(f"X has {documents.n_words} words, and the model was fitted on {len(self.words_)}")
            if not reset:
                documents = Documents(documents.matrix, documents.names, self.words_)
        if reset and not documents.total:
            raise DataError(f"the {documents.n_documents} documents hold no word; give at least one count above zero")
        return documents

    def _knows_columns(self, X: Any) -> bool:
        """Whether a wide frame names words of the fit, which had them from elsewhere: then names decide, not places.

        Where the fit had a frame scikit-learn's rule holds: the same names in the same order.
        """
        frame = as_frame(X)
        if frame is None or "feature_names_in_" in self.__dict__:
            return False
        return bool({name for name in frame.columns if isinstance(name, str)} & set(self.words_.tolist()))

    def _check_options(self) -> None:
        if isinstance(self.init, str) and self.init not in ("auto", "spectral", "random"):
            raise DataError(f"init must be 'auto', 'spectral', 'random', topics or a model, got {self.init!r}")
        if not self.n_init or self.n_init < 1:
            raise DataError(f"n_init must be an int >= 1, got {self.n_init}")
        if self.max_topics is not None and self.max_topics < 1:
            raise DataError(f"max_topics must be an int >= 1 or None, got {self.max_topics}")
        smoothing = self.smoothing
        if isinstance(smoothing, tuple | list):
            good = len(smoothing) == 2 and all(is_amount(value) and value > 0 for value in smoothing)
        else:
            good = isinstance(smoothing, str) and smoothing == "auto"
        if not good:
            raise DataError(
                "smoothing must be 'auto' or two positive numbers (per topic of a document, per word of a topic), "
                f"got {smoothing!r}"
            )

    # --------------------------------------------------------- model file

    # What the model file of topics holds: topics, weights, pseudo-counts, words, the fit history.

    def _state(self) -> tuple[model_file.Arrays, dict[str, Any]]:
        arrays = {name: getattr(self, f"{name}_") for name in SCHEMA.arrays}
        metadata = {"words": model_file.plain_names(self.words_.tolist()), "pseudo_words": self.pseudo_words_}
        return model_file.with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: model_file.Arrays, metadata: dict[str, Any]) -> None:
        SCHEMA.check(arrays, metadata)
        words = metadata["words"]
        model_file.restore_fit_history(
            self, arrays, metadata, words if metadata["feature_names_in"] is not None else []
        )
        if self.n_features_in_ != len(words):
            raise ValueError(f"n_features_in is {self.n_features_in_} for {len(words)} words")
        self.words_, self.word_counts_ = model_file.name_array(words, "words"), arrays["word_counts"]
        self.pseudo_words_ = metadata["pseudo_words"]
        self._publish(arrays["topics"], arrays["weights"], arrays["pseudo_shares"])

    words_: Names
    word_counts_: Floats
    pseudo_words_: float


# -----------------------------------------------------------------------------
# Topics that a user brings to start from: an array, a frame or a fitted model → first topics over these words.

BLEND = 0.05
"""Weight of the words' marginal in given topics: EM cannot lift a probability from zero."""


def given_topics(init: Any, documents: Documents) -> Floats:
    """First topics (M, K); words that the given ones lack get their frequency in the corpus."""
    if hasattr(init, "topics_") and hasattr(init, "words_"):
        return _blended(_by_word(init.topics_, init.words_, documents), documents)
    frame = as_frame(init)
    if frame is None:
        topics = _array(init)
        if topics.shape[1] != documents.n_words:
            raise DataError(
                f"init has {topics.shape[1]} words and the documents {documents.n_words}; give one column per word, "
                "or a frame with the columns topic, word and probability"
            )
        return _blended(topics, documents)
    names = [str(name) for name in frame.columns]
    roles = {role: find_column(names, role, (role,), None) for role in ("topic", "word", "probability")}
    if None in roles.values():
        raise DataError(f"init is a frame with the columns {names}; give topic, word and probability")
    rows, topic_names = encode(column(frame, roles["topic"]), "topic")
    cols, words = encode(column(frame, roles["word"]), "word")
    _check_named({"topic": rows, "word": cols})
    topics = np.zeros((len(topic_names), len(words)))
    advice = "give probabilities of words"
    probabilities = as_numbers(
        to_arrow(column(frame, roles["probability"]), "probability"), "init's probability", advice
    )
    np.add.at(topics, (rows, cols), probabilities)
    return _blended(_by_word(_array(topics), words, documents), documents)


def _check_named(codes: Mapping[str, NDArray[np.int32]]) -> None:
    """Refuse a row without a topic or a word: its probability belongs to nothing, and code -1 is the last name."""
    for role, coded in codes.items():
        missing = np.flatnonzero(coded < 0)
        if len(missing):
            raise DataError(f"init has no {role} in row {missing[0] + 1}; fill it in, or leave such rows out")


def _array(init: Any) -> Floats:
    try:
        topics = np.array(init, np.float64)
    except (TypeError, ValueError):
        kind = type(init).__name__
        raise DataError(f"init is a {kind}; give topics (topic, word), a frame or a fitted model") from None
    if topics.ndim != 2 or not topics.size:
        raise DataError(f"init must be a nonempty array of shape (n_topics, n_words), got shape {topics.shape}")
    if not np.isfinite(topics).all() or (topics < 0).any() or (topics.sum(axis=1) <= 0).any():
        raise DataError("init holds a negative or infinite number, or a topic of zeros; give probabilities of words")
    return topics


def _by_word(topics: Floats, words: Names, documents: Documents) -> Floats:
    """Topics over the documents' words, matched by name."""
    place = match(documents.words, words, "word")
    by_word = np.where(place >= 0, topics[:, place], 0.0)
    if not (by_word.sum(axis=1) > 0).all():
        raise DataError("a topic of init has none of the documents' words; name words alike, or leave the topic out")
    return by_word


def _blended(topics: Floats, documents: Documents) -> Floats:
    proportions = topics / topics.sum(axis=1, keepdims=True)
    return np.ascontiguousarray((1 - BLEND) * proportions.T + BLEND * word_frequencies(documents)[:, None])


# -----------------------------------------------------------------------------
# What topics say to people: tables, notes of a fit, the arrays pyLDAvis takes.


def topic_columns(words: Names, topics: Floats) -> dict[str, NDArray[Any]]:
    """Columns of topics.csv: topic, word, probability, rank (1 first)."""
    K, M = topics.shape
    order = top_words(topics, M)
    return {
        "topic": np.repeat(np.arange(K), M),
        "word": words[order.reshape(-1)],
        "probability": np.take_along_axis(topics, order, axis=1).reshape(-1),
        "rank": np.tile(np.arange(1, M + 1), K),
    }


def document_columns(documents: Names, proportions: Floats) -> dict[str, NDArray[Any]]:
    """Columns of documents.csv: document, topic, proportion."""
    return long_columns(("document", "topic", "proportion"), documents, np.arange(proportions.shape[1]), proportions)


def pyldavis_arrays(documents: Documents, topics: Floats, proportions: Floats) -> dict[str, Any]:
    """The arguments of `pyLDAvis.prepare`; empty documents and words without counts are left out."""
    used, occur = np.flatnonzero(documents.lengths > 0), np.flatnonzero(documents.totals > 0)
    used_topics = topics[:, occur]
    return {
        "topic_term_dists": used_topics / used_topics.sum(axis=1, keepdims=True),
        "doc_topic_dists": proportions[used],
        "doc_lengths": documents.lengths[used],
        "vocab": [str(word) for word in documents.words[occur].tolist()],
        "term_frequency": documents.totals[occur],
    }


def fit_notes(winner: str, n_starts: int, chosen: TopicNumber | None, prior: PriorChoice | None) -> list[str]:
    """Notes of a fit: which start won, how the number and the pseudo-counts were found."""
    notes = [f"the best of {n_starts} starts was {winner}" if n_starts > 1 else f"started from {winner} topics"]
    if chosen is not None:
        number = chosen.chosen if chosen.unlimited is None else chosen.unlimited
        topics = f"{number} topic{'s' if number > 1 else ''}"
        if chosen.heldout:
            others = [str(other) for other in chosen.plausible if other != number]
            notes.append(
                f"{topics} are a practical number: directions of the word pairs end late or never, and held-out "
                "nats per token for more and more topics are "
                + ", ".join(f"{k}: {value:.3f}" for k, value in chosen.heldout.items())
                + (f"; other documents of the kind might as well give {' or '.join(others)}" if others else "")
            )
        else:
            hold = f"{number - 1} direction{'s' if number != 2 else ''}"
            notes.append(f"{topics}: {hold} of the word pairs hold on documents they were not found on")
        if chosen.unlimited is not None:
            notes.append(f"max_topics={chosen.chosen} cut the number: {topics} would have been chosen without it")
    if prior is not None and prior.scores:
        notes.append(
            f"pseudo-counts {prior.proportions:g} per topic and {prior.words:g} per word "
            "predict documents left out best"
        )
    return notes
