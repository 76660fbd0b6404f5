"""Communities of a graph: a stochastic block model, degree-corrected where degrees ask for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.communities.data import Graph, content_order, read_graph
from latentfit.communities.diagnostics import (
    DROPPED,
    FittedBlocks,
    Resample,
    compare_divisions,
    examine_blocks,
    without_some_edges,
)
from latentfit.communities.em import (
    AT_ONCE,
    ROUNDS,
    Blocks,
    BlockSteps,
    Propagated,
    blocks_in_use,
    fit_blocks,
    heaviest_first,
    posterior_of_new,
)
from latentfit.communities.init import Codes, spectral_labels
from latentfit.communities.select import AGREE, DegreeTest, NumberOfBlocks, choose_blocks, examine_degrees
from latentfit.core import model_file
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.kernels.belief import MOST_BLOCKS
from latentfit.core.model_file import POSITIVE, Array, Schema
from latentfit.core.multistart import Selected
from latentfit.core.names import Names, match
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs

SHORT_WORK, LONG_WORK = 2e6, 2e7
"""Up to so many numbers a sweep (edges · K²) eight starts cost little; beyond so many two have to do."""
RESAMPLED_ITERATIONS = 30
"""EM iterations at most of the fits without some edges."""


SCHEMA = Schema(
    {
        "probabilities": Array(("n", "K"), sums_to_one=True),
        "weights": Array(("K",), low=POSITIVE, sums_to_one=True),
        "affinity": Array(("K", "K"), low=POSITIVE),
        "held": Array(("K",)),
    },
    names={"nodes": "n"},
    values={"n_edges": (int, 0), "corrected": (bool, 0), "unit": (float, POSITIVE)},
)
"""What the model file holds, beside the fit history."""


class BlockModel(ClusterMixin, LatentModel):
    r"""Find communities in a graph: blocks of nodes that link alike, and how sure each node's block is.

    Nodes i and j of blocks r and s are linked :math:`\mathrm{Poisson}(\theta_i \theta_j \omega_{rs})` times; θ is 1
    (plain) or the node's degree (degree-corrected), so hubs do not make a block of their own. Of weights only ratios
    matter: they are divided by their mean. Blocks are initialised from spectral embeddings (regularised scaled SVD,
    Bethe Hessian), belief propagation gives every node's posterior, and EM the affinities; the initialisation with the
    best Bethe free energy is selected. Blocks need not be denser inside: unlike nodes that link (bipartite, core and
    periphery) are blocks too.

    Parameters
    ----------
    n_blocks : int or None, default None
        Number of blocks; None counts the informative eigenvalues of the Bethe Hessian (`report_` says how) and leaves
        out blocks to which the fit assigns no node.
    degree_corrected : {"auto", True, False}, default "auto"
        Whether degrees are taken as given. ``"auto"``: yes, unless degrees inside the blocks vary no more than Poisson
        counts do and blocks differ in their mean degree: then degrees help to separate blocks, and the plain model is
        fitted.
    max_iter : int, default 100
        Largest number of EM iterations; 0 returns the initialisation.
    tol : float, default 1e-6
        EM has converged when an iteration gains less than `tol` nats per edge; 0 runs all of `max_iter`.
    random_state : int or None, default None
        Seed; None means 0.
    n_jobs : int or None, default None
        Number of threads; results do not depend on it.
    verbose : int, default 0
        1 logs the stages and EM iterations.
    engine : str, default "auto"
        Where passes over the data run.

    Attributes
    ----------
    labels_ : ndarray of shape (n_nodes,)
        The most probable block of each node; block 0 has most nodes, and so on.
    probabilities_ : ndarray of shape (n_nodes, n_blocks)
        Posterior P(block | graph).
    nodes_ : ndarray of shape (n_nodes,)
        Names, in the order of `labels_`.
    communities_ : frame
        Columns node, block, probability.
    connectivity_ : ndarray of shape (n_blocks, n_blocks)
        Mean weight of the edge between a node of one block and a node of the other.
    weights_ : ndarray of shape (n_blocks,)
        Proportions of the blocks.
    n_blocks_ : int
        Number of blocks.
    n_components_ : int
        The same as `n_blocks_`, under the name that all estimators share.
    n_edges_ : int
        Number of edges of the graph.
    selection_ : dict or None
        How the number of blocks was chosen; None when it was given.
    degree_corrected_ : bool
        Whether degrees were taken as given.
    n_iter_ : int
        Number of EM iterations.
    converged_ : bool
        Whether EM converged within `max_iter` iterations.
    log_likelihood_ : float
        Bethe approximation of the log-likelihood of the graph in nats, blocks summed out (up to a constant).
    objective_ : float
        Log-likelihood plus the logarithm of the prior.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons and diagnostics.

    Examples
    --------
    >>> from latentfit import BlockModel
    >>> from latentfit.simulate import block_graph
    >>> made = block_graph(600, 3, 12.0, strength=4.0, random_state=0)
    >>> model = BlockModel().fit(made.matrix)
    >>> model.n_blocks_, model.report_.verdict
    (3, 'ok')
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
        """Fit blocks to a graph; edges are taken as undirected.

        Parameters
        ----------
        X : sparse matrix, array, networkx or igraph graph, frame, list of edges
            An adjacency matrix of shape (n_nodes, n_nodes), a graph, or edges `source, target[, weight]`.
        y : None
            Not used.

        Returns
        -------
        self : BlockModel
            The fitted model.
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                given = self._read(X)
                graph, self._unit = given.evened()
                order = content_order(graph)
                graph = graph.reordered(order)
            with clock.stage("number"):
                n_blocks, number = self._choose(graph)
            with clock.stage("factor"):
                starts = self._starts(graph, n_blocks)
            with clock.stage("refine"):
                selected, steps, degrees = self._refine(graph, starts, n_blocks)
                if number is not None:
                    selected, degrees = self._without_empty(graph, steps, selected, degrees)
                    number = replace(number, left_out=n_blocks - selected.refined.sums.posterior.shape[1])
            self._keep(graph, order, given, selected, steps)
        self._examined = (number, degrees)
        self.selection_ = None if number is None else {"chosen": self.n_blocks_, "informative": number.informative}
        self._clock = clock
        self._warn_limit()
        return self

    def _choose(self, graph: Graph) -> tuple[int, NumberOfBlocks | None]:
        """The number of blocks: as given, or counted, and then how."""
        if self.n_blocks is None:
            number = choose_blocks(graph.matrix)
            self._notes.append(number.describe())
            return number.chosen, number
        linked = int((graph.degrees > 0).sum())
        most = min(linked, MOST_BLOCKS)
        if not 1 <= self.n_blocks <= most:
            raise NotIdentifiableError(
                f"n_blocks must be an int from 1 to {most} for a graph in which {linked} nodes have edges, "
                f"got {self.n_blocks}"
            )
        return self.n_blocks, None

    def _starts(self, graph: Graph, n_blocks: int) -> list[tuple[str, Codes]]:
        if n_blocks == 1:
            return [("one block", np.zeros(graph.n_nodes, np.int64))]
        work, rng = graph.n_edges * n_blocks**2, np.random.default_rng([self._seed(), 1])
        number = 8 if work <= SHORT_WORK else 3 if work <= LONG_WORK else 2
        return list(spectral_labels(graph.matrix, n_blocks, number, rng))

    def _refine(
        self, graph: Graph, starts: list[tuple[str, Codes]], n_blocks: int
    ) -> tuple[Selected[Blocks, Propagated], BlockSteps, DegreeTest | None]:
        corrected, threads = self.degree_corrected in ("auto", True), resolve_jobs(self.n_jobs)
        steps = BlockSteps.of(graph, degree_corrected=corrected, threads=threads)
        selected = self._best_em_run(steps, starts, n_blocks)
        self._notes.append(f"the best of {len(starts)} initialisations by Bethe free energy was {selected.name}")
        links = np.diff(graph.matrix.indptr).astype(np.float64)
        degrees = examine_degrees(links, selected.refined.sums.posterior) if n_blocks > 1 else None
        if self.degree_corrected == "auto" and degrees is not None and degrees.worth_a_try:
            labels = selected.refined.sums.posterior.argmax(axis=1)
            with_degrees = BlockSteps.of(graph, degree_corrected=False, threads=threads)
            plain = self._best_em_run(with_degrees, [(selected.name, labels)], n_blocks)
            tested = examine_degrees(links, plain.refined.sums.posterior)
            if tested.plain and (plain.refined.sums.posterior.argmax(axis=1) == labels).mean() >= AGREE:
                selected, steps, degrees, corrected = plain, with_degrees, tested, False
                self._notes.append("degrees inside blocks are those of chance and differ between blocks: plain model")
        self.degree_corrected_ = corrected
        return selected, steps, degrees

    def _without_empty(
        self, graph: Graph, steps: BlockSteps, selected: Selected[Blocks, Propagated], degrees: DegreeTest | None
    ) -> tuple[Selected[Blocks, Propagated], DegreeTest | None]:
        """The same without blocks that no node is in: nobody asked for them. EM goes on from the other blocks."""
        before = selected.refined.sums.posterior.shape[1]
        while (used := blocks_in_use(selected.refined.sums)) < selected.refined.sums.posterior.shape[1]:
            labels = np.unique(selected.refined.sums.posterior.argmax(axis=1), return_inverse=True)[1].reshape(-1)
            selected = self._best_em_run(steps, [(selected.name, labels.astype(np.int64))], used)
        if (left := before - used) > 0:
            self._notes.append(f"{left} of {before} blocks were empty after the last fit and were left out")
            links = np.diff(graph.matrix.indptr).astype(np.float64)
            degrees = examine_degrees(links, selected.refined.sums.posterior) if used > 1 else None
        return selected, degrees

    def _best_em_run(
        self, steps: BlockSteps, starts: list[tuple[str, Codes]], n_blocks: int
    ) -> Selected[Blocks, Propagated]:
        rounds = AT_ONCE if steps.n_cells * n_blocks**2 > LONG_WORK else ROUNDS
        return fit_blocks(
            steps, starts, n_blocks, max_iter=self.max_iter, tol=self.tol, rounds=rounds, callback=self._progress("EM")
        )

    def _keep(
        self,
        graph: Graph,
        order: NDArray[np.intp],
        given: Graph,
        selected: Selected[Blocks, Propagated],
        steps: BlockSteps,
    ) -> None:
        self._forget()
        params, sums = heaviest_first(selected)
        refined = selected.refined
        self._keep_fit(refined)
        one_block = steps.log_likelihood(steps.e_step(steps.begin(np.zeros(graph.n_nodes, np.int64), 1)))
        self._fitted = FittedBlocks(
            graph, params, sums, refined.log_likelihood, one_block, refined.converged, self.degree_corrected_
        )
        posterior = np.empty_like(sums.posterior)
        posterior[order] = sums.posterior
        self.nodes_, self.n_features_in_, self.n_edges_ = given.names, given.n_nodes, given.n_edges
        self._publish(posterior, params.prior, params.affinity, steps.edges.mass @ sums.posterior)

    def _publish(self, posterior: Floats, weights: Floats, affinity: Floats, held: Floats) -> None:
        """Parameters under their public names; `held` is the mass that every block holds."""
        self.probabilities_, self.labels_ = posterior, posterior.argmax(axis=1)
        self.weights_, self._affinity, self._held = weights, affinity, held
        self.n_blocks_ = self.n_components_ = len(weights)
        mean = held / np.maximum(posterior.sum(axis=0), 1e-300)
        self.connectivity_ = np.asarray(affinity * np.outer(mean, mean)) * self._unit

    # ------------------------------------------------------------ results

    @cached_property
    def communities_(self) -> Any:
        """One row per node: node, block, probability."""
        check_is_fitted(self)
        return build_frame(community_columns(self.nodes_, self.probabilities_), self._backend)

    def _examine(self, notes: list[str]) -> Examination:
        number, degrees = self._examined
        if number is None:
            number = choose_blocks(self._fitted.graph.matrix)
            if number.informative > self.n_blocks_:
                notes.append(
                    f"{number.informative} informative Bethe-Hessian eigenvalues: the graph has a finer division too"
                )
        return examine_blocks(self._fitted, number, degrees, self._resamples())

    def _resamples(self) -> list[Resample]:
        """The blocks compared with those of the graph without some of its edges.

        Twice, or once where a fit is long, each from one or two initialisations: together no dearer than the fit.
        """
        fitted, K = self._fitted, self.n_blocks_
        if K == 1 or self.max_iter == 0:
            return []
        labels, resamples = fitted.sums.posterior.argmax(axis=1), list[Resample]()
        large = fitted.graph.n_edges * K**2 > SHORT_WORK
        for draw in range(1 if large else 2):
            fewer = without_some_edges(fitted.graph.matrix, DROPPED, draw)
            linked = np.diff(fewer.indptr) > 0
            if linked.sum() <= K:
                continue
            graph = replace(fitted.graph, matrix=fewer, directed=None)
            steps = BlockSteps.of(graph, degree_corrected=self.degree_corrected_, threads=resolve_jobs(self.n_jobs))
            starts = list(spectral_labels(fewer, K, 1 if large else 2, np.random.default_rng([self._seed(), 2, draw])))
            selected = fit_blocks(steps, starts, K, max_iter=RESAMPLED_ITERATIONS, tol=self.tol, rounds=AT_ONCE)
            resamples.append(compare_divisions(labels, selected.refined.sums.posterior.argmax(axis=1), linked))
        return resamples

    # ---------------------------------------------------------------- use

    def predict_proba(self, X: Any) -> Floats:
        """Posterior of the block of each node of a graph.

        A node of the fit keeps its probabilities. A new node gets them from its edges to nodes of the fit; edges among
        new nodes are not used, so its answer does not depend on the other new nodes. Without any such edge it gets
        `weights_`.

        Parameters
        ----------
        X : sparse matrix, array, networkx or igraph graph, frame, list of edges
            An adjacency matrix of shape (n_nodes, n_nodes), a graph, or edges `source, target[, weight]`.

        Returns
        -------
        ndarray of shape (n_nodes, n_blocks)
            In the order of the graph's nodes.
        """
        check_is_fitted(self)
        return self.posterior_in(read_graph(X, nodes=self.nodes_))

    def predict(self, X: Any) -> Codes:
        """Most probable block of each node of a graph.

        Parameters
        ----------
        X : sparse matrix, array, networkx or igraph graph, frame, list of edges
            An adjacency matrix of shape (n_nodes, n_nodes), a graph, or edges `source, target[, weight]`.

        Returns
        -------
        ndarray of shape (n_nodes,)
            In the order of the graph's nodes.
        """
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def posterior_in(self, graph: Graph) -> Floats:
        """Posterior of the block of each node of a graph that was read already, as `predict_proba`.

        Parameters
        ----------
        graph : Graph
            As `latentfit.communities.data.read_graph` returns it.

        Returns
        -------
        ndarray of shape (n_nodes, n_blocks)
        """
        check_is_fitted(self)
        place = self._places(graph.names)
        new = np.flatnonzero(place < 0)
        posterior = self.probabilities_[place]
        if len(new):
            known = np.flatnonzero(place >= 0)
            links = sp.coo_array(graph.matrix[new][:, known])
            ends, shape = (links.row, place[known][links.col]), (len(new), len(self.nodes_))
            to_fit = sp.csr_array(sp.coo_array((links.data / self._unit, ends), shape=shape).tocsr())
            to_fit.sort_indices()
            params = Blocks(self.weights_, self._affinity, np.empty((0, 0)), self.probabilities_)
            posterior[new] = posterior_of_new(to_fit, params, self._held, degree_corrected=self.degree_corrected_)
        return np.asarray(posterior)

    def _places(self, names: Names) -> NDArray[np.int64]:
        if names.dtype.kind in "iu" and self.nodes_.dtype.kind in "iu" and np.array_equal(names, self.nodes_):
            return np.arange(len(names))
        return match(names, self.nodes_, "node").astype(np.int64)

    # -------------------------------------------------------------- input

    def _read(self, X: Any) -> Graph:
        given = read_graph(X)
        self._backend, self._notes = _backend(X), list(given.notes)
        return given

    def _check_options(self) -> None:
        if self.degree_corrected not in ("auto", True, False):
            raise DataError(f"degree_corrected must be 'auto', True or False, got {self.degree_corrected!r}")

    # --------------------------------------------------------- model file

    # What the model file of a block model holds: the nodes and their probabilities, affinities, the fit history.

    def _state(self) -> tuple[model_file.Arrays, dict[str, Any]]:
        arrays = {"probabilities": self.probabilities_, "weights": self.weights_}
        arrays |= {"affinity": self._affinity, "held": self._held}
        metadata = {
            "nodes": model_file.plain_names(self.nodes_.tolist()),
            "n_edges": int(self.n_edges_),
            "corrected": bool(self.degree_corrected_),
            "unit": float(self._unit),
        }
        return model_file.with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: model_file.Arrays, metadata: dict[str, Any]) -> None:
        SCHEMA.check(arrays, metadata)
        nodes = metadata["nodes"]
        model_file.restore_fit_history(self, arrays, metadata)
        if self.n_features_in_ != len(nodes):
            raise ValueError(f"it has {len(nodes)} nodes and {self.n_features_in_} features")
        self.n_edges_, self._unit = metadata["n_edges"], metadata["unit"]
        self.degree_corrected_ = metadata["corrected"]
        self.nodes_ = model_file.name_array(nodes, "nodes")
        self._publish(*(arrays[name] for name in SCHEMA.arrays))

    nodes_: Names
    labels_: Codes
    degree_corrected_: bool
    n_edges_: int
    _unit: float
    _examined: tuple[NumberOfBlocks | None, DegreeTest | None]


def community_columns(nodes: Names, posterior: Floats) -> dict[str, NDArray[Any]]:
    """Columns of communities.csv: node, block, probability."""
    return {"node": nodes, "block": posterior.argmax(axis=1), "probability": posterior.max(axis=1)}


def _backend(X: Any) -> str:
    """Who brought a frame gets one of the same kind."""
    if sp.issparse(X) or isinstance(X, Graph | list | tuple) or hasattr(X, "nodes") or hasattr(X, "vs"):
        return "pyarrow"
    return backend_of(X)
