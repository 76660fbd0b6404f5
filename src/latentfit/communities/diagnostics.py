"""Can the communities be trusted? The verdict, with the numbers behind it.

`not identifiable` when the graph shows no division at all: every signal besides its density is one that chance makes.
`caution` when fewer signals than blocks rise above chance, when blocks hold hardly a node, when most labels are guesses
by their own probabilities, when a block reaches over pieces of the graph that nothing connects, when the blocks of the
graph without a tenth of its edges are others, when links have a direction that says more, or when belief propagation or
EM did not converge.

Paper     Huang et al. 2018, Section 5.1, with the thresholds of Mossel, Neeman & Sly and of Massoulié: below
          (a − b)² = 2(a + b) no method does better than guessing
Needs     fitted blocks, the signals of the graph (`communities/init.py`)
Promises  on simulated graphs verdicts as docs/guide/communities.md counts them
Differs   thresholds of any number of blocks and uneven degrees, by the eigenvalues of the blocks' transitions

Symbols   paper   here       shape     meaning
          a, b    a, b       —         links a node has inside and between two equal blocks
          —       affinity   (K, K)    as in `communities/em.py`
          —       posterior  (n, K)    P(block | graph)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from latentfit.communities.data import Graph
from latentfit.communities.em import SETTLED, Blocks, Propagated
from latentfit.communities.init import Codes, branching
from latentfit.communities.select import DegreeTest, NumberOfBlocks
from latentfit.core.kernels import Floats
from latentfit.core.spectral import leading_singular
from latentfit.core.verdict import Examination, Examiner


@dataclass(frozen=True)
class Thresholds:
    """Values at which a check reports."""

    fewest: float = 5.0  # nodes that a block should hold
    # Certainty beyond guessing (0: posteriors are the blocks' proportions, 1: every node sure) below which labels say
    # little.
    vague: float = 0.15
    piece: float = 0.05  # proportion of the nodes that a second piece of the graph must hold to matter
    inside: float = 0.2  # proportion of a piece's nodes in a block for the block to reach into it
    # Adjusted Rand index that blocks should keep without `DROPPED` of the edges: simulated blocks 2.5 times above the
    # threshold kept .80 and more, divisions of graphs without communities (triangles, grids) .55 and less.
    agree: float = 0.65
    # Proportion of links that are returned below which direction may matter, and by how much its signal must exceed
    # 1.
    mutual: float = 0.5
    directed: float = 0.1


THRESHOLDS = Thresholds()


STILL_MOVING = 20 * SETTLED
"""Mean change of the posterior in a sweep that still matters."""
DROPPED = 0.1
"""Proportion of the edges that the fits of the stability check go without."""


@dataclass(frozen=True)
class FittedBlocks:
    """What the diagnosis looks at."""

    graph: Graph
    params: Blocks
    sums: Propagated
    log_likelihood: float
    one_block: float  # log-likelihood of a single block on the same graph
    converged: bool


def detection_ratio(a: float, b: float) -> float:
    """(a − b)² / (2(a + b)) of two equal blocks linked with a/n inside and b/n between: above 1 they can be found.

    Examples
    --------
    >>> from latentfit.communities.diagnostics import detection_ratio
    >>> detection_ratio(10.0, 2.0)
    2.6666666666666665
    """
    return (a - b) ** 2 / (2 * (a + b))


def kesten_stigum(affinity: Floats, held: Floats, branching: float) -> Floats:
    """Signal-to-noise ratios (K − 1,) of the directions of K blocks, the strongest first: above 1 one can be found.

    With T_rs = P(a neighbour of a node of block r is in s) and its eigenvalues 1 = λ₁, λ₂, …, the ratio is
    branching · λ²; for two equal blocks it is `detection_ratio`. `held` is the mass of every block (their proportions
    in the plain model, their degrees else), `branching` the mean number of further edges behind an edge.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.communities.diagnostics import kesten_stigum
    >>> kesten_stigum(np.array([[10.0, 2.0], [2.0, 10.0]]), np.array([0.5, 0.5]), 6.0).round(3).tolist()
    [2.667]
    """
    flow = affinity * held
    T = flow / flow.sum(axis=1, keepdims=True)
    values = np.linalg.eigvals(T).real
    rest = np.delete(values, int(np.argmax(values)))
    return np.sort(branching * rest**2)[::-1]


def expected_overlap(posterior: Floats) -> float:
    """How much better than guessing labels are if posteriors are right: 0 at the largest proportion, 1 when all are
    sure."""
    guess = float(posterior.mean(axis=0).max())
    return float((posterior.max(axis=1).mean() - guess) / max(1 - guess, 1e-12)) if guess < 1 else 1.0


def without_some_edges(matrix: sp.csr_array, proportion: float, seed: int) -> sp.csr_array:
    """The graph without a proportion of its edges, which ones the seed draws."""
    upper = sp.triu(matrix, 1).tocoo()
    kept_edges = np.random.default_rng([seed, 9]).random(upper.nnz) >= proportion
    ends = (upper.row[kept_edges], upper.col[kept_edges])
    half = sp.coo_array((upper.data[kept_edges], ends), shape=matrix.shape)
    thinned = sp.csr_array(half + half.T)
    thinned.sort_indices()
    return thinned


def agreement(labels: Codes, others: Codes, linked: NDArray[np.bool_]) -> float:
    """Adjusted Rand index of two divisions of the nodes that have edges: 1 the same, 0 as alike as by chance."""
    return float(adjusted_rand_score(labels[linked], others[linked])) if linked.any() else 0.0


def direction_signal(directed: sp.csr_array, matrix: sp.csr_array) -> float:
    """How far the direction of links is from coin flips: above 1 it follows a pattern that no coins make.

    With s_ij = 1 where the link of i and j goes from i to j, −1 where it comes back and 0 where it goes both ways, i·s
    is Hermitian. Were every link's direction a coin flip, its entries would be independent, and the spectrum that of a
    graph without blocks: no eigenvalue beyond 1 in the scaling of `communities/init.py`.
    """
    there, back = sp.csr_array(directed), sp.csr_array(directed.T)
    both = sp.csr_array(there + back)
    lead = sp.csr_array(there - back).tocoo()
    signs = lead.data / np.asarray(both[lead.row, lead.col]).reshape(-1)
    links = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    squared = max(branching(matrix), 1 + 1e-9)
    root = 1 / np.sqrt(1 + np.diff(links.indptr) / (squared - 1))
    values = signs * root[lead.row] * root[lead.col] / (squared - 1)
    skew = sp.csr_array(sp.coo_array((values, (lead.row, lead.col)), shape=matrix.shape))
    if skew.nnz == 0:
        return 0.0
    leading = float(sp.linalg.norm(skew)) if skew.shape[0] < 3 else float(leading_singular(skew, 1, tol=1e-3)[0][0])
    return leading * float(np.sqrt(squared))


def examine_blocks(
    fitted: FittedBlocks,
    number: NumberOfBlocks,
    degrees: DegreeTest | None,
    agreements: list[float] | None = None,
) -> Examination:
    """Diagnose fitted blocks; `agreements` are those with the blocks of the graph without some of its edges."""
    examiner, graph, posterior = Examiner(), fitted.graph, fitted.sums.posterior
    K, sizes = posterior.shape[1], posterior.sum(axis=0)
    held = graph.degrees @ posterior
    examiner.quantities |= {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_edges,
        "mean_degree": float(graph.degrees.mean()),
        "branching": number.radius**2,
        "informative_signals": number.signals,
        "strengths": number.strengths,
        "n_informative": number.informative,
        "sizes": sizes.tolist(),
        "gain_over_one_block": (fitted.log_likelihood - fitted.one_block) / max(graph.n_edges, 1),
        "expected_overlap": expected_overlap(posterior),
        "belief_change": fitted.sums.change,
    }
    if degrees is not None:
        examiner.quantities |= {"degree_dispersion": degrees.dispersion, "p_equal_degrees": degrees.p_equal_means}
    if K > 1:
        ratios = kesten_stigum(fitted.sums.pairs / np.maximum(np.outer(held, held), 1e-300), held, number.radius**2)
        examiner.quantities["signal_to_noise"] = ratios.tolist()
    _examine_signals(examiner, K, number)
    if K > 1:
        _examine_fit(examiner, fitted, sizes)
        _examine_pieces(examiner, graph.matrix, posterior)
        if agreements:
            _examine_agreement(examiner, agreements)
    if graph.directed is not None:
        _examine_direction(examiner, graph.directed, graph.matrix)
    examiner.check_converged(fitted.converged)
    return examiner.conclude()


def _examine_agreement(examiner: Examiner, agreements: list[float]) -> None:
    mean = float(np.mean(agreements))
    examiner.quantities |= {"agreement_without_edges": agreements}
    if mean < THRESHOLDS.agree:
        examiner.doubt(
            "caution",
            f"The division is unstable: without {DROPPED:.0%} of the edges the blocks are others (adjusted Rand index "
            f"{mean:.2f}; 1 is the same division); take it as one description of the graph among several, or ask for "
            "fewer blocks.",
        )


def _examine_direction(examiner: Examiner, directed: sp.csr_array, matrix: sp.csr_array) -> None:
    there = directed.astype(bool)
    mutual = int(there.multiply(there.T).sum())
    reciprocity = mutual / max(int(there.sum()), 1)
    signal = direction_signal(directed, matrix)
    examiner.quantities |= {"reciprocity": reciprocity, "direction_signal": signal}
    if reciprocity < THRESHOLDS.mutual and signal > 1 + THRESHOLDS.directed:
        examiner.doubt(
            "caution",
            f"Links were taken as undirected, and their direction follows a pattern that the blocks do not show ("
            f"{reciprocity:.0%} of the links are returned): groups that differ only in whom they point to, or in who "
            "points to them, are one block here; a directed block model would tell them apart.",
        )


def _examine_signals(examiner: Examiner, K: int, number: NumberOfBlocks) -> None:
    seen = number.informative
    if seen == 1:
        consequence = "so blocks found in it are those of chance" if K > 1 else "so it is taken as one block"
        examiner.doubt(
            "not identifiable" if K > 1 else "caution",
            f"The graph shows no communities besides its density, {consequence}: there are none, or they lie below the "
            "threshold (a − b)² = 2(a + b) where no method finds them; bring more edges.",
        )
    elif number.left_out:
        examiner.doubt(
            "caution",
            f"{K + number.left_out} blocks were chosen for {seen} informative Bethe-Hessian eigenvalues, and no node "
            f"was assigned to {number.left_out} of them: short loops (a grid, a ring, a geometry) make eigenvalues "
            "that are no communities, and then the other blocks are pieces of the graph; ask for fewer blocks.",
        )
    elif number.at_limit and seen == K:
        examiner.doubt(
            "caution",
            f"{seen} informative Bethe-Hessian eigenvalues are all that are looked for, and there may be more: several "
            "groups may be in one block, or the graph is a geometry without groups; give n_blocks (--blocks) a number "
            f"above {seen} to see finer ones.",
        )
    elif seen < K and not number.at_limit:
        examiner.doubt(
            "caution",
            f"{K} blocks are asked for and {seen} Bethe-Hessian eigenvalues are informative in a graph of this "
            f"density; ask for {seen}, or bring more edges.",
        )


def _examine_fit(examiner: Examiner, fitted: FittedBlocks, sizes: Floats) -> None:
    small = np.flatnonzero(sizes < THRESHOLDS.fewest)
    if len(small):
        examiner.doubt(
            "caution",
            f"Block {small[-1]} holds {sizes[small[-1]]:.1f} nodes, fewer than {THRESHOLDS.fewest:.0f}; ask for fewer "
            "blocks.",
        )
    certain = examiner.quantities["expected_overlap"]
    if certain < THRESHOLDS.vague:
        examiner.doubt(
            "caution",
            f"Most nodes could be in several blocks (labels are {certain:.0%} better than guessing by their own "
            "probabilities): look at the probabilities, not at the labels.",
        )
    if fitted.sums.change > STILL_MOVING:
        examiner.doubt(
            "caution",
            f"Belief propagation did not converge (posteriors still move by {fitted.sums.change:.2g} per node and "
            "sweep): the graph is too dense or too full of short loops for it; compare with another seed or fewer "
            "blocks.",
        )


def _examine_pieces(examiner: Examiner, matrix: sp.csr_array, posterior: Floats) -> None:
    """Blocks that reach over pieces of the graph: which of them belong together is not in the data."""
    number, piece = connected_components(matrix, directed=False)
    counts = np.bincount(piece)
    large = np.flatnonzero(counts >= max(THRESHOLDS.piece * len(piece), 2 * THRESHOLDS.fewest))
    examiner.quantities |= {"n_components": int(number), "largest_component": int(counts.max())}
    if len(large) < 2:
        return
    labels = posterior.argmax(axis=1)
    reach = np.array([np.bincount(labels[piece == one], minlength=posterior.shape[1]) / counts[one] for one in large])
    shared = np.flatnonzero((reach >= THRESHOLDS.inside).sum(axis=0) > 1)
    if len(shared):
        examiner.doubt(
            "caution",
            f"The graph falls into {len(large)} large pieces, and block {shared[0]} reaches over several: nothing in "
            "the graph says that its parts belong together; fit each piece by itself, or ask for more blocks.",
        )
