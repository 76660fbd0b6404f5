"""Topics of documents: what they are about, and in which shares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.core.clock import StageClock
from latentfit.core.em import Refined
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import as_frame, backend_of, build_frame
from latentfit.core.kernels import WIDEST, Floats
from latentfit.core.multistart import Raced
from latentfit.core.names import Names
from latentfit.core.numbers import is_amount
from latentfit.core.verdict import Examination
from latentfit.engine.blas import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.topics.data.documents import Documents
from latentfit.topics.data.input import gathered, is_bags, is_named, read_documents
from latentfit.topics.diagnostics.coherence import npmi_coherence, top_words
from latentfit.topics.diagnostics.verdict import examine_topics
from latentfit.topics.em.prior import PriorChoice, choose_prior, completion
from latentfit.topics.em.steps import TopicParams, TopicPrior, TopicStatistics, TopicSteps, shares_of
from latentfit.topics.estimator.given import given_topics
from latentfit.topics.estimator.model_file import restore_topics, topic_state
from latentfit.topics.estimator.tables import document_columns, pyldavis_arrays, told, topic_columns
from latentfit.topics.init.multistart import climb, polished_by_pairs, random_topics
from latentfit.topics.init.spectral import first_topics, topics_by_triples, word_spectrum
from latentfit.topics.moments import WordPairs
from latentfit.topics.select import TopicNumber, choose_topics

Smoothing = Literal["auto"] | tuple[float, float]

HALVES_SEED = 1
"""Seed of the halves that `score` makes of a document: the same document, the same halves."""
CHOICE_SEED = 0
"""Seed of the splits behind number, pseudo-counts and verdict: `random_state` does not decide any of them."""


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):
    r"""Find the topics of documents, and the shares of the topics in every document.

    A token of document :math:`d` is word :math:`w` with probability :math:`\sum_k \theta_{dk} \varphi_{kw}`, shares
    :math:`\theta_d` and topics :math:`\varphi_k` a posteriori most probable under fixed pseudo-counts. The start is
    spectral: corners of the scaled word-pair matrix, beside a few random ones.

    Parameters
    ----------
    n_topics : int or None
        Number of topics; None chooses it: as many as word pairs of one half of the documents show on the other half,
        and where that never ends, what predicts held-out words well. `random_state` has no part in it.
    init : "auto", "spectral", "random", array (topic, word), frame or fitted TopicModel
        ``"auto"`` is the spectral start beside random ones. Given topics are the only start: an array in the order of
        the words, a frame (topic, word, probability), or a fitted model, whose words are matched by name; words that
        they lack get their share of the corpus.
    n_init : int
        Number of starts.
    smoothing : "auto" or (float, float)
        Pseudo-counts per topic of a document, and per word of a topic (on average, shaped like the marginal);
        ``"auto"`` takes those that predict documents left out best.
    max_topics : int or None
        Largest number that is chosen (up to 40 are compared). It cuts the number that would be chosen without it, and
        a note says so.
    columns : mapping or None
        Names of the columns of a long frame where unusual: {"document": …, "word": …, "count": …}.
    max_iter, tol : int, float
        EM stops when an iteration gains less than `tol` nats per token, or after `max_iter` passes.
    random_state : int or None
        Seed of the random initialisations; None is 0.
    n_jobs : int or None
        Threads; results never depend on them.

    Attributes
    ----------
    topics_ : (topic, word) probabilities of words, heaviest topic first
    weights_ : (topic,) share of all tokens
    proportions_ : (document, topic) shares in the documents of the fit, as `transform` gives them
    words_, documents_ : the user's names
    pseudo_shares_, pseudo_words_ : pseudo-counts (topic,) of a document, and per word
    coherence_ : (topic,) NPMI of the ten top words in the documents of the fit
    topic_table_ : frame (topic, word, probability, rank), the most probable words of a topic first
    document_table_ : frame (document, topic, proportion) of the documents of the fit
    report_ : `latentfit.core.verdict.FitReport`

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
        """Learn topics from documents; `y` is not used.

        Parameters
        ----------
        X : document-term counts (sparse, dense, frame), long frame, texts, token lists, gensim's bags of words
            Any form that `latentfit.topics.data.input` reads; also an iterator of texts, token lists or bags.
        words : sequence, mapping, gensim Dictionary or fitted vectorizer, optional
            Words of the columns of a matrix, or of the ids of bags of words.
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
                prior, chosen, raced = self._refine(documents, starts)
            self._keep(documents, prior, raced.refined)
        self._clock, self._notes = clock, told(raced.name, len(starts), self._chosen, chosen)
        self._warn_limit()
        return self

    def fit_transform(self, X: Any, y: Any = None, *, words: Any = None) -> Floats:
        """Shares of the documents of X, as `fit(X).proportions_`."""
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
            starts["spectral"] = polished_by_pairs(documents, first, resolve_jobs(self.n_jobs))
            third = topics_by_triples(documents.matrix, spectrum) if number == 2 and self.init == "auto" else None
            if third is not None:
                starts["third moment"] = third
        if self.init != "spectral" and number > 1:
            for at in range(self.n_init - len(starts)):
                starts[f"random {at + 1}"] = random_topics(documents, number, seed + 1000 * at)
        return starts or {"random": random_topics(documents, number, seed)}

    def _refine(
        self, documents: Documents, starts: dict[str, Floats]
    ) -> tuple[TopicPrior, PriorChoice | None, Raced[TopicParams, TopicStatistics]]:
        """The pseudo-counts, chosen under the first start, and the best of the starts under them."""
        prior, chosen = self._prior(documents, next(iter(starts.values())))
        steps = TopicSteps.of(documents, prior, self.n_jobs)
        raced = climb(steps, starts, max_iter=self.max_iter, tol=self.tol, callback=self._progress("EM"))
        return prior, chosen, raced

    def _prior(self, documents: Documents, topics: Floats) -> tuple[TopicPrior, PriorChoice | None]:
        if self.smoothing == "auto":
            chosen = choose_prior(documents, topics, CHOICE_SEED, self.n_jobs)
            a, b = chosen.shares, chosen.words
        else:
            chosen, (a, b) = None, self.smoothing
        self.pseudo_words_ = float(b)
        return TopicPrior.of(documents, topics.shape[1], float(a), float(b)), chosen

    def _keep(self, documents: Documents, prior: TopicPrior, refined: Refined[TopicParams, TopicStatistics]) -> None:
        """Hold topics, the heaviest first, and every document's shares under them."""
        self._forget()
        weights = refined.sums.documents.sum(axis=0)
        order = np.argsort(-weights, kind="stable")
        topics = np.ascontiguousarray(refined.params.topics.T[order])
        self._publish(topics, weights[order] / weights.sum(), prior.a[order])
        self.words_, self.documents_, self.word_counts_ = documents.words, documents.names, documents.totals
        self._documents = documents
        self.proportions_ = self._shares(documents)
        self._keep_climb(refined)
        self.selection_ = None
        if self._chosen is not None:
            found = self._chosen
            heldout = {str(k): value for k, value in found.heldout.items()}
            self.selection_ = {"chosen": found.chosen, "directions": found.directions, "heldout": heldout}
            if found.plausible:
                self.selection_["plausible"] = list(found.plausible)
            if found.unlimited is not None:
                self.selection_["without_limit"] = found.unlimited

    def _publish(self, topics: Floats, weights: Floats, pseudo_shares: Floats) -> None:
        """Parameters under their public names."""
        self.topics_, self.weights_, self.pseudo_shares_ = topics, weights, pseudo_shares
        self.n_topics_ = self._n_features_out = len(topics)

    # ------------------------------------------------------------ results

    def top_words(self, n: int = 10) -> list[list[Any]]:
        """The `n` most probable words of every topic."""
        check_is_fitted(self)
        return [self.words_[top].tolist() for top in top_words(self.topics_, n)]

    @cached_property
    def coherence_(self) -> Floats:
        """NPMI (topic,) of the ten top words in the documents of the fit."""
        return self.coherence()

    def coherence(self, X: Any = None, n_words: int = 10) -> Floats:
        """NPMI (topic,) of the top words, in the documents of the fit or in X."""
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
        """What `pyLDAvis.prepare(**…)` takes, for the documents of the fit or X; empty documents are left out."""
        documents = self._given(X, "draw")
        return pyldavis_arrays(documents, self.topics_, self._shares(documents))

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
        """Shares (document, topic) of documents; a document's answer does not depend on its company.

        Words that the fit has not seen are left out, with a warning; a document without known words gets `weights_`.
        """
        check_is_fitted(self)
        return self._shares(self._read(X, reset=False))

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood (document,) in nats of half of every document's tokens given the other half.

        Which half a token is in is drawn from what the document says, so the same document has the same halves.
        """
        check_is_fitted(self)
        documents = self._read(X, reset=False)
        with one_blas_thread():
            topics = np.ascontiguousarray(self.topics_.T)
            return completion(documents, topics, self.pseudo_shares_, HALVES_SEED, self.n_jobs)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean over documents of `score_samples`: document completion, the larger the better."""
        return float(self.score_samples(X).mean())

    def _shares(self, documents: Documents) -> Floats:
        """Shares of documents; one without a known word gets the weights."""
        topics = np.ascontiguousarray(self.topics_.T)
        with one_blas_thread():
            shares, _ = shares_of(documents, topics, self.pseudo_shares_, self.n_jobs)
        shares[documents.lengths == 0] = self.weights_
        return shares

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
            raise DataError(f"init={self.init!r} is not there; give 'auto', 'spectral', 'random', topics or a model")
        if not self.n_init or self.n_init < 1 or (self.max_topics is not None and self.max_topics < 1):
            raise DataError(f"n_init={self.n_init}, max_topics={self.max_topics}; give at least one of each")
        smoothing = self.smoothing
        if isinstance(smoothing, tuple | list):
            good = len(smoothing) == 2 and all(is_amount(value) and value > 0 for value in smoothing)
        else:
            good = isinstance(smoothing, str) and smoothing == "auto"
        if not good:
            raise DataError(
                f"smoothing={smoothing!r}; give 'auto', or two positive numbers (a document's topic, a topic's word)"
            )

    # --------------------------------------------------------- model file

    _state = topic_state
    _restore = restore_topics

    words_: Names
    word_counts_: Floats
    pseudo_words_: float
