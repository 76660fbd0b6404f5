"""What `PairMatrix` promises whatever the data: a probability matrix, names, permutations, rules for odd input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from latentfit import PairMatrix, load
from latentfit.core.counts import read_counts
from latentfit.core.errors import DataError, ModelFileError, NotIdentifiableError
from latentfit.pairs.diagnostics.rank_test import detectable_value, structure_power, structure_test
from latentfit.pairs.moments import examine_symmetry
from latentfit.simulate import pairs
from latentfit.testing import check_model

METHODS = ("auto", "paper", "svd", "scaled-svd")


def fits():
    for asymmetric in (False, True):
        world = pairs(90, 2500, "zipf", asymmetric=asymmetric, random_state=1)
        for method in METHODS:
            yield world, PairMatrix(method=method, symmetric=not asymmetric).fit(world.counts)
        topics = pairs(90, 3000, "topics", n_components=4, asymmetric=asymmetric, random_state=2)
        for method in ("auto", "svd", "scaled-svd"):
            yield topics, PairMatrix(4, method=method, symmetric=not asymmetric).fit(topics.counts)


def test_every_answer_is_a_probability_matrix_and_its_decomposition():
    for world, model in fits():
        B = model.reconstruct()
        dense = B.toarray()
        assert (dense >= 0).all()
        np.testing.assert_allclose(dense.sum(), 1.0, atol=1e-9)
        np.testing.assert_allclose(dense.sum(axis=1), model.marginal_, atol=1e-9)
        np.testing.assert_allclose(dense.sum(axis=0), model.column_marginal_, atol=1e-9)
        left, right = (part.reshape(90, -1) for part in (model.separation_, model.column_separation_))
        again = np.outer(model.marginal_, model.column_marginal_) + (left * model.signs_) @ right.T
        np.testing.assert_allclose(dense, np.maximum(again, 0), atol=1e-12)
        x, y = model.components_, model.column_components_
        lift = 1 + (x.T * model.signs_) @ y
        np.testing.assert_allclose(
            dense, np.maximum(np.outer(model.marginal_, model.column_marginal_) * lift, 0), atol=1e-12
        )
        assert model.separation_.shape == ((90,) if model.n_components_ == 2 else (90, model.n_components_ - 1))
        if model.symmetric_:
            np.testing.assert_allclose(dense, dense.T, atol=1e-15)
        counts = world.counts.toarray()
        rarest = model.marginal_[model.marginal_ > 0].min() * model.column_marginal_[model.column_marginal_ > 0].min()
        shown = np.maximum(dense, 1e-9 * rarest)  # an entry cut to zero, of which rounding may leave anything
        assert model.log_likelihood_ == pytest.approx((counts * np.log(shown)).sum(), rel=1e-9)


def test_the_matrix_answers_by_name_and_only_as_much_as_asked():
    counts = pairs(40, 1500, random_state=0).counts.tocoo()
    words = np.array([f"w{n:02d}" for n in range(40)], object)
    frame = pd.DataFrame({"word": words[counts.row], "context": words[counts.col], "n": counts.data})
    model = PairMatrix().fit(frame)
    B, dense = model.reconstruct(), model.reconstruct().toarray()
    np.testing.assert_allclose(np.asarray(B), dense)
    np.testing.assert_allclose(np.asarray(B, np.float32), dense, rtol=1e-6)
    assert B.probability("w03", "w07") == pytest.approx(dense[3, 7])
    np.testing.assert_allclose(B.probability(["w03", "w01"], ["w07", "w01"]), [dense[3, 7], dense[1, 1]])
    np.testing.assert_allclose(B.rows(["w05"]), dense[[5]])
    np.testing.assert_allclose(B.conditional(["w05", "w06"]).sum(axis=1), 1.0)
    np.testing.assert_allclose(B.lift(["w05"], ["w06"]), dense[5, 6] / model.marginal_[5] / model.marginal_[6])
    assert "rank 2" in repr(B)
    assert B.block([], []).shape == (0, 0)
    with pytest.raises(DataError, match="must have the same length, got 3 and 2"):
        B.probability(["w01", "w02", "w03"], ["w01", "w02"])
    with pytest.raises(DataError, match="items must be among the 40 items of the fit, got 'w99'"):
        B.rows(["w99"])
    table = model.item_table_
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["item", "count", "marginal", "separation"]
    assert table["item"].tolist() == words.tolist()
    assert isinstance(PairMatrix().fit(pl.from_pandas(frame)).item_table_, pl.DataFrame)
    four = PairMatrix(4).fit(frame).item_table_
    assert list(four.columns)[3:] == ["separation_1", "separation_2", "separation_3"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("asymmetric", [False, True])
def test_a_permutation_of_items_permutes_the_answer(method, asymmetric):
    world = pairs(250, 8000, "example1", asymmetric=asymmetric, random_state=3)
    rng = np.random.default_rng(0)
    rows = rng.permutation(250)
    cols = rng.permutation(250) if asymmetric else rows
    split = method == "paper"
    one = PairMatrix(method=method, symmetric=not asymmetric, split=split).fit(world.counts)
    two = PairMatrix(method=method, symmetric=not asymmetric, split=split).fit(world.counts[rows][:, cols])
    np.testing.assert_allclose(one.reconstruct().toarray()[np.ix_(rows, cols)], two.reconstruct().toarray(), atol=1e-10)
    np.testing.assert_allclose(np.abs(one.separation_[rows]), np.abs(two.separation_), atol=1e-8)


def test_a_permutation_permutes_the_number_and_more_components():
    world = pairs(200, 6000, "topics", n_components=3, random_state=4)
    order = np.random.default_rng(1).permutation(200)
    one, two = (PairMatrix(None).fit(C) for C in (world.counts, world.counts[order][:, order]))
    assert one.n_components_ == two.n_components_ == 3
    assert one.selection_["p_values"] == pytest.approx(two.selection_["p_values"], abs=1e-6)
    np.testing.assert_allclose(
        one.reconstruct().toarray()[np.ix_(order, order)], two.reconstruct().toarray(), atol=1e-8
    )


def test_both_ways_is_the_same_as_symmetric():
    """An adjacency matrix tells every pair twice: the answer is that of telling it once."""
    counts = read_counts(pairs(100, 3000, random_state=5).counts)
    once = PairMatrix(symmetric=True).fit(counts.matrix)
    twice = PairMatrix().fit(counts.matrix + counts.matrix.T)
    assert twice.symmetric_
    # not to the last digit: a pair seen in both orders is one cell here and two there
    assert np.abs(once.reconstruct().toarray() - twice.reconstruct().toarray()).sum() < 0.01
    assert twice.report_.quantities["n_pairs"] == counts.n_pairs


def test_order_that_matters_is_seen():
    symmetric = read_counts(pairs(300, 9000, "zipf", random_state=6).counts)
    assert examine_symmetry(symmetric).holds
    assert PairMatrix().fit(symmetric).symmetric_
    lopsided = read_counts(pairs(300, 9000, "zipf", asymmetric=True, random_state=6).counts)
    assert not examine_symmetry(lopsided).holds
    assert not PairMatrix().fit(lopsided).symmetric_
    forced = PairMatrix(symmetric=True).fit(lopsided)
    assert any("order of pairs matters" in reason for reason in forced.report_.reasons)
    C = sp.csr_array(np.triu(np.random.default_rng(0).poisson(3.0, (60, 60)), 1))
    assert not examine_symmetry(read_counts(C)).holds


def test_items_without_counts_keep_a_place():
    C = np.zeros((50, 50), int)
    C[:40, :40] = pairs(40, 2000, random_state=0).counts.toarray()
    for method in METHODS:
        model = PairMatrix(method=method).fit(C)
        assert np.isfinite(model.components_).all()
        assert len(model.marginal_) == 50
    assert (PairMatrix(method="scaled-svd").fit(C).components_[:, 40:] == 0).all()
    assert (PairMatrix().fit(C).marginal_[40:] < 0.2 / 50).all()


def test_rank_one_and_weights_and_rectangles():
    C = np.random.default_rng(0).poisson(2.0, (30, 20))
    one = PairMatrix(1).fit(C)
    np.testing.assert_allclose(one.reconstruct().toarray(), np.outer(C.sum(axis=1), C.sum(axis=0)) / C.sum() ** 2)
    assert one.components_.shape == (0, 30)
    assert one.column_components_.shape == (0, 20)
    assert PairMatrix(None).fit(C).n_components_ == 1
    weighted = PairMatrix().fit(C * 0.5)
    assert any("not whole" in reason for reason in weighted.report_.reasons)


def test_what_is_said_of_the_number_is_what_was_used():
    """The paper's method has rank 2 whatever the test of every rank says."""
    C = np.random.default_rng(0).poisson(2.0, (30, 20))
    for method, number in (("auto", 1), ("paper", 2)):
        model = PairMatrix(None, method=method).fit(C)
        assert model.n_components_ == model.selection_["chosen"] == number
        report = model.report_
        assert report.quantities["selection"] == model.selection_
        assert report.quantities["supported_components"] == 1
        assert [note for note in report.notes if note.startswith(f"{number} component")]
    assert "2 components, as method='paper' has them" in report.notes[0]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "magic"}, DataError, "method must be one of 'auto', 'paper', 'svd', 'scaled-svd', got 'magic'"),
        ({"symmetric": "maybe"}, DataError, "symmetric must be True, False or 'auto', got 'maybe'"),
        ({"epsilon": 2.0}, DataError, "0 < epsilon < 1, .* must hold, got epsilon=2.0"),
        ({"smoothing": -1}, DataError, "smoothing must be a number >= 0 or 'auto', got -1"),
        ({"n_components": 31}, NotIdentifiableError, "n_components must be an int from 1 to 30"),
        ({"n_components": 0}, NotIdentifiableError, "n_components must be an int from 1 to 30"),
        ({"n_components": 3, "method": "paper"}, DataError, "n_components must be 2 with method='paper', got 3"),
        ({"engine": "dask"}, DataError, "engine of PairMatrix must be one of 'auto', 'memory', got 'dask'"),
    ],
)
def test_bad_arguments_get_one_sentence(options, error, words):
    with pytest.raises(error, match=words):
        PairMatrix(**options).fit(pairs(30, 500, random_state=0).counts)


@pytest.mark.parametrize("said", [True, np.True_, 1], ids=repr)
def test_a_rectangle_is_not_symmetric(said):
    with pytest.raises(
        DataError, match="symmetric=True needs the same row and column items, got 30 row and 20 column items"
    ):
        PairMatrix(symmetric=said).fit(np.ones((30, 20), int))


@pytest.mark.parametrize("said", [True, np.True_, 1, False, np.False_, 0], ids=repr)
def test_items_are_the_same_where_symmetry_is_said_in_any_spelling(said):
    frame = pd.DataFrame({"row": list("abcab") * 20, "column": list("xyzzy") * 20})
    model = PairMatrix(symmetric=said, max_iter=0).fit(frame)
    assert model.symmetric_ is bool(said)
    assert len(model.items_) == (6 if said else 3)


def test_three_batches_need_three_pairs():
    with pytest.raises(DataError, match="one of the three batches got none of 1 pairs; use split=False"):
        PairMatrix(method="paper", split=True).fit(np.array([[0, 1], [0, 0]]))


def test_contract_for_more_components_and_other_methods():
    frame = pairs(50, 1500, "topics", n_components=3, random_state=0).counts
    check_model(PairMatrix(3), frame)


def test_damaged_files_are_refused(tmp_path):
    model = PairMatrix(3).fit(pairs(30, 900, "topics", n_components=3, asymmetric=True, random_state=1).counts)
    path = tmp_path / "m.latent"
    model.save(path)
    again = load(path)
    assert np.array_equal(again.reconstruct().toarray(), model.reconstruct().toarray())
    assert np.array_equal(again.dictionary_, model.dictionary_)
    arrays, metadata = model._state()
    for name, change in (("marginal", lambda a: a * 2), ("separation", lambda a: a[:-1]), ("signs", lambda a: a * 3)):
        broken = dict(arrays) | {name: change(arrays[name])}
        with pytest.raises(ValueError, match=r"sum to one|asks? for|signs are not signs"):
            PairMatrix()._restore(broken, metadata)
    with pytest.raises(ValueError, match="holds a name twice"):
        PairMatrix()._restore(arrays, metadata | {"items": [0] * 30})
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(ModelFileError):
        load(path)


def test_power_is_stated_and_grows():
    powers = [structure_power(500 * d, (500, 500), 0.64, symmetric=True) for d in (1, 3, 10)]
    assert powers == sorted(powers)
    assert powers[0] == pytest.approx(0.05)
    assert powers[-1] > 0.999
    assert detectable_value(1000, (500, 500), symmetric=True) == pytest.approx(0.5)
    tiny = structure_test(read_counts([[1, 0], [0, 1]]), symmetric=True)
    assert tiny.chosen == 1


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_marginals_are_those_of_the_counts_where_few_items_hold_most_pairs(seed: int, symmetric: bool) -> None:
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(5))
    counts = np.zeros((5, 5))
    np.add.at(counts, tuple(rng.choice(5, size=(2, 500), p=share)), 1)
    model = PairMatrix(2, symmetric=symmetric).fit(counts)
    rows, columns = counts.sum(axis=1) / 500, counts.sum(axis=0) / 500
    wanted = ((rows + columns) / 2,) * 2 if symmetric else (rows, columns)
    assert np.abs(model.marginal_ - wanted[0]).sum() < 0.06
    assert np.abs(model.column_marginal_ - wanted[1]).sum() < 0.06
    whole = model.reconstruct().rows(np.arange(5))
    assert whole.min() >= 0
    assert np.allclose(whole.sum(axis=1), model.marginal_, atol=1e-9)


def test_the_largest_rank_looked_for_is_said():
    """Sixteen pairs of items that occur with each other alone: 12 components are the limit, not the finding."""
    counts = np.kron(np.eye(16), np.full((2, 2), 40)).astype(int)
    model = PairMatrix(None).fit(counts)
    assert model.n_components_ == 12
    assert model.report_.verdict == "caution"
    assert any("12 components are the limit of the search" in reason for reason in model.report_.reasons)
    assert not any("method='auto'" in reason for reason in model.report_.reasons), "that is what was done"


def test_a_generator_of_pairs_is_read():
    pairs = [("a", "x"), ("a", "y"), ("b", "x")] * 10
    model = PairMatrix(1).fit(pair for pair in pairs)
    assert model.reconstruct().shape == (2, 2)
    even = PairMatrix(None).fit(np.full((3, 3), 10))
    assert any(note.startswith("1 component:") for note in even.report_.notes)


def test_rank_and_verdict_do_not_hang_on_the_seed():
    """Characters of Les Misérables in common chapters: 7 to 11 components by seed, one of them trusted."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    edges = networkx.les_miserables_graph().edges(data="weight")
    pairs = pd.DataFrame(edges, columns=["source", "target", "count"])
    found = [PairMatrix(None, random_state=seed).fit(pairs) for seed in (0, 1, 4, 5)]
    assert len({model.n_components_ for model in found}) == 1
    assert len({model.report_.verdict for model in found}) == 1
    assert len({tuple(model.report_.quantities["structure_p_values"]) for model in found}) == 1
