"""Graphs as users meet them: with communities, without, and with something else that looks like them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from latentfit import BlockModel
from tests.system.gauntlet.scenario import WARNED, Scenario

FOLDER = Path(os.environ.get("LATENTFIT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "pairs"
"""Where the real graphs are; their scenarios exist only with them."""


def linked(rng, probability):
    """A symmetric graph (n, n) whose pairs are linked with such probabilities."""
    upper = np.triu(rng.random(probability.shape) < probability, 1)
    return sp.csr_array((upper | upper.T).astype(float))


def planted(rng, sizes, inside, between, propensity=None):
    """Blocks of such sizes: mean numbers of links of a node inside, and with each other block."""
    blocks = np.repeat(np.arange(len(sizes)), sizes)
    n = len(blocks)
    same = blocks[:, None] == blocks
    mean = np.mean(sizes)
    probability = np.where(same, inside, between) / mean
    if propensity is not None:
        probability = probability * np.outer(propensity, propensity)
    return linked(rng, np.minimum(probability, 1.0)), rng.permutation(n)


def shuffled(graph):
    """Nodes in another order."""
    matrix, order = graph
    return sp.csr_array(matrix[order][:, order])


def from_edges(n, source, target):
    matrix = sp.coo_array((np.ones(len(source)), (source, target)), shape=(n, n)).tocsr()
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data[:] = 1.0
    return matrix


def heavy_tail(rng, n, exponent=2.6):
    """Propensities of a power law, mean 1."""
    theta = np.minimum((1 - rng.random(n)) ** (-1 / (exponent - 1)), np.sqrt(n) / 2)
    return theta / theta.mean()


# ----------------------------------------------------------------------- sound


def two_camps(seed):
    rng = np.random.default_rng([1, seed])
    return BlockModel().fit(shuffled(planted(rng, [300, 300], 11, 2)))


def five_groups(seed):
    rng = np.random.default_rng([2, seed])
    return BlockModel().fit(shuffled(planted(rng, [160] * 5, 12, 0.8)))


def hubs(seed):
    """Three groups, degrees of a power law."""
    rng = np.random.default_rng([3, seed])
    return BlockModel().fit(shuffled(planted(rng, [300] * 3, 12, 1.5, heavy_tail(rng, 900))))


def opposites(seed):
    """Nodes that link the other kind."""
    rng = np.random.default_rng([4, seed])
    return BlockModel().fit(shuffled(planted(rng, [250, 250], 1, 9)))


def names_and_number(seed):
    """An edge list of names, three blocks asked for."""
    rng = np.random.default_rng([5, seed])
    matrix = sp.triu(shuffled(planted(rng, [150] * 3, 12, 1.5))).tocoo()
    table = pa.table({"source": [f"p{i}" for i in matrix.row], "target": [f"p{j}" for j in matrix.col]})
    return BlockModel(3).fit(table)


def uneven_sizes(seed):
    rng = np.random.default_rng([6, seed])
    return BlockModel().fit(shuffled(planted(rng, [350, 180, 110], 14, 1.5)))


def weighted(seed):
    """Numbers of meetings, more within a group."""
    rng = np.random.default_rng([7, seed])
    matrix = sp.triu(shuffled(planted(rng, [200, 200], 12, 2.5)), 1).tocoo()
    half = sp.coo_array((1.0 + rng.poisson(2, matrix.nnz), (matrix.row, matrix.col)), shape=matrix.shape)
    return BlockModel().fit(sp.csr_array(half + half.T))


def core_and_periphery(seed):
    """A core linked with itself and with a periphery that is hardly linked with itself."""
    rng = np.random.default_rng([8, seed])
    blocks = np.repeat([0, 1], [150, 350])
    probability = np.array([[0.15, 0.04], [0.04, 0.002]])[np.ix_(blocks, blocks)]
    return BlockModel(2, degree_corrected=False).fit(shuffled((linked(rng, probability), rng.permutation(500))))


def large(seed):
    """Six thousand nodes."""
    rng = np.random.default_rng([9, seed])
    n, blocks = 6000, rng.integers(0, 2, 6000)
    pairs = rng.integers(0, n, (90_000, 2))
    keep = (blocks[pairs[:, 0]] == blocks[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.15)
    return BlockModel().fit(from_edges(n, *pairs[keep].T))


def real(name):
    """A real graph, its nodes in a random order."""

    def make(seed):
        with gzip.open(FOLDER / f"{name}.edges.txt.gz", "rt") as file:
            ends = np.loadtxt(file, dtype=int)
        order = np.random.default_rng([10, seed]).permutation(ends.max() + 1)
        return BlockModel().fit(from_edges(len(order), *order[ends].T))

    return make


# --------------------------------------------------------------------- unsound


def random_graph(seed):
    """Links at random."""
    rng = np.random.default_rng([11, seed])
    return BlockModel().fit(linked(rng, np.full((600, 600), 8 / 600)))


def random_graph_number_given(seed):
    """Links at random, three blocks asked for."""
    rng = np.random.default_rng([12, seed])
    return BlockModel(3).fit(linked(rng, np.full((500, 500), 10 / 500)))


def random_hubs(seed):
    """Degrees of a power law and nothing else."""
    rng = np.random.default_rng([13, seed])
    theta = heavy_tail(rng, 800)
    return BlockModel().fit(linked(rng, np.minimum(8 / 800 * np.outer(theta, theta), 1)))


def grid(seed):
    """Streets: a grid of 14 × 14 with a few short cuts."""
    rng = np.random.default_rng([14, seed])
    at = np.arange(196).reshape(14, 14)
    source = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel(), rng.integers(0, 196, 5)])
    target = np.concatenate([at[:, 1:].ravel(), at[1:].ravel(), rng.integers(0, 196, 5)])
    order = rng.permutation(196)
    return BlockModel().fit(from_edges(196, order[source], order[target]))


def triangles(seed):
    """Growth by preferential attachment and friends of friends: many triangles, no communities (Holme & Kim)."""
    rng = np.random.default_rng([15, seed])
    n, each = 500, 3
    friends = [set() for _ in range(n)]
    ends = list(range(each))

    def link(new, old):
        friends[new].add(old)
        friends[old].add(new)
        ends.extend((new, old))

    for new in range(each, n):
        old = ends[rng.integers(len(ends))]
        link(new, old)
        while len(friends[new]) < each:
            near = [one for one in friends[old] if one != new and one not in friends[new]]
            if near and rng.random() < 0.6:
                link(new, near[rng.integers(len(near))])
                continue
            old = ends[rng.integers(len(ends))]
            if old != new and old not in friends[new]:
                link(new, old)
    source, target = np.array([(i, j) for i in range(n) for j in friends[i] if i < j]).T
    return BlockModel().fit(from_edges(n, source, target))


def nearest_neighbours(seed):
    """Points in a square, each linked with its seven nearest: a geometry."""
    rng = np.random.default_rng([16, seed])
    points = rng.random((250, 2))
    apart = ((points[:, None] - points) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1)[:, :7]
    return BlockModel().fit(from_edges(250, np.repeat(np.arange(250), 7), near.ravel()))


def small_world(seed):
    """A ring of neighbours with a few links rewired (Watts & Strogatz)."""
    rng = np.random.default_rng([17, seed])
    at = np.arange(240)
    source, target = np.tile(at, 4), np.concatenate([(at + step) % 240 for step in (1, 2, 3, 4)])
    rewired = rng.random(len(target)) < 0.05
    return BlockModel().fit(from_edges(240, source, np.where(rewired, rng.integers(0, 240, len(target)), target)))


def directed_circle(seed):
    """Four groups, each of which points to the next alone."""
    rng = np.random.default_rng([18, seed])
    n, blocks = 600, rng.integers(0, 4, 600)
    pairs = rng.integers(0, n, (40_000, 2))
    keep = (blocks[pairs[:, 0]] + 1) % 4 == blocks[pairs[:, 1]]
    matrix = sp.coo_array((np.ones(keep.sum()), pairs[keep].T), shape=(n, n)).tocsr()
    return BlockModel().fit(sp.csr_array(matrix))


def too_many_asked(seed):
    """Six blocks asked for where there are two."""
    rng = np.random.default_rng([19, seed])
    return BlockModel(6).fit(shuffled(planted(rng, [250, 250], 11, 2)))


def below_the_threshold(seed):
    """Two blocks that nobody can find: of two equal ones a = 11.6, b = 8.4, (a − b)² = 10 where 40 are needed."""
    rng = np.random.default_rng([20, seed])
    return BlockModel(2).fit(shuffled(planted(rng, [400, 400], 5.8, 4.2)))


def eight_people(seed):
    """Eight nodes."""
    rng = np.random.default_rng([21, seed])
    return BlockModel(2).fit([(i, j) for i in range(8) for j in range(i) if rng.random() < 0.5])


def tree(seed):
    """Everybody has one parent."""
    rng = np.random.default_rng([22, seed])
    parents = [int(rng.integers(0, child)) for child in range(1, 500)]
    return BlockModel().fit(from_edges(500, np.arange(1, 500), np.array(parents)))


def pieces(seed):
    """Four pieces that nothing connects, two blocks asked for."""
    rng = np.random.default_rng([23, seed])
    return BlockModel(2).fit(shuffled(planted(rng, [120] * 4, 8, 0)))


def mixed_groups(seed):
    """Twenty small groups that link outside more than inside."""
    rng = np.random.default_rng([24, seed])
    sizes = rng.integers(15, 50, 20)
    return BlockModel().fit(shuffled(planted(rng, sizes, 5, 12 / 19)))


def stopped_early(seed):
    """One iteration of EM."""
    rng = np.random.default_rng([25, seed])
    return BlockModel(max_iter=1).fit(shuffled(planted(rng, [160] * 5, 10, 1.2)))


NOTHING = "structure"
UNSTABLE = "stability|empty_blocks|search_limit|triangles"

SCENARIOS = [
    Scenario("two camps", two_camps),
    Scenario("five groups", five_groups),
    Scenario("three groups with hubs", hubs),
    Scenario("nodes that link the other kind", opposites),
    Scenario("an edge list of names, the number given", names_and_number),
    Scenario("groups of uneven size", uneven_sizes),
    Scenario("numbers of meetings", weighted),
    Scenario("a core and a periphery", core_and_periphery),
    Scenario("six thousand nodes", large),
    *([Scenario("a karate club", real("karate")), Scenario("political blogs", real("polblogs"))]
      if FOLDER.is_dir() else []),
    Scenario("links at random", random_graph, WARNED, NOTHING),
    Scenario("links at random, three blocks asked for", random_graph_number_given, ("not identifiable",), NOTHING),
    Scenario("degrees of a power law and nothing else", random_hubs, WARNED, NOTHING),
    Scenario("a grid of streets", grid, WARNED, UNSTABLE),
    Scenario("many triangles, no communities", triangles, WARNED, f"{NOTHING}|{UNSTABLE}"),
    Scenario("nearest neighbours in a square", nearest_neighbours, WARNED, UNSTABLE),
    Scenario("a ring with short cuts", small_world, WARNED, UNSTABLE),
    Scenario("a directed circle of groups", directed_circle, WARNED, "direction"),
    Scenario("six blocks asked for, two there", too_many_asked, WARNED, "informative_signals|stability|block_size"),
    Scenario("below the threshold of detection", below_the_threshold, WARNED, NOTHING),
    Scenario("eight people", eight_people, WARNED, "sample_size|block_size|structure"),
    Scenario("a tree", tree, WARNED, f"{NOTHING}|{UNSTABLE}"),
    Scenario("four pieces, two blocks asked for", pieces, WARNED, "pieces"),
    Scenario("small groups that link outside more than inside", mixed_groups, WARNED, f"{NOTHING}|{UNSTABLE}"),
    Scenario("one iteration of EM", stopped_early, WARNED, "converged"),
]  # fmt: skip
