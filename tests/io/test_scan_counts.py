"""Pairs, documents, sequences and edges counted while files are read: what memory reads of them, to the bit."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import latentfit
from latentfit import BlockModel, CategoricalHMM, PairMatrix, TopicModel
from latentfit.communities.data import read_graph
from latentfit.core import counts as tally_module
from latentfit.core.counts import CellTally, read_counts, sparse_sums
from latentfit.core.errors import DataError, DataWarning
from latentfit.core.estimator import model_state
from latentfit.core.names import GrowingNames, encode
from latentfit.hmm.data import lines_to_sequences, read_sequences
from latentfit.io import parquet_file, text_lines
from latentfit.io import source as source_module
from latentfit.io.read import read_columns
from latentfit.io.write import write_columns
from latentfit.topics.data.input import read_documents


@pytest.fixture(params=[7, 100_000])
def batched(request, monkeypatch):
    """Batches of a few rows, or all rows at once; cells merged often, or at the end."""
    monkeypatch.setattr(parquet_file, "BATCH_ROWS", request.param)
    monkeypatch.setattr(tally_module, "WAITING", request.param)
    monkeypatch.setattr(text_lines, "BATCH_BYTES", 10 * request.param)
    blocks = tuple(max(1_000, 100 * request.param) for _ in source_module.BLOCKS)
    for module in ("latentfit.io.csv_file", "latentfit.io.json_lines"):
        monkeypatch.setattr(f"{module}.BLOCKS", blocks)


def written(frame, folder, ending):
    """The same rows in two files; what memory reads is the whole."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    folder.mkdir()
    half = len(frame) // 2
    for at, part in enumerate((table.slice(0, half), table.slice(half))):
        write_columns(part, folder / f"part{at}.{ending}", format=ending.removesuffix(".gz"))
    write_columns(table, folder.parent / f"whole.{ending}", format=ending.removesuffix(".gz"))
    return latentfit.scan(folder), read_columns(folder.parent / f"whole.{ending}")


def same_matrix(mine, theirs):
    assert mine.dtype == theirs.dtype
    for name in ("indptr", "indices", "data"):
        assert getattr(mine, name).astype(float).tobytes() == getattr(theirs, name).astype(float).tobytes()


def pairs(n_rows=400, fractions=False):
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 12, (n_rows, 2))
    count = rng.integers(0, 4, n_rows) if not fractions else rng.random(n_rows).round(3)
    frame = pd.DataFrame({"first": ids[:, 0] * 7, "second": ids[:, 1] * 7, "n": count, "unused": "x"})
    return frame


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
@pytest.mark.parametrize("fractions", [False, True])
def test_pairs_add_up_as_in_memory(tmp_path, batched, ending, fractions):
    scan, whole = written(pairs(fractions=fractions), tmp_path / "parts", ending)
    mine, theirs = read_counts(scan), read_counts(whole)
    same_matrix(mine.matrix, theirs.matrix)
    assert mine.whole != fractions
    assert mine.row_names.tolist() == theirs.row_names.tolist()
    assert mine.same_items == theirs.same_items
    assert mine.row_names.dtype == theirs.row_names.dtype


def test_a_pair_matrix_of_files_is_that_of_memory(tmp_path):
    scan, whole = written(pairs(4_000), tmp_path / "parts", "parquet")
    mine, theirs = PairMatrix(2).fit(scan), PairMatrix(2).fit(whole)
    for name, value in model_state(theirs)[0].items():
        assert model_state(mine)[0][name].tobytes() == value.tobytes(), name


def test_a_file_that_is_named_in_several_ways_is_read_once(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("row,column\na,b\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    monkeypatch.chdir(tmp_path)
    assert latentfit.scan(["a.csv", "./a.csv", str(tmp_path / "a.csv"), "*.csv"]).paths == ("a.csv",)


def test_missing_and_unnamed_pairs_are_told_once(tmp_path, batched):
    frame = pd.DataFrame({"row": ["a", None, "b", "c"] * 20, "column": ["b", "c", "c", "a"] * 20})
    frame["count"] = [1.0, 2.0, np.nan, 3.0] * 20
    scan, whole = written(frame, tmp_path / "parts", "csv")
    with pytest.warns(DataWarning) as mine:
        found = read_counts(scan)
    with pytest.warns(DataWarning) as theirs:
        same_matrix(found.matrix, read_counts(whole).matrix)
    assert sorted(str(one.message) for one in mine) == sorted(str(one.message) for one in theirs)


def test_pairs_that_cannot_be_told_get_one_sentence(tmp_path):
    (tmp_path / "two.csv").write_text("x,y\n1,2\n")
    assert read_counts(latentfit.scan(tmp_path / "two.csv")).shape == (
        1,
        1,
    )  # two columns are pairs, whatever their names
    (tmp_path / "a.csv").write_text("x,y,z\n1,2,3\n")
    with pytest.raises(DataError, match="may be pairs with a count or a matrix; for pairs name them in columns="):
        read_counts(latentfit.scan(tmp_path / "a.csv"))
    assert read_counts(latentfit.scan(tmp_path / "a.csv"), columns={"row": "x", "column": "y"}).total == 1
    (tmp_path / "b.csv").write_text("x,y,z,row\n1,2,3,4\n")
    with pytest.raises(DataError, match="no column for the column item among"):
        read_counts(latentfit.scan(tmp_path / "b.csv"))
    (tmp_path / "c.csv").write_text("row,column,count\na,b,many\n")
    with pytest.raises(DataError, match="the column of counts holds 'many' in row 1, no number"):
        read_counts(latentfit.scan(tmp_path / "c.csv"))


def documents(n_rows=600):
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 2, 40)
    at = rng.integers(0, 40, n_rows)
    word = np.where(rng.random(n_rows) < 0.8, kind[at] * 5, 0) + rng.integers(0, 5, n_rows)
    names = np.array([f"d{n}" for n in rng.permutation(40)], object)[at]
    return pd.DataFrame({"document": names, "word": np.array(list("fghijabcde"), object)[word], "count": 1 + at % 3})


def test_a_count_that_is_none_is_refused_before_it_is_added(tmp_path, batched):
    """-1 and 3 are 2, and infinity less infinity a gap: what is added first is never seen."""
    rows = pa.table({"document": list("eddd"), "word": list("vwvw"), "count": [2.0, 3.0, 1.0, -1.0]})
    write_columns(rows, tmp_path / "minus.csv", format="csv")
    pairs = rows.rename_columns(["i", "j", "count"])
    write_columns(pairs, tmp_path / "pairs.parquet", format="parquet")
    with pytest.raises(DataError, match="document 'd' holds -1 of the word 'w'; give how often"):
        read_documents(latentfit.scan(tmp_path / "minus.csv"))
    with pytest.raises(DataError, match="hold -1 for the pair 'd', 'w', a negative count; give how often"):
        read_counts(latentfit.scan(tmp_path / "pairs.parquet"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_documents_add_up_as_in_memory(tmp_path, batched, ending):
    scan, whole = written(documents(), tmp_path / "parts", ending)
    mine, theirs = read_documents(scan), read_documents(whole)
    same_matrix(mine.matrix, theirs.matrix)
    assert mine.names.tolist() == theirs.names.tolist()  # as they first appear
    assert mine.words.tolist() == theirs.words.tolist()


def test_topics_of_files_are_those_of_memory(tmp_path):
    scan, whole = written(documents(), tmp_path / "parts", "csv")
    mine, theirs = TopicModel(2).fit(scan), TopicModel(2).fit(whole)
    assert mine.topics_.tobytes() == theirs.topics_.tobytes()
    assert mine.proportions_.tobytes() == theirs.proportions_.tobytes()
    assert mine.transform(scan).tobytes() == theirs.transform(whole).tobytes()


def test_documents_that_lack_something_get_one_sentence(tmp_path, batched):
    frame = documents(40).astype(object)
    frame.loc[30, "count"] = "many"
    scan, _ = written(frame.astype(str), tmp_path / "parts", "csv")
    with pytest.raises(DataError, match="the column of counts holds 'many' in row 31, no number"):
        read_documents(scan)
    frame.loc[:, "count"] = None
    scan, _ = written(frame, tmp_path / "none", "parquet")
    with pytest.warns(DataWarning, match="40 rows lack"), pytest.raises(DataError, match="no row of the files"):
        read_documents(scan)
    (tmp_path / "wide.csv").write_text("cat,dog\n1,2\n")
    with pytest.raises(DataError, match=r"none for the document; give document, word and count"):
        TopicModel(2).fit(latentfit.scan(tmp_path / "wide.csv"))


LINES = ["the cat sat", "", "on the mat\x0bwith a dog", "007 7 the", "  ", "ünd the cat"]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "whole.txt").write_text("\ufeff" + "\r\n".join(LINES * 5) + "\n", encoding="utf-8")
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("\ufeff" + "\n".join(LINES * 2) + "\n", encoding="utf-8")
    (folder / "b.txt.gz").write_bytes(gzip.compress("\n".join(LINES * 3).encode()))
    return tmp_path


def test_texts_are_counted_line_by_line(text, batched):
    theirs = read_documents("\n".join(LINES * 5).splitlines())
    for mine in (
        read_documents(latentfit.scan(text / "whole.txt")),
        read_documents(latentfit.scan(text / "texts" / "*")),
    ):
        same_matrix(mine.matrix, theirs.matrix)
        assert mine.words.tolist() == theirs.words.tolist()
        assert mine.names.tolist() == theirs.names.tolist() == list(range(1, 36))
    sequences = lines_to_sequences(["\n".join(LINES * 5).splitlines()])
    found = read_sequences(latentfit.scan(text / "texts"))
    assert found.codes.tolist() == sequences.codes.tolist()
    assert found.offsets.tolist() == sequences.offsets.tolist()
    assert found.symbols.tolist() == sequences.symbols.tolist()


def test_texts_and_tables_do_not_mix(text, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match=r"whole\.txt is plain text and .*a\.csv is a table; scan files of one kind"):
        latentfit.scan([text / "whole.txt", tmp_path / "a.csv"])
    with pytest.raises(DataError, match="is plain text without columns"):
        latentfit.LatentClass(2).fit(latentfit.scan(text / "whole.txt"))
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(DataError, match=r"blank\.txt holds no word; write one document per line"):
        read_documents(latentfit.scan(tmp_path / "blank.txt"))
    with pytest.raises(DataError, match=r"blank\.txt holds no line with anything in it"):
        read_sequences(latentfit.scan(tmp_path / "blank.txt"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("apart", [False, True])
def test_sequences_are_those_of_memory(tmp_path, batched, ending, apart):
    rng = np.random.default_rng(8)
    owner = np.repeat(["s9", "s1", "s5"], 60) if apart else rng.choice(["s9", "s1", "s5"], 180)
    symbol = pd.Series(rng.integers(0, 9, 180), dtype="Int64").mask(rng.random(180) < 0.1)
    scan, whole = written(pd.DataFrame({"sequence": owner, "symbol": symbol}), tmp_path / "parts", ending)
    mine, theirs = read_sequences(scan), read_sequences(whole)
    for name in ("codes", "offsets", "symbols", "names"):
        assert getattr(mine, name).tolist() == getattr(theirs, name).tolist()
    assert (mine.rows is None) == (theirs.rows is None)
    assert mine.codes.dtype == theirs.codes.dtype


def test_states_of_files_are_those_of_memory(tmp_path):
    rng = np.random.default_rng(2)
    state = (np.cumsum(rng.random(1_500) < 0.1) % 2) * 2
    frame = pd.DataFrame({"symbol": np.array(list("abcd"), object)[state + rng.integers(0, 2, 1_500)]})
    scan, whole = written(frame, tmp_path / "parts", "csv")
    mine, theirs = CategoricalHMM(2).fit(scan), CategoricalHMM(2).fit(whole)
    assert mine.emissions_.tobytes() == theirs.emissions_.tobytes()
    assert mine.predict(scan).tolist() == theirs.predict(whole).tolist()
    with pytest.raises(DataError, match="are files, which say where sequences begin"):
        CategoricalHMM(2).fit(scan, lengths=[1_500])
    frame["sequence"] = [*["a"] * 1_490, *[None] * 10]
    scan, _ = written(frame, tmp_path / "gone", "parquet")
    with pytest.raises(DataError, match="X, row 1491: the sequence id is missing"):
        CategoricalHMM(2).fit(scan)


def edges(fractions=False):
    rng = np.random.default_rng(11)
    block = np.arange(40) % 2
    source, target = rng.integers(0, 40, (2, 500))
    keep = (block[source] == block[target]) | (rng.random(500) < 0.2)
    frame = pd.DataFrame({"source": source[keep], "target": target[keep]}).astype("Int64")
    if fractions:
        frame["weight"] = rng.random(len(frame)).round(3)
    return frame.reindex(range(len(frame) + 1)).fillna({"source": 77})  # a node without edges


def same_graph(mine, theirs):
    same_matrix(mine.matrix, theirs.matrix)
    assert mine.names.tolist() == theirs.names.tolist()
    assert mine.notes == theirs.notes


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("fractions", [False, True])
def test_edges_add_up_as_in_memory(tmp_path, batched, ending, fractions):
    scan, whole = written(edges(fractions), tmp_path / "parts", ending)
    same_graph(read_graph(scan), read_graph(whole))


def test_blocks_of_files_are_those_of_memory(tmp_path):
    scan, whole = written(edges(), tmp_path / "parts", "csv")
    mine, theirs = BlockModel(2).fit(scan), BlockModel(2).fit(whole)
    assert mine.probabilities_.tobytes() == theirs.probabilities_.tobytes()


@pytest.mark.parametrize("weights", [False, True])
def test_edge_lines_are_those_of_memory(tmp_path, batched, weights):
    rows = edges(weights).dropna(subset="target")
    lines = ["# a comment", *(" ".join(map(str, row)) for row in rows.itertuples(index=False)), "77", ""]
    (tmp_path / "web.edges").write_text("\n".join(lines))
    scan = latentfit.scan(tmp_path / "web.edges", lines=True)
    same_graph(read_graph(scan), read_graph(edges(weights)))


def test_edges_that_cannot_be_used_get_one_sentence(tmp_path, batched):
    good = "1 2\n2 3\n" * 30

    def refused(text, sentence):
        (tmp_path / "e.txt").write_text(text)
        with pytest.raises(DataError, match=sentence):
            read_graph(latentfit.scan(tmp_path / "e.txt"))

    refused(good + "1 2 3 4\n", r"e\.txt has 4 words in its line 61 \(blank")
    refused(good + "1 3 2.5\n", "has no weight for the edge in row 1; give one")
    refused("1 3 2.5\n" + good, "has no weight for the edge in row 2; give one")
    refused("1\n2\n", "has no line with two words")
    refused("1 2 1\n" * 40 + "2 3 -1\n", "has the weight -1 on edge 41")
    (tmp_path / "one.csv").write_text("only\n1\n")
    with pytest.raises(DataError, match="give the ends of every edge in columns source and target"):
        read_graph(latentfit.scan(tmp_path / "one.csv"))


VALUES = st.one_of(st.integers(-3, 3), st.none())


@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(1, 7), st.sampled_from(["int", "text", "float"]))
def test_names_in_pieces_are_those_of_the_column(values, size, kind):
    if kind == "text":
        values = [None if value is None else str(value) for value in values]
    array = pa.array(values, {"int": pa.int64(), "text": pa.string(), "float": pa.float64()}[kind])
    for sort in (True, False):
        growing = GrowingNames("thing")
        codes = np.concatenate([growing.code(array[at : at + size]) for at in range(0, len(array), size)])
        recode, names = growing.settled(sort=sort)
        theirs, known = encode(array, "thing", sort=sort)
        assert recode[codes].tolist() == theirs.tolist()
        assert names.tolist() == known.tolist()


def test_ordered_and_unused_names_of_a_dictionary(tmp_path):
    sizes = pd.Categorical(["mid", "low", "mid", "huge"] * 3, ["low", "mid", "high", "huge"], ordered=True)
    loose = pd.Categorical(["b", "a", "b", "c"] * 3, ["z", "c", "b", "a"])
    pq.write_table(pa.table({"symbol": pa.array(sizes), "sequence": pa.array(loose)}), tmp_path / "a.parquet")
    mine, theirs = read_sequences(latentfit.scan(tmp_path)), read_sequences(read_columns(tmp_path / "a.parquet"))
    assert mine.symbols.tolist() == theirs.symbols.tolist() == ["low", "mid", "huge"]
    assert mine.names.tolist() == theirs.names.tolist() == ["b", "a", "c"]
    assert mine.codes.tolist() == theirs.codes.tolist()


@given(st.integers(0, 2**32), st.integers(1, 9), st.booleans())
def test_a_tally_does_not_depend_on_batches(seed, size, fractions):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(-1, 4, (2, 50))
    values = rng.random(50) if fractions else rng.integers(0, 2**60, 50)
    tally = CellTally()
    for at in range(0, 50, size):
        tally.add(*(one[at : at + size] for one in (rows, columns, values)))
    named = (rows >= 0) & (columns >= 0)
    theirs = sparse_sums(rows[named], columns[named], values[named], (4, 4)).tocoo()
    mine = tally.cells()
    assert mine[2].dtype == (np.float64 if fractions else np.int64)
    for one, other in zip(mine, (theirs.row, theirs.col, theirs.data), strict=True):
        assert one.tolist() == other.tolist()


def test_hidden_files_of_a_folder_are_left_alone(tmp_path):
    for name in ("a.txt", "b.txt", "._a.txt", ".hidden.txt"):
        (tmp_path / name).write_text("tea milk tea\nsoup\n")
    with pytest.warns(DataWarning, match="each of the 2 files of the folder is a document"):
        documents = read_documents(latentfit.scan(tmp_path))
    assert documents.names.tolist() == ["a.txt", "b.txt"]
