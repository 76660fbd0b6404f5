"""Graphs as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from latentfit import BlockModel
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator


def pairs_of(
    rng: Generator, blocks: np.ndarray, affinity: np.ndarray, degree: float, appeal: np.ndarray | None = None
) -> np.ndarray:
    """Edges (i, j), i < j, without repetition; rates are affinity × appeals, scaled to this mean degree."""
    n_nodes = len(blocks)
    rates = np.asarray(affinity, dtype=float)[blocks[:, None], blocks]
    if appeal is not None:
        rates = rates * appeal[:, None] * appeal
    np.fill_diagonal(rates, 0.0)
    rates *= degree * n_nodes / rates.sum()
    return np.argwhere(np.triu(rng.random((n_nodes, n_nodes)) < rates, 1))


def edge_list(rng: Generator, pairs: np.ndarray) -> pd.DataFrame:
    """Edges in random order and direction, nodes with text names."""
    pairs = rng.permutation(pairs)
    turned = rng.random(len(pairs)) < 0.5
    pairs[turned] = pairs[turned, ::-1]
    return pd.DataFrame({"source": [f"n{i:04d}" for i in pairs[:, 0]], "target": [f"n{i:04d}" for i in pairs[:, 1]]})


def matrix_of(pairs: np.ndarray, n_nodes: int, weight: np.ndarray | None = None) -> csr_matrix:
    """Symmetric adjacency matrix."""
    ones = np.ones(len(pairs)) if weight is None else weight.astype(float)
    half = csr_matrix((ones, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes))
    return half + half.T


def assortative(n_blocks: int, ratio: float) -> np.ndarray:
    """Affinities where inside is `ratio` times as frequent as between."""
    return np.ones((n_blocks, n_blocks)) + (ratio - 1) * np.eye(n_blocks)


# ---------------------------------------------------------------- sound


def departments(seed: int) -> BlockModel:
    """E-mail between 600 people of three departments of uneven size."""
    rng = np.random.default_rng([seed, 901])
    blocks = rng.choice(3, size=600, p=[0.5, 0.3, 0.2])
    return BlockModel(3).fit(edge_list(rng, pairs_of(rng, blocks, assortative(3, 8), 14)))


def four_schools(seed: int) -> BlockModel:
    """1,000 pupils of four schools, number not given."""
    rng = np.random.default_rng([seed, 902])
    blocks = rng.choice(4, size=1000, p=[0.3, 0.3, 0.2, 0.2])
    return BlockModel().fit(edge_list(rng, pairs_of(rng, blocks, assortative(4, 14), 14)))


def followers_with_hubs(seed: int) -> BlockModel:
    """Two camps of 1,000 blogs with a heavy-tailed popularity, number not given."""
    rng = np.random.default_rng([seed, 903])
    blocks = rng.choice(2, size=1000, p=[0.55, 0.45])
    appeal = np.minimum(rng.pareto(2.2, 1000) + 0.4, 10.0)
    return BlockModel().fit(edge_list(rng, pairs_of(rng, blocks, assortative(2, 9), 18, appeal)))


def buyers_and_sellers(seed: int) -> BlockModel:
    """A market: links go from buyers to sellers, hardly ever inside a group."""
    rng = np.random.default_rng([seed, 904])
    blocks = rng.choice(2, size=500, p=[0.6, 0.4])
    return BlockModel(2).fit(edge_list(rng, pairs_of(rng, blocks, np.array([[1, 9], [9, 1]]), 10)))


def core_and_periphery(seed: int) -> BlockModel:
    """A core of 150 banks that deal with everyone, and 450 that hardly deal with one another."""
    rng = np.random.default_rng([seed, 905])
    blocks = (np.arange(600) >= 150).astype(int)
    edges = edge_list(rng, pairs_of(rng, blocks, np.array([[12, 4], [4, 0.5]]), 14))
    return BlockModel(2, degree_corrected=False).fit(edges)


def messages(seed: int) -> BlockModel:
    """Weighted edges: how often each pair of 400 people wrote to each other, three teams."""
    rng = np.random.default_rng([seed, 906])
    blocks = rng.choice(3, size=400, p=[0.4, 0.35, 0.25])
    pairs = pairs_of(rng, blocks, assortative(3, 10), 12)
    frame = edge_list(rng, pairs)
    frame["weight"] = 1 + rng.poisson(1.0, len(frame))
    return BlockModel(3).fit(frame)


def sparse_with_isolates(seed: int) -> BlockModel:
    """1,500 people with six contacts on average in two regions; some have none."""
    rng = np.random.default_rng([seed, 907])
    blocks = rng.choice(2, size=1500, p=[0.6, 0.4])
    return BlockModel(2).fit(matrix_of(pairs_of(rng, blocks, assortative(2, 12), 6), 1500))


def school_class(seed: int) -> BlockModel:
    """Ninety pupils of three classes who name friends, mostly of the own class."""
    rng = np.random.default_rng([seed, 908])
    return BlockModel(3).fit(edge_list(rng, pairs_of(rng, np.repeat([0, 1, 2], 30), assortative(3, 15), 11)))


# ---------------------------------------------------------------- unsound


ONE = np.ones((1, 1))


def random_three_asked(seed: int) -> BlockModel:
    """A random graph, three blocks asked for."""
    rng = np.random.default_rng([seed, 1001])
    return BlockModel(3).fit(edge_list(rng, pairs_of(rng, np.zeros(300, dtype=int), ONE, 10)))


def random_unasked(seed: int) -> BlockModel:
    rng = np.random.default_rng([seed, 1002])
    return BlockModel().fit(edge_list(rng, pairs_of(rng, np.zeros(800, dtype=int), ONE, 9)))


def hubs_only(seed: int) -> BlockModel:
    """Popularity differs and nothing else; three communities asked for."""
    rng = np.random.default_rng([seed, 1003])
    appeal = np.minimum(rng.pareto(1.8, 300) + 0.3, 12.0)
    return BlockModel(3).fit(edge_list(rng, pairs_of(rng, np.zeros(300, dtype=int), ONE, 10, appeal)))


def below_detectability(seed: int) -> BlockModel:
    """Four groups, links inside 1.5 times as frequent, six links each: below the limit of detection."""
    rng = np.random.default_rng([seed, 1004])
    return BlockModel(4).fit(edge_list(rng, pairs_of(rng, rng.integers(4, size=400), assortative(4, 1.5), 6)))


def small_world(seed: int) -> BlockModel:
    """A ring in which everybody knows the five next on either side, a few links rewired; four communities asked for."""
    rng = np.random.default_rng([seed, 1005])
    source = np.repeat(np.arange(400), 5)
    target = (source + np.tile(np.arange(1, 6), 400)) % 400
    rewired = rng.random(len(source)) < 0.08
    target[rewired] = rng.integers(400, size=rewired.sum())
    pairs = np.sort(np.column_stack([source, target])[source != target], axis=1)
    return BlockModel(4).fit(edge_list(rng, np.unique(pairs, axis=0)))


def neighbours_on_a_map(seed: int) -> BlockModel:
    """Points spread evenly over a square are linked when near: any borders are arbitrary."""
    rng = np.random.default_rng([seed, 1006])
    place = rng.random((500, 2))
    far = np.hypot(*(place[:, None] - place).transpose(2, 0, 1))
    return BlockModel(4).fit(edge_list(rng, np.argwhere(np.triu(far < 0.09, 1))))


def street_grid(seed: int) -> BlockModel:
    """Crossings of a street grid of 24 × 24, a twentieth of the streets closed."""
    rng = np.random.default_rng([seed, 1007])
    number = np.arange(576).reshape(24, 24)
    across = np.column_stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    down = np.column_stack([number[:-1].ravel(), number[1:].ravel()])
    streets = np.vstack([across, down])
    return BlockModel(5).fit(edge_list(rng, streets[rng.random(len(streets)) < 0.95]))


def coauthors_at_random(seed: int) -> BlockModel:
    """220 papers by six authors drawn from 300 at random: many triangles, no communities."""
    rng = np.random.default_rng([seed, 1008])
    pairs = []
    for _ in range(220):
        team = np.sort(rng.choice(300, size=6, replace=False))
        pairs.append(np.column_stack([part.ravel() for part in np.meshgrid(team, team)]))
    together = np.unique(np.vstack(pairs), axis=0)
    return BlockModel(3).fit(edge_list(rng, together[together[:, 0] < together[:, 1]]))


def who_follows_whom(seed: int) -> BlockModel:
    """A directed graph in which fans follow stars and stars never follow back: without directions nothing is left."""
    rng = np.random.default_rng([seed, 1009])
    star = np.arange(300) >= 150
    rate = np.where(star[:, None] == star, 0.03, np.where(star[None, :], 0.06, 0.0))
    follows = (rng.random((300, 300)) < rate).astype(float)
    np.fill_diagonal(follows, 0.0)
    return BlockModel(2).fit(csr_matrix(follows))


def every_node_twice(seed: int) -> BlockModel:
    """Every company occurs under two spellings with the same partners: nodes are no separate evidence."""
    rng = np.random.default_rng([seed, 1010])
    pairs = pairs_of(rng, rng.choice(2, size=250, p=[0.6, 0.4]), assortative(2, 2.2), 6)
    both = np.vstack([pairs, pairs + np.array([0, 250]), pairs + np.array([250, 0]), pairs + 250])
    return BlockModel(2).fit(edge_list(rng, np.unique(np.sort(both, axis=1), axis=0)))


def twelve_people(seed: int) -> BlockModel:
    """Twelve people with three acquaintances each, three groups."""
    rng = np.random.default_rng([seed, 1011])
    return BlockModel(3).fit(edge_list(rng, pairs_of(rng, np.repeat([0, 1, 2], 4), assortative(3, 4), 3.5)))


def two_islands_five_asked(seed: int) -> BlockModel:
    """Two separate random graphs; five blocks asked for."""
    rng = np.random.default_rng([seed, 1012])
    blocks = np.repeat([0, 1], [150, 120])
    return BlockModel(5).fit(edge_list(rng, pairs_of(rng, blocks, np.eye(2), 9)))


def too_many_blocks(seed: int) -> BlockModel:
    """Two camps, five asked for."""
    rng = np.random.default_rng([seed, 1013])
    blocks = rng.choice(2, size=300, p=[0.6, 0.4])
    return BlockModel(5).fit(edge_list(rng, pairs_of(rng, blocks, assortative(2, 8), 12)))


def rewired_football(seed: int) -> BlockModel:
    """The real schedule of college football with opponents exchanged at random, every team keeping its games."""
    rng = np.random.default_rng([seed, 1014])
    with gzip.open(data_folder() / "pairs" / "football.edges.txt.gz", "rt") as lines:
        ends = np.array([line.split() for line in lines], dtype=int)
    for _ in range(50):
        ends = ends[rng.permutation(len(ends))]
        half = len(ends) // 2
        ends[:half, 1], ends[half : 2 * half, 1] = ends[half : 2 * half, 1].copy(), ends[:half, 1].copy()
        turned = rng.random(len(ends)) < 0.5
        ends[turned] = ends[turned, ::-1]
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    return BlockModel(5).fit(edge_list(rng, ends))


NOTHING = (
    "no structure|nothing|one block|no communit|no block|fewer|independen|chance|random|merge|spurious|noise|detect"
)
UNSTABLE = "stab|resampl|agree|too many|initiali|halves|left out|local opt"
SMALL = "few|small|rare|not enough|too little|rests on|parameters"
LOCAL = "triang|transitiv|cluster|geometr|local|neighbo|ring|lattice|common"

ISLANDS = f"{NOTHING}|{UNSTABLE}|{SMALL}|connect|component"
DIRECTED = f"direct|symmetr|recipro|one way|{NOTHING}"
TWINS = "duplic|identical|copies|same neighbo|twin|repeat|twice"

SCENARIOS: list[Scenario] = [
    # Ratio of eight at fourteen links each: far above the limit of detection.
    Scenario("three departments of uneven size", departments),
    # Four clear schools; the count is right.
    Scenario("four schools, number not given", four_schools),
    # Degrees are taken as given, camps are clear.
    Scenario("two camps with hubs, number not given", followers_with_hubs),
    # Blocks need not be dense inside.
    Scenario("buyers and sellers", buyers_and_sellers),
    # Core and periphery differ in degree and partners.
    Scenario("core and periphery", core_and_periphery),
    # Counts on the edges add little and harm nothing.
    Scenario("weighted messages of three teams", messages),
    # Isolated nodes stay uncertain; the regions are found.
    Scenario("sparse contacts with isolated nodes", sparse_with_isolates),
    # Ninety pupils, clear classes.
    Scenario("friends in three school classes", school_class),
    # Any partition is noise.
    Scenario("random graph, three asked for", random_three_asked, WARNED, f"{NOTHING}|{UNSTABLE}"),
    # Nothing was found, and the user has to be told.
    Scenario("random graph, number not given", random_unasked, WARNED, NOTHING),
    # Popularity is no community.
    Scenario("hubs without communities, three asked for", hubs_only, WARNED, f"{NOTHING}|{UNSTABLE}"),
    # Groups exist and cannot be found from this graph.
    Scenario("groups below the limit of detection", below_detectability, WARNED, f"{NOTHING}|{UNSTABLE}|weak"),
    # A ring can be cut anywhere.
    Scenario("small world on a ring", small_world, WARNED, f"{LOCAL}|{UNSTABLE}|{NOTHING}"),
    # So can a map.
    Scenario("neighbours on a map", neighbours_on_a_map, WARNED, f"{LOCAL}|{UNSTABLE}|{NOTHING}"),
    # And a grid of streets.
    Scenario("street grid", street_grid, WARNED, f"{LOCAL}|{UNSTABLE}|{NOTHING}"),
    # Links come in cliques, so they are not independent given blocks.
    Scenario("co-authors drawn at random", coauthors_at_random, WARNED, f"{LOCAL}|{UNSTABLE}|{NOTHING}"),
    # The structure is in the directions, which are dropped.
    Scenario("who follows whom, directions dropped", who_follows_whom, WARNED, DIRECTED),
    # 250 companies are taken for 500.
    Scenario("every node under two names", every_node_twice, WARNED, TWINS),
    # Four people per group and a handful of links.
    Scenario("twelve people", twelve_people, WARNED, f"{SMALL}|{UNSTABLE}|{NOTHING}"),
    # Inside the two components there is nothing.
    Scenario("two islands, five asked for", two_islands_five_asked, WARNED, ISLANDS),
    # Three of the five blocks are noise.
    Scenario("two camps, five asked for", too_many_blocks, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}"),
]

if (folder := data_folder()) is not None and (folder / "pairs" / "football.edges.txt.gz").is_file():
    # Rewiring has destroyed the conferences.
    SCENARIOS.append(Scenario("football, opponents exchanged", rewired_football, WARNED, f"{NOTHING}|{UNSTABLE}"))
