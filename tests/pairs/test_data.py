"""Pair counts in every form give the same `Counts`; what cannot be used gets one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from latentfit.core.counts import read_counts
from latentfit.core.errors import DataError, DataWarning
from latentfit.pairs.data import split_counts

WORDS = np.array(["ant", "bee", "cat", "dog", "elk"], object)


def example():
    return np.random.default_rng(0).poisson(1.2, (5, 5))


def frame_of(C):
    at = np.argwhere(C)
    return pd.DataFrame({"word": WORDS[at[:, 0]], "context": WORDS[at[:, 1]], "count": C[tuple(at.T)]})


def test_every_form_gives_the_same_counts():
    C = example()
    frame = frame_of(C)
    long = frame.loc[frame.index.repeat(frame["count"]), ["word", "context"]]
    wide = pd.DataFrame(C, index=WORDS, columns=WORDS)
    named = [
        frame,
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        long,
        long.rename(columns={"word": "eins", "context": "zwei"}),
        wide,
        pl.from_pandas(wide.reset_index(names="item")),
        (frame["word"].to_numpy(), frame["context"].to_numpy(), frame["count"].to_numpy()),
        list(long.itertuples(index=False, name=None)),
    ]
    for form in named:
        got = read_counts(form)
        assert np.array_equal(got.matrix.toarray(), C)
        assert got.row_names.tolist() == got.column_names.tolist() == WORDS.tolist()
        assert got.whole
        assert got.same_items
    for form in (C, C.tolist(), C.astype(float), sp.coo_matrix(C), sp.csc_array(C), sp.csr_matrix(C.astype(np.uint8))):
        got = read_counts(form)
        assert np.array_equal(got.matrix.toarray(), C)
        assert got.matrix.dtype == np.int64
        assert got.row_names.tolist() == list(range(5))
    assert read_counts(frame.rename(columns={"word": "x", "context": "y"}), columns={"row": "x", "column": "y"}).total


def test_what_counts_know_of_themselves():
    C = example()
    counts = read_counts(C)
    assert counts.total == C.sum() == counts.n_pairs
    assert counts.row_sums.tolist() == C.sum(axis=1).tolist()
    assert counts.column_sums.tolist() == C.sum(axis=0).tolist()
    assert not counts.symmetric
    both = read_counts(counts.matrix + counts.matrix.T)  # every pair both ways
    assert both.symmetric
    assert both.n_pairs == C.sum()
    assert read_counts(counts) is counts
    assert not read_counts(np.diag([1, 2, 3])).symmetric  # a diagonal says nothing about both orders


def test_pairs_share_their_items_when_half_of_the_names_do():
    words = pd.DataFrame({"i": ["a", "b", "c"], "j": ["b", "c", "d"]})
    assert read_counts(words).shape == (4, 4)
    assert read_counts(words, square=False).shape == (3, 3)
    people = pd.DataFrame({"i": ["ann", "bob"], "j": ["tea", "milk"]})
    assert read_counts(people).shape == (2, 2)
    assert read_counts(people, square=True).shape == (4, 4)
    mixed = read_counts((["1", "2"], [2, 3]), square=True)
    assert mixed.row_names.tolist() == ["1", "2", "3"]


def purchases():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"customer": rng.integers(0, 40, 300), "product": rng.integers(0, 12, 300)})


def test_two_columns_of_whole_numbers_are_pairs_of_ids_and_not_a_matrix():
    frame = purchases()
    expected = pd.crosstab(frame["customer"], frame["product"]).to_numpy()
    filtered = pd.concat([pd.DataFrame({"customer": [99], "product": [99]}), frame]).iloc[1:]  # an index of numbers
    forms = [frame, filtered, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.astype(float)]
    for form in [*forms, frame.astype("Int64"), frame.to_numpy(), frame.to_numpy().astype(float)]:
        got = read_counts(form)
        assert np.array_equal(got.matrix.toarray(), expected)
        assert "read as pairs" in got.notes[0]
    assert read_counts(frame.assign(count=2)).total == 600
    # a matrix of two columns is still one where it cannot be ids, is square, or says the names of its rows
    assert read_counts(frame + 0.5).shape == (300, 2)
    assert read_counts([[1, 2], [3, 4]]).shape == (2, 2)
    assert read_counts(sp.csr_array(frame.to_numpy())).shape == (300, 2)
    assert read_counts(frame.set_axis([f"c{n}" for n in range(300)])).shape == (300, 2)


def test_customers_and_products_have_lists_of_their_own():
    frame = purchases()
    for form in (frame, frame.astype(str), frame.rename(columns={"customer": "user", "product": "item"})):
        assert read_counts(form).shape == (40, 12)
    assert read_counts((frame["customer"], frame["product"])).shape == (40, 12)  # most customers are no products
    assert read_counts(frame, square=True).shape == (40, 40)
    for names in (("source", "target"), ("word", "context"), ("item_1", "item_2"), ("user_a", "user_b")):
        renamed = frame.set_axis(names, axis=1)
        assert read_counts(renamed).shape == (40, 40), names


def test_a_wide_frame_is_a_matrix_whatever_its_words_are():
    rng = np.random.default_rng(1)
    wide = pd.DataFrame(rng.poisson(1.0, (20, 8)), columns=["source", "target", "count", "to", "word", "n", "j", "i"])
    assert read_counts(wide).shape == (20, 8)
    assert read_counts(pd.DataFrame(example(), columns=list("abcde"))).shape == (5, 5)
    with pytest.raises(DataError, match="may be pairs with a count or a matrix"):
        read_counts(wide[["source", "target", "word", "to"]])
    with pytest.raises(DataError, match="may be pairs with a count or a matrix"):
        read_counts(pd.DataFrame(rng.poisson(1.0, (20, 3)), columns=list("abc")))
    with pytest.raises(DataError, match="may be i, j and count or a matrix of three columns"):
        read_counts(rng.poisson(1.0, (20, 3)))


def test_duplicates_add_up_and_inputs_stay_as_they_are():
    got = read_counts((["a", "a", "b"], ["b", "b", "a"], [1, 2, 4]))
    assert got.matrix.toarray().tolist() == [[0, 3], [4, 0]]
    given_ = sp.coo_matrix(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)).tocsr()
    before = given_.copy()
    assert read_counts(given_).matrix.nnz == 1
    assert np.array_equal(given_.data, before.data)


def test_missing_counts_and_names_are_left_out_with_a_warning():
    frame = pd.DataFrame({"i": ["a", None, "b"], "j": ["b", "a", "a"], "count": [2, 3, None]})
    with pytest.warns(DataWarning, match="1 pairs of the counts are without a"):
        assert read_counts(frame, square=True).matrix.toarray().tolist() == [[0, 2], [0, 0]]
    with pytest.warns(DataWarning, match="1 cells of the counts are missing, and were taken as no count"):
        assert read_counts(np.array([[1, np.nan], [2, 0]])).total == 3
    empty = read_counts(np.array([[0, 0, 0], [0, 2, 1], [0, 0, 3]]))
    assert empty.row_sums[0] == 0
    assert empty.shape == (3, 3)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([[1, -2], [0, 1]], r"hold -2 for the pair 0, 1, a negative count"),
        ([[1, np.inf], [0, 1]], r"hold inf for the pair 0, 1, a count beyond 2\^53"),
        ((["a", "a"], ["b", "b"], [3, -1]), "hold -1 for the pair 'a', 'b', a negative count"),  # though together 2
        ((["a", "a"], ["b", "b"], [np.inf, -np.inf]), r"hold inf for the pair 'a', 'b', a count beyond 2\^53"),
        (sp.coo_array(([3, -1], ([0, 0], [1, 1])), shape=(2, 2)), "hold -1 for the pair 0, 1, a negative count"),
        (np.zeros((3, 3)), "of 3 × 3 items are all zero; give at least one pair"),
        (np.zeros((0, 3)), "give at least one row and one column"),
        ([1, 2, 3], r"have shape \(3,\); give a matrix"),
        ([["a", "b"], ["c", "d"]], "hold something that is no number; give a matrix of counts"),
        (pd.DataFrame({"i": [], "j": []}), "give at least one pair"),
        (pd.DataFrame({"i": ["a"], "j": ["b"], "count": ["x"]}), "the column of counts holds 'x' in row 1, no number"),
        ((["a"], ["b", "c"]), "got 1 row items and 2 column items"),
        ((["a", "b"], ["b", "a"], [1]), "got 2 row items and 2 column items, 1 counts"),
        (sp.csr_array(np.array([[1j, 0], [0, 1]])), "hold complex128 values; give numbers"),
    ],
)
def test_bad_counts_get_one_sentence(data, words):
    with pytest.raises(DataError, match=words):
        read_counts(data)


def test_fractions_are_weights_where_allowed():
    assert not read_counts([[0.5, 1], [1, 2]]).whole
    with pytest.raises(DataError, match="columns= names the role 'left'; the roles are row, column, count"):
        read_counts(frame_of(example()), columns={"left": "word"})
    with pytest.raises(DataError, match="no column for the column item"):
        read_counts(pd.DataFrame({"p": [1.0], "q": [2.0]}), columns={"row": "p"})


@given(st.integers(0, 10_000), st.integers(2, 4), st.booleans())
def test_batches_add_up_and_follow_a_permutation(seed, n_parts, symmetric):
    rng = np.random.default_rng(seed)
    C = rng.poisson(1.5, (8, 8)) * rng.choice([1, 1, 1, 90], (8, 8))
    C = C + C.T if symmetric else C
    C[0, 1] += 1
    C[1, 0] += symmetric
    counts = read_counts(C)
    parts = split_counts(counts, n_parts, seed)
    assert np.array_equal(sum(part.matrix.toarray() for part in parts), C)
    if counts.symmetric:
        assert all(np.array_equal(part.matrix.toarray(), part.matrix.toarray().T) for part in parts)
    order = rng.permutation(8)
    moved = split_counts(read_counts(C[np.ix_(order, order)]), n_parts, seed)
    for part, other in zip(parts, moved, strict=True):
        assert np.array_equal(part.matrix.toarray()[np.ix_(order, order)], other.matrix.toarray())


def test_batches_are_fair():
    counts = read_counts(np.random.default_rng(0).poisson(2.0, (200, 200)))
    parts = split_counts(counts, 3, 1)
    for part in parts:
        assert part.total == pytest.approx(counts.total / 3, rel=0.02)
    heavy = read_counts(np.full((30, 30), 1000))
    half = split_counts(heavy, 2, 0)[0].matrix.toarray()
    assert half.std() == pytest.approx(np.sqrt(250), rel=0.1)


def test_pairs_without_a_count_among_pairs_with_one_count_once():
    for pairs in ([("ant", "bee", 3), ("bee", "cat")], [("bee", "cat"), ("ant", "bee", 3)]):
        got = read_counts(pairs)
        names = got.row_names.tolist()
        assert got.matrix[names.index("ant"), names.index("bee")] == 3
        assert got.total == 4
