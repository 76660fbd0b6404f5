"""Checks of fitted blocks, and what they expect to be wrong.

`not identifiable` when blocks were asked for and the graph shows no division at all: every signal besides its density
is one that chance makes. `caution` when nothing was found, when fewer signals than blocks rise above chance, when
blocks hold hardly a node, when most labels are guesses by their own probabilities, when a block reaches over pieces of
the graph that nothing connects, when the blocks of the graph without a tenth of its edges are others, when links have a
direction that says more, or when belief propagation or EM did not converge.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from latentfit.communities.data import Graph
from latentfit.communities.em import SETTLED, Blocks, Propagated
from latentfit.communities.init import Codes, branching
from latentfit.communities.select import MOST_TRIED, SPREAD, DegreeTest, NumberOfBlocks, examine_degrees
from latentfit.core.kernels import Floats
from latentfit.core.sampling import scramble
from latentfit.core.spectral import leading_singular
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport


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
    # Triangles over those that the blocks make, and standard errors (of a Poisson number) of the excess, above which
    # links close triangles. Simulated blocks had .7 to 1.07 times as many (1.14 times 157, by chance), nearest
    # neighbours in a plane 1.35 to 1.58.
    closed: float = 1.1
    sure: float = 3.0
    doubled: float = 0.2  # proportion of the nodes that have the very neighbours of another from which on it matters
    least_edges: int = 3  # edges from which on the same neighbours are no coincidence
    # Proportion of links that are returned below which direction may matter, and by how much its signal must exceed
    # 1.
    mutual: float = 0.5
    directed: float = 0.1


THRESHOLDS = Thresholds()


STILL_MOVING = 20 * SETTLED
"""Mean change of the posterior in a sweep that still matters."""
DROPPED = 0.1
"""Proportion of the edges that the fits of the stability check go without."""
MOST_PATHS = 2e7
"""Paths of two steps along which triangles are counted; of larger graphs some nodes stand for all."""
NUMBER_REJECTED = frozenset({"structure", "informative_signals", "empty_blocks", "stability", "triangles"})
"""Checks whose failure says that the graph does not show so many blocks."""


@dataclass(frozen=True)
class FittedBlocks:
    """What the diagnosis looks at."""

    graph: Graph
    params: Blocks
    sums: Propagated
    log_likelihood: float
    one_block: float  # log-likelihood of a single block on the same graph
    converged: bool
    degree_corrected: bool = True


class Resample(NamedTuple):
    """The blocks beside those of the graph without some of its edges.

    Attributes
    ----------
    rand : float
        Adjusted Rand index: 1 the same division, 0 as alike as by chance.
    moved : float
        Proportion of the nodes that are in another block.
    """

    rand: float
    moved: float


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


def compare_divisions(labels: Codes, others: Codes, linked: NDArray[np.bool_]) -> Resample:
    """Compare two divisions of the nodes that have edges, the blocks' numbers matched as well as can be.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.communities.diagnostics import compare_divisions
    >>> compare_divisions(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), np.ones(4, bool))
    Resample(rand=1.0, moved=0.0)
    """
    if not linked.any():
        return Resample(0.0, 1.0)
    labels, others = labels[linked], others[linked]
    counts = np.zeros((int(max(labels.max(), others.max())) + 1,) * 2)
    np.add.at(counts, (labels, others), 1)
    rows, columns = linear_sum_assignment(-counts)
    stayed = float(counts[rows, columns].sum()) / len(labels)
    return Resample(float(adjusted_rand_score(labels, others)), 1 - stayed)


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
    resamples: Sequence[Resample] = (),
) -> Examination:
    """Diagnose fitted blocks; `resamples` compare them with the blocks of the graph without some of its edges."""
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
    linked = np.diff(graph.matrix.indptr)
    examiner.check_size(int((linked > 0).sum()), "nodes with edges")
    by_degrees = not fitted.degree_corrected and degrees is not None and shown_by_degrees(linked, degrees)
    _examine_signals(examiner, K, number, by_degrees=by_degrees)
    _examine_duplicates(examiner, graph.matrix)
    if K > 1:
        _examine_fit(examiner, fitted, sizes)
        _examine_triangles(examiner, fitted, K)
        _examine_pieces(examiner, graph.matrix, posterior)
        if resamples:
            _examine_stability(examiner, resamples)
    if graph.directed is not None:
        _examine_direction(examiner, graph.directed, graph.matrix)
    examiner.check_converged(fitted.converged, what="the blocks")
    examiner.expected = _expected(posterior, resamples)
    return examiner.conclude()


def number_is_rejected(examination: Examination | FitReport) -> bool:
    """Whether a check says that the graph does not show so many blocks: then the number is no headline."""
    return any(check.name in NUMBER_REJECTED and not check.passed for check in examination.checks)


def triangles(graph: Graph, labels: Codes, n_blocks: int, *, degree_corrected: bool) -> tuple[float, float]:
    """Number of triangles of a graph, and the number that blocks with such links and degrees make on average.

    With ω_rs the links of blocks r and s over those that propensities θ alone make, three blocks make
    S_r S_s S_t ω_rs ω_st ω_rt / 6 triangles, S_r = Σ θ_i², where of a node's degree d (θ = d) d² counts as d (d − 1).
    Of large graphs every so many-th node in the order of their links stands for all.
    """
    matrix, linked = graph.matrix, np.diff(graph.matrix.indptr).astype(np.float64)
    links = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    some = links[:: max(1, int((linked @ linked) / MOST_PATHS) + 1)]
    found = float((some @ links).multiply(some).sum()) / 6 * matrix.shape[0] / some.shape[0]
    member = np.eye(n_blocks)[labels]
    theta = linked if degree_corrected else np.ones(len(linked))
    squares = (linked * (linked - 1) if degree_corrected else theta) @ member
    mass = theta @ member
    pairs = np.outer(mass, mass) - np.diag(theta**2 @ member)  # no node is linked with itself
    affinity = np.asarray(member.T @ (links @ member)) / np.maximum(pairs, 1e-300)
    steps = squares[:, None] * affinity
    return found, float(np.trace(steps @ steps @ steps)) / 6


def doubled_nodes(matrix: sp.csr_array) -> float:
    """Proportion of the nodes with several edges that have the very neighbours of another one.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from latentfit.communities.diagnostics import doubled_nodes
    >>> two_sides = np.kron(1 - np.eye(2), np.ones((3, 3)))  # everybody of one side is linked with all of the other
    >>> doubled_nodes(sp.csr_array(two_sides))
    1.0
    """
    linked = np.diff(matrix.indptr)
    several = linked >= THRESHOLDS.least_edges
    if not several.any():
        return 0.0
    marks = scramble(np.arange(matrix.shape[0], dtype=np.uint64), 1)[matrix.indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(marks, dtype=np.uint64)])
    neighbours = (sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]])[several]  # wraps around, exactly
    _, place, number = np.unique(neighbours, return_inverse=True, return_counts=True)
    return float((number[place.reshape(-1)] > 1).mean())


def _examine_duplicates(examiner: Examiner, matrix: sp.csr_array) -> None:
    doubled = doubled_nodes(matrix)
    examiner.check(
        "duplicates", "Proportion of the nodes that have the very neighbours of another", doubled < THRESHOLDS.doubled,
        f"{doubled:.0%} of the nodes with {THRESHOLDS.least_edges} edges and more have exactly the neighbours of "
        f"another node (limit {THRESHOLDS.doubled:.0%}), as duplicates of a node under another name have: duplicates "
        "are no further evidence; merge them, unless each was truly observed.",
        value=doubled, limit=THRESHOLDS.doubled,
    )  # fmt: skip


def _examine_triangles(examiner: Examiner, fitted: FittedBlocks, n_blocks: int) -> None:
    labels = fitted.sums.posterior.argmax(axis=1)
    found, expected = triangles(fitted.graph, labels, n_blocks, degree_corrected=fitted.degree_corrected)
    ratio, z = found / max(expected, 1.0), (found - expected) / max(expected, 1.0) ** 0.5
    examiner.quantities |= {"triangles": found, "expected_triangles": expected}
    few = ratio <= THRESHOLDS.closed or z <= THRESHOLDS.sure
    examiner.check(
        "triangles", "Triangles over the number that the blocks make", few,
        f"The graph has {found:,.0f} triangles, {ratio:.2f} times the {expected:,.0f} that the blocks make (limit "
        f"{THRESHOLDS.closed:g}): nodes with a common neighbour are linked more than their blocks say, as in a "
        "geometry, among friends of friends, or in smaller groups inside the blocks; take the blocks as one coarse "
        "description, and compare with more and with fewer of them (n_blocks, --blocks).",
        value=ratio, limit=THRESHOLDS.closed,
    )  # fmt: skip


def shown_by_degrees(linked: NDArray[np.integer], degrees: DegreeTest) -> bool:
    """Whether the blocks of the plain model are shown by degrees, of which the Bethe Hessian takes no notice.

    Degrees (n,) vary more than those of one block of the plain model would (Poisson), and do not inside the blocks.
    """
    alone = examine_degrees(linked.astype(np.float64), np.ones((len(linked), 1)))
    return degrees.plain and alone.dispersion > 1 + SPREAD * alone.error


def _examine_stability(examiner: Examiner, resamples: Sequence[Resample]) -> None:
    mean = float(np.mean([one.rand for one in resamples]))
    examiner.quantities |= {"agreement_without_edges": [one.rand for one in resamples]}
    examiner.check(
        "stability", f"Agreement with the blocks of the graph without {DROPPED:.0%} of its edges (adjusted Rand index)",
        mean >= THRESHOLDS.agree,
        f"The division is unstable: without {DROPPED:.0%} of the edges the blocks are others (adjusted Rand index "
        f"{mean:.2f}, limit {THRESHOLDS.agree:g}; 1 is the same division); take it as one description of the graph "
        "among several, or ask for fewer blocks (n_blocks, --blocks).",
        value=mean, limit=THRESHOLDS.agree,
    )  # fmt: skip


def _examine_direction(examiner: Examiner, directed: sp.csr_array, matrix: sp.csr_array) -> None:
    there = directed.astype(bool)
    mutual = int(there.multiply(there.T).sum())
    reciprocity = mutual / max(int(there.sum()), 1)
    signal = direction_signal(directed, matrix)
    limit = 1 + THRESHOLDS.directed
    examiner.quantities |= {"reciprocity": reciprocity, "direction_signal": signal}
    examiner.check(
        "direction", "Signal of the links' direction", reciprocity >= THRESHOLDS.mutual or signal <= limit,
        f"Links were taken as undirected, and their direction follows a pattern that the blocks do not show (signal "
        f"{signal:.2f}, limit {limit:g}; {reciprocity:.0%} of the links are returned): groups that differ only in whom "
        "they point to, or in who points to them, are one block here; a directed block model would tell them apart.",
        value=signal, limit=limit,
    )  # fmt: skip


def _examine_signals(examiner: Examiner, K: int, number: NumberOfBlocks, *, by_degrees: bool = False) -> None:
    seen = number.informative + by_degrees
    consequence = "blocks found in it are those of chance" if K > 1 else "it is taken as one block"
    examiner.check(
        "structure", "Informative Bethe-Hessian eigenvalues (the first is the density)", seen > 1,
        f"No structure found: the graph shows no communities besides its density (1 informative Bethe-Hessian "
        f"eigenvalue, at least 2 are needed), so {consequence}: there are none, or they lie below the threshold "
        "(a − b)² = 2(a + b) where no method finds them; bring more edges.",
        value=seen, limit=2, level="not identifiable" if K > 1 else "caution",
    )  # fmt: skip
    if seen == 1:
        return
    examiner.check(
        "empty_blocks", "Chosen blocks to which no node was assigned", number.left_out == 0,
        f"{K + number.left_out} blocks were chosen for {seen} informative Bethe-Hessian eigenvalues, and no node was "
        f"assigned to {number.left_out} of them (limit 0): short loops (a grid, a ring, a geometry) make eigenvalues "
        "that are no communities, and then the other blocks are pieces of the graph; ask for fewer blocks (n_blocks, "
        "--blocks).",
        value=number.left_out, limit=0,
    )  # fmt: skip
    examiner.check(
        "search_limit", "Informative eigenvalues below the largest number looked for",
        not (number.at_limit and seen == K),
        f"{seen} informative Bethe-Hessian eigenvalues are all that are looked for, and there may be more: several "
        "groups may be in one block, or the graph is a geometry without groups; give n_blocks (--blocks) a number "
        f"above {seen} to see finer ones.",
        value=seen, limit=MOST_TRIED,
    )  # fmt: skip
    examiner.check(
        "informative_signals", "Informative eigenvalues for so many blocks", seen >= K or number.at_limit,
        f"{K} blocks are asked for and {seen} Bethe-Hessian eigenvalues are informative in a graph of this density "
        f"(at least {K} are needed); ask for {seen} (n_blocks={seen}, --blocks {seen}), or bring more edges.",
        value=seen, limit=K,
    )  # fmt: skip


def _examine_fit(examiner: Examiner, fitted: FittedBlocks, sizes: Floats) -> None:
    smallest = int(len(sizes) - 1 - np.argmin(sizes[::-1]))
    examiner.check(
        "block_size", "Nodes in the smallest block", sizes[smallest] >= THRESHOLDS.fewest,
        f"Block {smallest} holds {sizes[smallest]:.1f} nodes, fewer than {THRESHOLDS.fewest:.0f}; ask for fewer blocks "
        "(n_blocks, --blocks).",
        value=float(sizes[smallest]), limit=THRESHOLDS.fewest,
    )  # fmt: skip
    certain = examiner.quantities["expected_overlap"]
    examiner.check(
        "certainty", "How much better than guessing labels are by their own probabilities",
        certain >= THRESHOLDS.vague,
        f"Most nodes could be in several blocks (labels are {certain:.0%} better than guessing by their own "
        f"probabilities, limit {THRESHOLDS.vague:.0%}): look at the probabilities, not at the labels, or ask for fewer "
        "blocks (n_blocks, --blocks).",
        value=certain, limit=THRESHOLDS.vague,
    )  # fmt: skip
    examiner.check(
        "propagation", "Belief propagation converged (change of the posteriors per node and sweep)",
        fitted.sums.change <= STILL_MOVING,
        f"Belief propagation did not converge (posteriors still move by {fitted.sums.change:.2g} per node and sweep, "
        f"limit {STILL_MOVING:.2g}): the graph is too dense or too full of short loops for it; compare with another "
        "seed (random_state, --seed) or fewer blocks (n_blocks, --blocks).",
        value=fitted.sums.change, limit=STILL_MOVING,
    )  # fmt: skip


def _examine_pieces(examiner: Examiner, matrix: sp.csr_array, posterior: Floats) -> None:
    """Blocks that reach over pieces of the graph: which of them belong together is not in the data."""
    number, piece = connected_components(matrix, directed=False)
    counts = np.bincount(piece)
    large = np.flatnonzero(counts >= max(THRESHOLDS.piece * len(piece), 2 * THRESHOLDS.fewest))
    examiner.quantities |= {"n_components": int(number), "largest_component": int(counts.max())}
    labels = posterior.argmax(axis=1)
    reach = np.array([np.bincount(labels[piece == one], minlength=posterior.shape[1]) / counts[one] for one in large])
    reached = (reach >= THRESHOLDS.inside).sum(axis=0) if len(large) else np.ones(1, int)
    block = int(reached.argmax())
    examiner.check(
        "pieces", "Large unconnected pieces of the graph that one block reaches over", reached[block] <= 1,
        f"The graph falls into {len(large)} large pieces, and block {block} reaches over several ({reached[block]}, "
        "limit 1): nothing in the graph says that its parts belong together; fit each piece by itself, or ask for more "
        "blocks (n_blocks, --blocks).",
        value=reached[block], limit=1,
    )  # fmt: skip


def _expected(posterior: Floats, resamples: Sequence[Resample]) -> Expectation:
    """What the model expects to be wrong: labels by their own probabilities, and labels that fewer edges move."""
    wrong = float(1 - posterior.max(axis=1).mean())
    if posterior.shape[1] == 1:
        return Expectation("nodes in a wrong block", 0.0, sentence="With one block no node can be in a wrong one.")
    sentence = f"By the model's own probabilities {wrong:.1%} of the nodes are in a wrong block"
    if not resamples:
        return Expectation("nodes in a wrong block", wrong, sentence=f"{sentence}; the fit was not repeated.")
    moved = [one.moved for one in resamples]
    return Expectation(
        f"nodes in another block without {DROPPED:.0%} of the edges", float(np.mean(moved)), min(moved), max(moved),
        sentence=f"{sentence}; without {DROPPED:.0%} of the edges {np.mean(moved):.1%} of the nodes change block.",
    )  # fmt: skip
