"""Communities of a graph: a stochastic block model, degree-corrected where degrees ask for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from tacit.data.frames import backend_of, build_frame
from tacit.data.graph_input import Graph, content_order, read_graph
from tacit.data.names import Names, match
from tacit.diagnose.blocks import FittedBlocks, examine_blocks
from tacit.diagnose.report import FitReport
from tacit.engine.blas import one_blas_thread
from tacit.engine.memory import resolve_jobs
from tacit.errors import DataError, NotIdentifiableError
from tacit.factor.block_starts import Codes, Floats, spectral_labels
from tacit.models.base import LatentModel
from tacit.models.block_file import block_state, restore_blocks
from tacit.models.clock import StageClock, make_report
from tacit.refine.block_degrees import AGREE, DegreeTest, examine_degrees
from tacit.refine.blocks import (
    AT_ONCE,
    ROUNDS,
    Blocks,
    BlockSteps,
    Propagated,
    beliefs_of_new,
    fit_blocks,
    heaviest_first,
)
from tacit.refine.choose_blocks import NumberOfBlocks, choose_blocks
from tacit.refine.starts import Raced

SHORT_WORK, LONG_WORK = 2e6, 2e7
"""Up to so many numbers a sweep (edges · K²) eight starts cost little; beyond so many two have to do."""


class BlockModel(ClusterMixin, LatentModel):
    r"""Find communities in a graph: blocks of nodes that link alike, and how sure each node's block is.

    Nodes i and j of blocks r and s are linked :math:`\mathrm{Poisson}(\theta_i \theta_j \omega_{rs})` times; θ is 1
    (plain) or the node's degree (degree-corrected), so hubs do not make a block of their own. Of weights only ratios
    matter: they are divided by their mean. Blocks start from spectral embeddings (regularised scaled SVD, Bethe
    Hessian), belief propagation gives every node's probabilities, and EM the affinities; the best start by Bethe free
    energy is kept. Blocks need not be denser inside: unlike nodes that link (bipartite, core and periphery) are blocks
    too.

    Parameters
    ----------
    n_blocks : int or None
        Number of blocks; None counts the signals that rise above chance (`report_` says how).
    degree_corrected : {"auto", True, False}
        Whether degrees are taken as given. ``"auto"``: yes, unless degrees inside the blocks vary no more than chance
        makes them and blocks differ in their mean degree: then degrees tell blocks apart, and the plain model is
        fitted.
    max_iter, tol : int, float
        EM stops when an iteration gains less than `tol` nats per edge, or after `max_iter` iterations.
    random_state : int or None
        The one seed; None is 0.
    n_jobs : int or None
        Threads; results never depend on them.

    Attributes
    ----------
    labels_ : (nodes,) the most probable block of every node, 0 is the largest
    probabilities_ : (nodes, blocks) P(block | graph)
    nodes_ : (nodes,) names, in the order of `labels_`
    communities_ : frame (node, block, probability)
    connectivity_ : (blocks, blocks) mean weight of the edge between a node of one block and a node of the other
    weights_ : (blocks,) shares of the blocks
    n_blocks_ : number of blocks
    degree_corrected_ : whether degrees were taken as given
    log_likelihood_ : Bethe's log-likelihood of the graph in nats, blocks summed out (up to a constant of the graph)
    report_ : `tacit.diagnose.report.FitReport`

    Examples
    --------
    >>> from tacit import BlockModel
    >>> from tacit.simulate import block_graph
    >>> made = block_graph(600, 3, 12.0, strength=4.0, random_state=0)
    >>> model = BlockModel().fit(made.matrix)
    >>> model.n_blocks_, model.report_.verdict
    (3, 'trusted')
    >>> edges = [(f"{team}{i}", f"{team}{j}") for team in ("red", "blue") for i in range(8) for j in range(i)]
    >>> model = BlockModel(2).fit([*edges, ("red0", "blue1")])
    >>> sorted(model.nodes_[model.labels_ == model.labels_[0]].tolist())[:3], model.predict([("new", "red3")]).shape
    (['blue0', 'blue1', 'blue2'], (2,))
    """

    _model_name = "BlockModel"
    _for_report = ("_fitted", "_examined", "_clock")

    def __init__(
        self,
        n_blocks: int | None = None,
        *,
        degree_corrected: Literal["auto"] | bool = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_blocks = n_blocks
        self.degree_corrected = degree_corrected
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the blocks of a graph: scipy.sparse, networkx, or edges `source, target[, weight]`; `y` is not used."""
        self._check_settings()
        if self.degree_corrected not in ("auto", True, False):
            raise DataError(f"degree_corrected={self.degree_corrected!r}; give 'auto', True or False")
        clock = StageClock(self.verbose)
        with clock.stage("read"):
            given = read_graph(X)
            self._backend = _backend(X)
            graph, self._unit = given.evened()
            order = content_order(graph)
            graph = graph.reordered(order)
        self._check_number(given)
        for name in ("report_", "communities_"):
            self.__dict__.pop(name, None)
        self._notes = list(given.notes)
        with one_blas_thread():
            number = None
            if self.n_blocks is None:
                with clock.stage("choose"):
                    number = choose_blocks(graph.matrix)
                self._notes.append(number.tell())
            n_blocks = self.n_blocks if number is None else number.chosen
            assert n_blocks is not None
            with clock.stage("start"):
                starts = self._starts(graph, n_blocks)
            with clock.stage("fit"):
                raced, steps, degrees = self._fit(graph, starts, n_blocks)
            self._keep(graph, order, given, raced, steps)
        self._examined = (number, degrees)
        self.selection_ = None if number is None else {"chosen": n_blocks, "informative": number.informative}
        self._clock = clock
        self._warn_limit(self.max_iter)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> Codes:
        """Blocks of the nodes, as `fit(X).labels_`."""
        return self.fit(X).labels_

    def _check_number(self, graph: Graph) -> None:
        linked = int((graph.degrees > 0).sum())
        if self.n_blocks is not None and not 1 <= self.n_blocks <= linked:
            raise NotIdentifiableError(
                f"n_blocks={self.n_blocks} blocks of a graph in which {linked} nodes have edges; give a number from 1 "
                f"to {linked}"
            )

    def _starts(self, graph: Graph, n_blocks: int) -> list[tuple[str, Codes]]:
        if n_blocks == 1:
            return [("one block", np.zeros(graph.n_nodes, np.int64))]
        work, rng = graph.n_edges * n_blocks**2, np.random.default_rng([self._seed(), 1])
        number = 8 if work <= SHORT_WORK else 3 if work <= LONG_WORK else 2
        return list(spectral_labels(graph.matrix, n_blocks, number, rng))

    def _fit(
        self, graph: Graph, starts: list[tuple[str, Codes]], n_blocks: int
    ) -> tuple[Raced[Blocks, Propagated], BlockSteps, DegreeTest | None]:
        corrected, threads = self.degree_corrected is not False, resolve_jobs(self.n_jobs)
        steps = BlockSteps.of(graph, degree_corrected=corrected, threads=threads)
        raced = self._climb(steps, starts, n_blocks)
        self._notes.append(f"the best of {len(starts)} starts by Bethe free energy was {raced.name}")
        links = np.diff(graph.matrix.indptr).astype(np.float64)
        degrees = examine_degrees(links, raced.refined.sums.beliefs) if n_blocks > 1 else None
        if self.degree_corrected == "auto" and degrees is not None and degrees.worth_a_try:
            labels = raced.refined.sums.beliefs.argmax(axis=1)
            with_degrees = BlockSteps.of(graph, degree_corrected=False, threads=threads)
            plain = self._climb(with_degrees, [(raced.name, labels)], n_blocks)
            tested = examine_degrees(links, plain.refined.sums.beliefs)
            if tested.plain and (plain.refined.sums.beliefs.argmax(axis=1) == labels).mean() >= AGREE:
                raced, steps, degrees, corrected = plain, with_degrees, tested, False
                self._notes.append("degrees inside blocks are those of chance and differ between blocks: plain model")
        self.degree_corrected_ = corrected
        return raced, steps, degrees

    def _climb(self, steps: BlockSteps, starts: list[tuple[str, Codes]], n_blocks: int) -> Raced[Blocks, Propagated]:
        rounds = AT_ONCE if steps.n_cells * n_blocks**2 > LONG_WORK else ROUNDS
        return fit_blocks(
            steps, starts, n_blocks, max_iter=self.max_iter, tol=self.tol, rounds=rounds, callback=self._progress("EM")
        )

    def _keep(
        self, graph: Graph, order: NDArray[np.intp], given: Graph, raced: Raced[Blocks, Propagated], steps: BlockSteps
    ) -> None:
        params, sums = heaviest_first(raced)
        refined = raced.refined
        self.n_iter_, self.converged_ = refined.n_iter, refined.converged
        self.log_likelihood_, self.objective_ = refined.log_likelihood, refined.objective
        self.objective_path_ = np.array(refined.path)
        one_block = steps.log_likelihood(steps.expect(steps.begin(np.zeros(graph.n_nodes, np.int64), 1)))
        self._fitted = FittedBlocks(graph, params, sums, refined.log_likelihood, one_block, refined.converged)
        beliefs = np.empty_like(sums.beliefs)
        beliefs[order] = sums.beliefs
        self.probabilities_, self.nodes_ = beliefs, given.names
        self.labels_ = beliefs.argmax(axis=1)
        self.weights_, self._affinity = params.prior, params.affinity
        self._held = steps.edges.mass @ sums.beliefs
        self.n_blocks_ = self.n_components_ = len(params.prior)
        self.n_features_in_, self.n_edges_ = given.n_nodes, given.n_edges
        self.connectivity_ = connectivity(params.affinity, self._held, beliefs) * self._unit

    # ------------------------------------------------------------ results

    @cached_property
    def communities_(self) -> Any:
        """One row per node: node, block, probability."""
        check_is_fitted(self)
        return build_frame(community_columns(self.nodes_, self.probabilities_), self._backend)

    @cached_property
    def report_(self) -> FitReport:
        """Verdict, reasons and numbers; made when asked for."""
        check_is_fitted(self)
        with one_blas_thread(), self._clock.stage("diagnose"):
            number, degrees = self._examined
            notes = list(self._notes)
            if number is None:
                number = choose_blocks(self._fitted.graph.matrix)
                if number.informative > self.n_blocks_:
                    notes.append(f"{number.informative} signals are informative: the graph has a finer division too")
            examination = examine_blocks(self._fitted, number, degrees)
        return make_report(examination, notes, self._clock)

    # ---------------------------------------------------------------- use

    def predict_proba(self, X: Any) -> Floats:
        """P(block) (nodes, blocks) of the nodes of a graph given as in `fit`, in the order of its nodes.

        A node of the fit keeps its probabilities. A new one gets them from its links to nodes of the fit; links among
        new nodes are not used, so the company does not matter. Without any such link it gets the blocks' shares.
        """
        check_is_fitted(self)
        return self.beliefs_in(read_graph(X))

    def predict(self, X: Any) -> Codes:
        """The most probable block (nodes,) of the nodes of a graph."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def beliefs_in(self, graph: Graph) -> Floats:
        """`predict_proba` of a graph that was read already."""
        place = self._places(graph.names)
        new = np.flatnonzero(place < 0)
        beliefs = self.probabilities_[place]
        if len(new):
            known = np.flatnonzero(place >= 0)
            links = sp.coo_array(graph.matrix[new][:, known])
            ends, shape = (links.row, place[known][links.col]), (len(new), len(self.nodes_))
            to_fit = sp.csr_array(sp.coo_array((links.data / self._unit, ends), shape=shape).tocsr())
            to_fit.sort_indices()
            params = Blocks(self.weights_, self._affinity, np.empty((0, 0)), self.probabilities_)
            beliefs[new] = beliefs_of_new(to_fit, params, self._held, degree_corrected=self.degree_corrected_)
        return np.asarray(beliefs)

    def _places(self, names: Names) -> NDArray[np.int64]:
        if names.dtype.kind in "iu" and self.nodes_.dtype.kind in "iu" and np.array_equal(names, self.nodes_):
            return np.arange(len(names))
        return match(names, self.nodes_, "node").astype(np.int64)

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return block_state(self)

    def _restore(self, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]) -> None:
        restore_blocks(self, arrays, metadata)

    labels_: Codes
    probabilities_: Floats
    nodes_: Names
    weights_: Floats
    connectivity_: Floats
    degree_corrected_: bool
    log_likelihood_: float
    objective_: float
    objective_path_: Floats
    n_features_in_: int
    n_edges_: int
    selection_: dict[str, Any] | None
    _examined: tuple[NumberOfBlocks | None, DegreeTest | None]
    _held: Floats
    _unit: float
    _backend: str


def connectivity(affinity: Floats, held: Floats, beliefs: Floats) -> Floats:
    """Mean weight of the edge between a node of block r and one of block s: ω_rs times the mean masses of both."""
    mean = held / np.maximum(beliefs.sum(axis=0), 1e-300)
    return np.asarray(affinity * np.outer(mean, mean))


def community_columns(nodes: Names, beliefs: Floats) -> dict[str, NDArray[Any]]:
    """Columns of communities.csv: node, block, probability."""
    return {"node": nodes, "block": beliefs.argmax(axis=1), "probability": beliefs.max(axis=1)}


def _backend(X: Any) -> str:
    """Who brought a frame gets one of the same kind."""
    if sp.issparse(X) or isinstance(X, Graph | list | tuple) or hasattr(X, "nodes"):
        return "pyarrow"
    return backend_of(X)
