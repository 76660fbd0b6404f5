"""Counts of pairs as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from latentfit import PairMatrix
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator
Drawn = tuple[Any, np.ndarray | None]
"""The pairs, and the true probabilities B (row item, column item) where there are such."""


def fit(draw: Callable[[Generator], Drawn], n_components: int | None, seed: int) -> PairMatrix:
    """Draw pairs and fit them with default settings."""
    rng = np.random.default_rng([seed, *draw.__name__.encode()])
    return PairMatrix(n_components).fit(draw(rng)[0])


def zipf(n_items: int) -> np.ndarray:
    """Frequencies of items that fall slowly."""
    weights = 1.0 / (np.arange(n_items) + 10)
    return weights / weights.sum()


def causes(rng: Generator, n_causes: int, frequencies: np.ndarray, concentration: float = 0.1) -> np.ndarray:
    """What each cause makes likely, shape (cause, item): most items belong mainly to one."""
    made = rng.dirichlet(np.full(n_causes, concentration), len(frequencies)).T * frequencies
    return made / made.sum(axis=1, keepdims=True)


def counted(rng: Generator, n_pairs: int, joint: np.ndarray) -> np.ndarray:
    """Counts of independent pairs."""
    return rng.multinomial(n_pairs, joint.ravel() / joint.sum()).reshape(joint.shape)


def names(prefix: str, items: np.ndarray) -> list[str]:
    """Text names."""
    return [f"{prefix}{i:04d}" for i in items]


def listed(rng: Generator, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair once per count, in random order."""
    row, column = np.nonzero(counts)
    at = rng.permutation(np.repeat(np.arange(len(row)), counts[row, column]))
    return row[at], column[at]


# ---------------------------------------------------------------- sound


def word_pairs(rng: Generator) -> Drawn:
    """Two words of one sentence, in either order, 300 words, two subjects of even weight, a frame of texts."""
    words = causes(rng, 2, zipf(300))
    joint = 0.5 * (np.outer(words[0], words[0]) + np.outer(words[1], words[1]))
    row, column = listed(rng, counted(rng, 20_000, joint))
    return pd.DataFrame({"word": names("w", row), "context": names("w", column)}), joint


def uneven_subjects(rng: Generator) -> Drawn:
    """400 items, two hidden causes of 70 and 30 per cent, sparse counts."""
    items = causes(rng, 2, zipf(400))
    joint = items.T @ np.diag([0.7, 0.3]) @ items
    return sp.csr_matrix(counted(rng, 30_000, joint)), joint


def purchases(rng: Generator) -> Drawn:
    """Shops and products: three kinds of shop, 150 shops, 250 products."""
    shops, products = causes(rng, 3, zipf(150), 0.05), causes(rng, 3, zipf(250))
    joint = shops.T @ np.diag([0.4, 0.35, 0.25]) @ products
    row, column = listed(rng, counted(rng, 30_000, joint))
    return pd.DataFrame({"shop": names("shop-", row), "product": names("p", column)}), joint


def rank_unknown(rng: Generator) -> Drawn:
    """Two subjects, 250 items, the rank not given."""
    items = causes(rng, 2, zipf(250))
    joint = items.T @ np.diag([0.55, 0.45]) @ items
    return sp.csr_matrix(counted(rng, 15_000, joint)), joint


def hundred_thousand(rng: Generator) -> Drawn:
    """100,000 pairs of 200 items, two weak causes."""
    items = causes(rng, 2, zipf(200), 0.5)
    joint = items.T @ np.diag([0.5, 0.5]) @ items
    return sp.csr_matrix(counted(rng, 100_000, joint)), joint


def successors(rng: Generator) -> Drawn:
    """A symbol and the next one: two states that alternate four times out of five."""
    symbols = causes(rng, 2, zipf(120))
    joint = symbols.T @ np.array([[0.1, 0.4], [0.4, 0.1]]) @ symbols
    return sp.csr_matrix(counted(rng, 12_000, joint)), joint


def table_of_counts(rng: Generator) -> Drawn:
    """Regions and products as a dense table, 60 x 40, other marginals on either side."""
    regions, products = causes(rng, 2, zipf(60), 0.2), causes(rng, 2, rng.permutation(zipf(40)) ** 2, 0.2)
    joint = regions.T @ np.diag([0.6, 0.4]) @ products
    return counted(rng, 8000, joint), joint


def three_columns(rng: Generator) -> Drawn:
    """Sources, targets and how often, in three named columns; three causes."""
    sources, targets = causes(rng, 3, zipf(150), 0.05), causes(rng, 3, zipf(150), 0.05)
    joint = sources.T @ np.array([[0.3, 0.05, 0.0], [0.0, 0.25, 0.05], [0.05, 0.0, 0.3]]) @ targets
    counts = counted(rng, 25_000, joint)
    row, column = np.nonzero(counts)
    frame = pd.DataFrame({"row": names("s", row), "column": names("t", column), "count": counts[row, column]})
    return frame.sample(frac=1, random_state=int(rng.integers(1000))), joint


# ---------------------------------------------------------------- unsound


def independent(rng: Generator) -> Drawn:
    """No item goes with another."""
    return sp.csr_matrix(counted(rng, 9000, np.outer(zipf(300), zipf(300)))), None


def sparse(rng: Generator) -> Drawn:
    """800 pairs of 1,500 items."""
    items = causes(rng, 2, zipf(1500), 0.5)
    joint = 0.5 * items.T @ items
    return sp.csr_matrix(counted(rng, 800, joint)), joint


def receipts(rng: Generator) -> Drawn:
    """The number of the receipt beside the product: every receipt occurs once."""
    product = rng.choice(80, 3000, p=zipf(80))
    return pd.DataFrame({"receipt": names("R", np.arange(3000)), "product": names("p", product)}), None


def copied(rng: Generator) -> Drawn:
    """Three hundred independent pairs, each written forty times."""
    row, column = rng.choice(200, (2, 300), p=zipf(200))
    at = rng.permutation(np.repeat(np.arange(300), 40))
    return pd.DataFrame({"left": names("a", row[at]), "right": names("b", column[at])}), np.outer(zipf(200), zipf(200))


def six_causes(rng: Generator) -> Drawn:
    """Six kinds of items, rank two asked for."""
    items = causes(rng, 6, zipf(200), 0.05)
    joint = items.T @ items / 6
    return sp.csr_matrix(counted(rng, 20_000, joint)), joint


def two_codings(rng: Generator) -> Drawn:
    """Two subjects; the second half of the file has other names for the same items."""
    items = causes(rng, 2, zipf(120))
    halves = [listed(rng, counted(rng, 5000, 0.5 * items.T @ items)) for _ in range(2)]
    left = names("a", halves[0][0]) + names("B", halves[1][0])
    right = names("a", halves[0][1]) + names("B", halves[1][1])
    return pd.DataFrame({"left": left, "right": right}), None


def mostly_itself(rng: Generator) -> Drawn:
    """Half of the pairs are an item and itself, as in counts that include the diagonal; the others are independent."""
    joint = 0.5 * np.diag(zipf(150)) + 0.5 * np.outer(zipf(150), zipf(150))
    return sp.csr_matrix(counted(rng, 10_000, joint)), joint


def smaller_first(rng: Generator) -> Drawn:
    """Independent items of unordered pairs, the smaller number written first."""
    pairs = np.sort(rng.choice(200, (8000, 2), p=rng.permutation(zipf(200))), axis=1)
    return pd.DataFrame({"left": names("i", pairs[:, 0]), "right": names("i", pairs[:, 1])}), None


def large_baskets(rng: Generator) -> Drawn:
    """All pairs of forty baskets of twenty-five items that were drawn independently."""
    counts = np.zeros((400, 400), dtype=int)
    for _ in range(40):
        basket = rng.choice(400, 25, replace=False, p=zipf(400))
        counts[np.ix_(basket, basket)] += 1 - np.eye(25, dtype=int)
    return sp.csr_matrix(counts), np.outer(zipf(400), zipf(400))


def rank_too_high(rng: Generator) -> Drawn:
    """Two subjects, rank ten asked for."""
    items = causes(rng, 2, zipf(200))
    joint = 0.5 * items.T @ items
    return sp.csr_matrix(counted(rng, 8000, joint)), joint


# ---------------------------------------------------------------- real letters

FOLDER = data_folder()


@cache
def genesis() -> np.ndarray:
    """The letters of Genesis, in order."""
    assert FOLDER is not None
    with gzip.open(FOLDER / "pairs" / "genesis_kjv_letters.seq.txt.gz", "rt") as file:
        return np.array(list(file.read().replace("\n", "")))


def letters(rng: Generator) -> Drawn:
    """A letter and the next one, 60,000 of them."""
    text = genesis()
    at = rng.integers(len(text) - 60_001)
    return (text[at : at + 60_000], text[at + 1 : at + 60_001]), None


def shuffled_letters(rng: Generator) -> Drawn:
    """The same with the letters shuffled."""
    text = rng.permutation(genesis())[:60_001]
    return (text[:-1], text[1:]), None


NONE = "no structure|structure|rank 1|nothing|noise|chance|independen|not support|fewer|found"
FEW = "few|sparse|small|too little|per item|more pairs|once"
RANK = "rank|more components|further|residual|fit|beyond|left"

SCENARIOS: list[Scenario] = [
    # Sixty pairs per word, two subjects with hardly a common word.
    Scenario("words of one sentence", partial(fit, word_pairs, 2)),
    # The smaller cause has 9,000 pairs.
    Scenario("two causes of 70 and 30 per cent", partial(fit, uneven_subjects, 2)),
    # Rectangular counts, 75 pairs or more per item.
    Scenario("kinds of shops and products", partial(fit, purchases, 3)),
    # The second component stands far above the noise.
    Scenario("rank not given", partial(fit, rank_unknown, None)),
    # Weak causes, but five hundred pairs per item.
    Scenario("100,000 pairs", partial(fit, hundred_thousand, 2)),
    # Items avoid their like: a negative component, as good as a positive one.
    Scenario("symbols that alternate", partial(fit, successors, 2)),
    # Eighty counts per row and more per column.
    Scenario("a dense table of counts", partial(fit, table_of_counts, 2)),
    # Eighty pairs per item and side, clear causes.
    Scenario("sources, targets and counts", partial(fit, three_columns, 3)),
    # Nothing to find at rank two.
    Scenario("independent pairs", partial(fit, independent, 2), WARNED, NONE),
    # Half a pair per item.
    Scenario("800 pairs of 1,500 items", partial(fit, sparse, 2), WARNED, f"{FEW}|{NONE}"),
    # An item seen once says nothing of what goes with it.
    Scenario(
        "the receipt's number as an item", partial(fit, receipts, 2), WARNED, f"identifier|id column|{FEW}|{NONE}"
    ),
    # Counts of forty are one observation each.
    Scenario(
        "pairs copied forty times", partial(fit, copied, 2), WARNED, "duplic|copies|identical|repeat|multiple|same"
    ),
    # B has rank six.
    Scenario("six causes at rank two", partial(fit, six_causes, 2), WARNED, RANK),
    # The component is the file's half, and B is half empty by an accident of names.
    Scenario(
        "other names in the second half",
        partial(fit, two_codings, 2),
        WARNED,
        f"connect|disjoint|separate|parts|never|no pair|halves|half|{RANK}",
    ),
    # A diagonal has full rank.
    Scenario(
        "items paired with themselves", partial(fit, mostly_itself, 2), WARNED, f"diagonal|itself|self|themsel|{RANK}"
    ),
    # The triangle is a way of writing, not a property of items.
    Scenario(
        "the smaller number first",
        partial(fit, smaller_first, 2),
        WARNED,
        f"order|triang|symmetr|smaller|sorted|direction|{RANK}",
    ),
    # Forty baskets are forty observations, not 24,000.
    Scenario(
        "all pairs of large baskets",
        partial(fit, large_baskets, 2),
        WARNED,
        f"basket|depend|group|clique|together|half|halves|{RANK}|{NONE}",
    ),
    # Eight of the components are noise.
    Scenario("two causes at rank ten", partial(fit, rank_too_high, 10), WARNED, f"rank|stab|{NONE}"),
]

if FOLDER is not None and (FOLDER / "pairs" / "genesis_kjv_letters.seq.txt.gz").is_file():
    SCENARIOS += [
        # Vowels and consonants are not all of English spelling: q is followed by u.
        Scenario("letters at rank two", partial(fit, letters, 2), WARNED, RANK),
        # Nothing is left.
        Scenario("letters shuffled", partial(fit, shuffled_letters, 2), WARNED, NONE),
    ]
