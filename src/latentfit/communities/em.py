"""Block models of graphs: belief propagation for the blocks of the nodes, EM for proportions and affinities.

Paper     Decelle, Krzakala, Moore & Zdeborová 2011 (belief propagation and its Bethe free energy); Yan et al. 2014
          (with degrees). In Huang et al. 2018 a block model is B = D W Dᵀ whose columns of D have disjoint supports;
          their Phase II estimates every item again from its counts with a crude partition: one sweep of what is here
Needs     a sparse graph (loops are long), a start correlated with the blocks
Promises  on graphs drawn from the model, with its parameters, the best overlap any method reaches (above the threshold)
Differs   Poisson edges, so weights count edges and the masses of nodes are free; affinities and proportions carry one
          pseudo-edge and one pseudo-node each (fixed before EM), so no affinity is zero and no block dies of chance.
          Weights are divided by their mean: a graph holds as much evidence as it has edges. Messages that do not settle
          have no free energy (it may be anything): their posterior counts by the mean-field bound instead, so that an
          EM run ends before them

Symbols   paper      here        shape     meaning
          n_a        prior       (K,)      proportions of the blocks
          c_ab / n   affinity    (K, K)    P(edge) = mass_i mass_j affinity_rs
          θ_i        mass        (n,)      1, or the degree (degree-corrected)
          ψ^{i→j}    messages    (2m, K)   at their receiver
          ψ^i        posterior   (n, K)    P(block | graph)
          −f n       log Z                 Bethe's log-likelihood of the graph, blocks summed out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.communities.data import Graph
from latentfit.core.em import Step, em
from latentfit.core.kernels import Floats
from latentfit.core.kernels.belief import Edges, belief_sums, belief_sweeps
from latentfit.core.multistart import Candidate, Selected, successive_halving

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class PropagationSettings:
    """Tuned constants of belief propagation and its EM runs."""

    # Edges, of the graph's mean affinity, and nodes that every affinity and proportion carries beforehand.
    pseudo: float = 1.0
    # Posterior of an initialisation's labels: the rest is spread evenly, so that messages can disagree.
    sure: float = 0.8
    sweeps: int = 20  # sweeps of an E-step at most
    unsettled: float = 1e-2  # mean change above which messages are taken as not settling at all
    damping: float = 0.3  # weight of the old message that is kept while messages do not settle on their own
    even: float = 3.0  # nats of lead that are chance


PROPAGATION = PropagationSettings()


SETTLED = 1e-4
"""Mean change of a posterior below which messages have converged."""
FAVOURITE = "Bethe Hessian"
"""The initialisation that wins unless another leads by `PROPAGATION.even` nats."""
CHUNK = 65_536
"""Links of new nodes heard at a time."""
ROUNDS, AT_ONCE = (3, 6, 12), (0, 3)
"""EM iterations before each successive halving; of large graphs only the best goes on at once."""


@dataclass(frozen=True)
class Blocks:
    """Proportions and affinities, and the messages and posterior that their search begins from."""

    prior: Floats
    affinity: Floats
    messages: Floats
    posterior: Floats


@dataclass(frozen=True)
class Propagated:
    """What messages say at given parameters."""

    messages: Floats
    posterior: Floats
    pairs: Floats  # (K, K) expected weight of edges between blocks, each from both ends
    log_z: float
    change: float  # of the posterior in the last sweep


@dataclass(frozen=True)
class BlockSteps:
    """E-step: messages pass until they settle. M-step: proportions and affinities in closed form."""

    edges: Edges
    reach: NDArray[np.int32]  # (2m,), the other end of every edge
    constant: float  # what the graph's log-likelihood has besides log Z
    threads: int = 1

    @classmethod
    def of(cls, graph: Graph, *, degree_corrected: bool, threads: int = 1) -> BlockSteps:
        """`graph` with weights of mean 1, if it has any."""
        matrix = graph.matrix
        numbered = matrix.copy()
        numbered.data = np.arange(matrix.nnz, dtype=np.int64)
        reverse = numbered.T.tocsr()
        reverse.sort_indices()  # row i of the transpose holds where (j, i) stands, j in order
        weights, degrees = matrix.data if graph.weighted else None, graph.degrees
        mass = degrees if degree_corrected else np.ones(graph.n_nodes)
        edges = Edges(matrix.indptr.astype(np.int64), np.ascontiguousarray(reverse.data), weights, mass)
        known = mass > 0
        return cls(edges, matrix.indices.astype(np.int32), float(degrees[known] @ np.log(mass[known])), threads)

    @property
    def n_cells(self) -> int:
        return self.edges.n_messages // 2

    @property
    def total(self) -> float:
        """Sum of all weights, every edge from both ends."""
        return float(self.edges.n_messages if self.edges.weights is None else self.edges.weights.sum())

    @property
    def mean_affinity(self) -> float:
        return self.total / float(self.edges.mass.sum()) ** 2

    def begin(self, labels: Codes, n_blocks: int) -> Blocks:
        """Parameters and messages of labelled nodes."""
        n, ends = self.edges.n_nodes, np.repeat(labels, np.diff(self.edges.offsets))
        cells = np.bincount(ends * n_blocks + labels[self.reach], self.edges.weights, n_blocks**2).astype(np.float64)
        posterior = np.zeros((n, n_blocks))
        posterior[np.arange(n), labels] = 1.0
        prior, affinity = self._parameters(posterior, cells.reshape(n_blocks, n_blocks))
        posterior = PROPAGATION.sure * posterior + (1 - PROPAGATION.sure) / n_blocks
        return Blocks(prior, affinity, posterior[self.reach], posterior)

    def e_step(self, params: Blocks) -> Propagated:
        messages, posterior = params.messages.copy(), params.posterior.copy()
        arguments = (self.edges, params.prior, params.affinity, messages, posterior)
        change, _ = belief_sweeps(*arguments, sweeps=PROPAGATION.sweeps, tol=SETTLED, threads=self.threads)
        if change >= SETTLED:
            change, _ = belief_sweeps(
                *arguments, sweeps=PROPAGATION.sweeps, tol=SETTLED, damping=PROPAGATION.damping, threads=self.threads
            )
        log_z, pairs = belief_sums(*arguments, threads=self.threads)
        if change > PROPAGATION.unsettled:
            log_z = self._mean_field(params, posterior)
        return Propagated(messages, posterior, pairs, log_z, change)

    def _mean_field(self, params: Blocks, posterior: Floats) -> float:
        """The lower bound on log Z that the posterior gives, taken as independent."""
        n, weights = self.edges.n_nodes, self.edges.weights
        links = np.ones(len(self.reach)) if weights is None else weights
        matrix = sp.csr_array((links, self.reach, self.edges.offsets), shape=(n, n))
        pairs, held = np.asarray(posterior.T @ (matrix @ posterior), np.float64), self.edges.mass @ posterior
        fit = (pairs * np.log(params.affinity)).sum() - held @ params.affinity @ held
        entropy = -np.where(posterior > 0, posterior * np.log(np.maximum(posterior, 1e-300)), 0.0).sum()
        return float(fit / 2 + entropy + posterior.sum(axis=0) @ np.log(params.prior))

    def objective(self, params: Blocks, sums: Propagated) -> float:
        """Log-likelihood plus the logarithm of the prior, up to a constant: Dirichlet proportions, gamma affinities."""
        relative = params.affinity / self.mean_affinity
        gamma = PROPAGATION.pseudo * (np.log(relative) - relative)
        prior = PROPAGATION.pseudo * np.log(params.prior).sum() + (gamma.sum() + np.trace(gamma)) / 2
        return self.log_likelihood(sums) + float(prior)

    def log_likelihood(self, sums: Propagated) -> float:
        return sums.log_z + self.constant

    def m_step(self, sums: Propagated) -> Blocks:
        return Blocks(*self._parameters(sums.posterior, sums.pairs), sums.messages, sums.posterior)

    def _parameters(self, posterior: Floats, pairs: Floats) -> tuple[Floats, Floats]:
        # On the diagonal every edge is met twice, from both ends: so is the pseudo-edge.
        held = self.edges.mass @ posterior
        pseudo = PROPAGATION.pseudo * (1 + np.eye(len(held)))
        affinity = (pairs + pseudo) / (np.outer(held, held) + pseudo / self.mean_affinity)
        prior = (posterior.sum(axis=0) + PROPAGATION.pseudo) / (len(posterior) + PROPAGATION.pseudo * len(held))
        return prior, affinity

    def extrapolate(self, start: Blocks, once: Blocks, twice: Blocks) -> Blocks:
        """No extrapolation: messages have no direction to go on in."""
        return twice


def fit_blocks(
    steps: BlockSteps,
    starts: Sequence[tuple[str, Codes]],
    n_blocks: int,
    *,
    max_iter: int,
    tol: float,
    rounds: Sequence[int] = ROUNDS,
    callback: Callable[[Step], None] | None = None,
) -> Selected[Blocks, Propagated]:
    """The best of several labellings by Bethe free energy with its prior, by successive halving.

    An EM run may empty blocks that the graph hardly shows. When the best one did, every run goes on to its end, and
    the best that kept all blocks is taken, if there is one: who asks for K blocks gets K. A lead of less than
    `PROPAGATION.even` nats is chance, and then the Bethe Hessian's run is taken, which has the theory on its side at
    the threshold.
    """
    candidates = [Candidate(name, steps, steps.begin(labels, n_blocks)) for name, labels in starts]
    rounds = rounds if len(candidates) > 1 else rounds[:1]
    selected = successive_halving(candidates, rounds=rounds, max_iter=max_iter, tol=tol, callback=callback)
    if blocks_in_use(selected.refined.sums) == n_blocks:
        return selected if rounds is AT_ONCE else _or_favourite(selected, candidates, max_iter, tol)
    best_full = selected
    for candidate in candidates:
        refined = em(steps, candidate.start, max_iter=max_iter, tol=tol)
        kept_all = blocks_in_use(refined.sums) == n_blocks
        if kept_all and (best_full is selected or refined.objective > best_full.refined.objective):
            best_full = replace(selected, name=candidate.name, refined=refined)
    return best_full


def _or_favourite(
    selected: Selected[Blocks, Propagated],
    candidates: Sequence[Candidate[Blocks, Propagated]],
    max_iter: int,
    tol: float,
) -> Selected[Blocks, Propagated]:
    """The winner, or the Bethe Hessian's EM run when the winner leads by chance."""
    favourite = next((one for one in candidates if one.name == FAVOURITE != selected.name), None)
    if favourite is None:
        return selected
    own = em(favourite.steps, favourite.start, max_iter=max_iter, tol=tol)
    close = selected.refined.objective - own.objective < PROPAGATION.even
    if close and blocks_in_use(own.sums) == blocks_in_use(selected.refined.sums):
        return replace(selected, name=favourite.name, refined=own)
    return selected


def blocks_in_use(sums: Propagated) -> int:
    """Blocks that are the most probable one of some node."""
    return len(np.unique(sums.posterior.argmax(axis=1)))


def heaviest_first(selected: Selected[Blocks, Propagated]) -> tuple[Blocks, Propagated]:
    """Parameters and messages, the blocks in order of the nodes assigned to them; of equals that of their
    proportions."""
    params, sums = selected.refined.params, selected.refined.sums
    assigned = np.bincount(sums.posterior.argmax(axis=1), minlength=sums.posterior.shape[1])
    order = np.lexsort((-sums.posterior.sum(axis=0), -assigned))
    messages, posterior = (np.ascontiguousarray(rows[:, order]) for rows in (sums.messages, sums.posterior))
    pairs, affinity = (np.ascontiguousarray(square[np.ix_(order, order)]) for square in (sums.pairs, params.affinity))
    blocks = Blocks(params.prior[order], affinity, messages, posterior)
    return blocks, replace(sums, pairs=pairs, messages=messages, posterior=posterior)


def posterior_of_new(links: sp.csr_array, params: Blocks, held: Floats, *, degree_corrected: bool) -> Floats:
    """P(block) (q, K) of new nodes from their links (q, n), weighted as in the fit, to nodes of the fit.

    The fit never saw the new nodes, so the posteriors of their neighbours are the messages to them. Every sum runs over
    one node's links alone: the company does not matter.
    """
    mass = np.asarray(links.sum(axis=1)).reshape(-1) if degree_corrected else np.ones(links.shape[0])
    scores = np.log(params.prior) - mass[:, None] * (params.affinity @ held)
    relative = np.log(params.affinity / params.affinity.max())
    linked = np.flatnonzero(np.diff(links.indptr))
    logs = np.empty((links.nnz, len(held)))
    for begin in range(0, links.nnz, CHUNK):
        part = slice(begin, begin + CHUNK)
        neighbours = params.posterior[links.indices[part]]
        factors = np.exp(links.data[part, None, None] * relative)
        heard = np.zeros_like(neighbours)
        for s in range(neighbours.shape[1]):  # in this order, whatever the number of links
            heard += factors[:, :, s] * neighbours[:, s, None]
        logs[part] = np.log(heard)
    if len(linked):
        scores[linked] += np.add.reduceat(logs, links.indptr[:-1][linked], axis=0)
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
