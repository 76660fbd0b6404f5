"""Pair counts as users bring them: baskets, neighbouring words, customers and products, small contingency tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit import PairMatrix
from tests.system.gauntlet.scenario import WARNED, Scenario

Ints = NDArray[np.int64]
DOUBTFUL = ("caution",)
UNKNOWN = ("not identifiable",)


def kinds(rng: np.random.Generator, n_items: int, n_kinds: int, *, zipf: float = 0.0, overlap: float = 0.1):
    """Distributions (kind, item): every kind prefers items of its own, and buys the others with weight `overlap`."""
    popularity = (1.0 + rng.permutation(n_items)) ** -zipf * rng.uniform(0.5, 1.5, n_items)
    owner = rng.permutation(np.arange(n_items) % n_kinds)
    weights = popularity * np.where(owner == np.arange(n_kinds)[:, None], 1.0, overlap)
    return weights / weights.sum(axis=1, keepdims=True)


def drawn(rng: np.random.Generator, rows, columns, joint, n_pairs: int) -> Ints:
    """Pairs (n, 2): both causes by `joint`, then an item of each."""
    joint = np.asarray(joint, float)
    cause = rng.choice(joint.size, n_pairs, p=joint.reshape(-1) / joint.sum())
    left, right = np.unravel_index(cause, joint.shape)
    sides = []
    for causes, laws in ((left, rows), (right, columns)):
        items = np.empty(n_pairs, np.int64)
        for k, law in enumerate(laws):
            mine = causes == k
            items[mine] = rng.choice(len(law), int(mine.sum()), p=law)
        sides.append(items)
    return np.column_stack(sides)


def named(pairs: Ints, first: str = "item_1", second: str = "item_2") -> dict[str, list[str]]:
    """A table with two columns of names."""
    return {first: [f"a{i}" for i in pairs[:, 0]], second: [f"a{i}" for i in pairs[:, 1]]}


def frame(pairs: Ints, first: str = "item_1", second: str = "item_2"):
    import pyarrow as pa

    return pa.table(named(pairs, first, second))


def counts(pairs: Ints, shape: tuple[int, int]):
    import scipy.sparse as sp

    return sp.csr_array((np.ones(len(pairs), np.int64), (pairs[:, 0], pairs[:, 1])), shape=shape)


# ---------------------------------------------------------------- sound


def two_kinds_of_products(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 2)
    return PairMatrix().fit(frame(drawn(rng, laws, laws, np.diag([0.55, 0.45]), 9000)))


def frequent_and_rare_words(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 800, 2, zipf=0.9, overlap=0.05)
    return PairMatrix(None).fit(frame(drawn(rng, laws, laws, np.diag([0.6, 0.4]), 20_000), "word", "context"))


def three_tastes_of_customers(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    customers, products = kinds(rng, 600, 3, overlap=0.02), kinds(rng, 150, 3, zipf=0.5)
    pairs = drawn(rng, customers, products, np.diag([0.4, 0.35, 0.25]), 15_000)
    return PairMatrix(None).fit(frame(pairs, "customer", "product"))


def links_with_a_direction(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 250, 2, overlap=0.1)
    return PairMatrix(2).fit(frame(drawn(rng, laws, laws[:, ::1], [[0.1, 0.55], [0.25, 0.1]], 12_000), "from", "to"))


def a_small_table_of_two_answers(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    rows, columns = rng.dirichlet(np.full(12, 0.7), 2), rng.dirichlet(np.full(9, 0.7), 2)
    return PairMatrix(None).fit(counts(drawn(rng, rows, columns, np.diag([0.5, 0.5]), 6000), (12, 9)))


def four_uneven_communities(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 400, 4, zipf=0.4, overlap=0.03)
    return PairMatrix(None).fit(frame(drawn(rng, laws, laws, np.diag([0.4, 0.3, 0.2, 0.1]), 24_000)))


def items_that_avoid_their_like(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 2, overlap=0.1)
    return PairMatrix().fit(frame(drawn(rng, laws, laws, [[0.05, 0.45], [0.45, 0.05]], 9000)))


def a_hundred_thousand_pairs(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 1000, 3, zipf=0.7, overlap=0.2)
    return PairMatrix(3).fit(counts(drawn(rng, laws, laws, np.diag([0.4, 0.3, 0.3]), 100_000), (1000, 1000)))


# -------------------------------------------------------------- unsound


def independent(rng: np.random.Generator, n_items: int, n_pairs: int, zipf: float = 0.8) -> Ints:
    law = kinds(rng, n_items, 1, zipf=zipf)
    return drawn(rng, law, law, [[1.0]], n_pairs)


def independent_words(seed: int) -> PairMatrix:
    return PairMatrix().fit(frame(independent(np.random.default_rng(seed), 500, 8000)))


def independent_words_and_a_chosen_number(seed: int) -> PairMatrix:
    return PairMatrix(None).fit(frame(independent(np.random.default_rng(seed), 500, 8000)))


def half_a_pair_per_item(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 2000, 2, overlap=0.2)
    return PairMatrix().fit(counts(drawn(rng, laws, laws, np.diag([0.5, 0.5]), 1000), (2000, 2000)))


def five_components_of_two(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 2)
    return PairMatrix(5).fit(frame(drawn(rng, laws, laws, np.diag([0.5, 0.5]), 9000)))


def two_components_of_four(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 4)
    return PairMatrix(2).fit(frame(drawn(rng, laws, laws, np.eye(4) / 4, 15_000)))


def every_line_three_times(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 2)
    return PairMatrix().fit(frame(np.repeat(drawn(rng, laws, laws, np.diag([0.5, 0.5]), 3000), 3, axis=0)))


def a_third_of_the_lines_twice(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    pairs = independent(rng, 500, 6000, zipf=0.3)
    return PairMatrix().fit(frame(np.concatenate([pairs, pairs[:2000]])))


def one_pair_a_third_of_all(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    pairs = independent(rng, 200, 6000, zipf=0.3)
    return PairMatrix().fit(frame(np.concatenate([pairs, np.tile([[3, 7]], (3000, 1))])))


def weights_instead_of_counts(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 200, 2)
    table = counts(drawn(rng, laws, laws, np.diag([0.5, 0.5]), 8000), (200, 200)).astype(float)
    table.data = np.log1p(table.data)
    return PairMatrix().fit(table)


def order_matters_and_was_ignored(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 250, 2)
    pairs = drawn(rng, laws, laws, [[0.05, 0.8], [0.1, 0.05]], 12_000)
    return PairMatrix(symmetric=True).fit(counts(pairs, (250, 250)))


def pairs_with_the_smaller_id_first(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 200, 2)
    pairs = drawn(rng, laws, laws, np.diag([0.5, 0.5]), 6000)
    return PairMatrix().fit(frame(np.sort(pairs, axis=1)))


def pairs_of_an_item_with_itself_left_out(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 300, 2, zipf=0.9)
    pairs = drawn(rng, laws, laws, np.diag([0.5, 0.5]), 9000)
    return PairMatrix(None).fit(frame(pairs[pairs[:, 0] != pairs[:, 1]]))


def all_pairs_of_a_few_baskets(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    law, (first, second) = kinds(rng, 300, 1, zipf=0.5)[0], np.triu_indices(30, 1)
    baskets = [rng.choice(300, 30, p=law, replace=False) for _ in range(60)]
    pairs = np.concatenate([np.column_stack([basket[first], basket[second]]) for basket in baskets])
    return PairMatrix().fit(frame(pairs))


def an_id_on_one_side(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    words = rng.choice(40, 3000, p=kinds(rng, 40, 1, zipf=0.8)[0])
    return PairMatrix().fit(frame(np.column_stack([np.arange(3000), words]), "customer", "product"))


def structure_at_the_threshold(seed: int) -> PairMatrix:
    rng = np.random.default_rng(seed)
    laws = kinds(rng, 1000, 2, overlap=0.42)
    return PairMatrix().fit(counts(drawn(rng, laws, laws, np.diag([0.5, 0.5]), 16_000), (1000, 1000)))


def _all(sound: list[Callable[[int], PairMatrix]]) -> list[Scenario]:
    return [Scenario(make.__name__.replace("_", " "), make) for make in sound]


SCENARIOS = [
    *_all([
        two_kinds_of_products, frequent_and_rare_words, three_tastes_of_customers, links_with_a_direction,
        a_small_table_of_two_answers, four_uneven_communities, items_that_avoid_their_like, a_hundred_thousand_pairs,
    ]),
    Scenario("independent words", independent_words, UNKNOWN, "structure"),
    Scenario("independent words, number chosen", independent_words_and_a_chosen_number, DOUBTFUL, "no structure"),
    Scenario("half a pair per item", half_a_pair_per_item, WARNED, "pairs per item"),
    Scenario("five components of two", five_components_of_two, DOUBTFUL, "support"),
    Scenario("two components of four", two_components_of_four, DOUBTFUL, "more structure"),
    Scenario("every line three times", every_line_three_times, WARNED, "repeat"),
    Scenario("a third of the lines twice", a_third_of_the_lines_twice, WARNED, "repeat|structure"),
    Scenario("one pair is a third of all", one_pair_a_third_of_all, WARNED, "one pair|single pair"),
    Scenario("weights instead of counts", weights_instead_of_counts, WARNED, "whole"),
    Scenario("order matters and was ignored", order_matters_and_was_ignored, DOUBTFUL, "order"),
    Scenario("pairs with the smaller id first", pairs_with_the_smaller_id_first, DOUBTFUL, "order of the items"),
    Scenario("own pairs left out", pairs_of_an_item_with_itself_left_out, WARNED, "with itself"),
    Scenario("all pairs of a few baskets", all_pairs_of_a_few_baskets, WARNED, "structure|repeat"),
    Scenario("an id on one side", an_id_on_one_side, UNKNOWN, "structure"),
    Scenario("structure at the threshold", structure_at_the_threshold, WARNED, "halves|structure"),
]  # fmt: skip
