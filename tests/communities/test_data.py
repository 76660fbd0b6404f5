"""Every form of a graph reads as the same graph; every rule is kept and told, every wrong input has its sentence."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from latentfit.communities.data import content_order, read_graph
from latentfit.core.errors import DataError, DataWarning
from latentfit.io.read import read_columns
from latentfit.io.scan import scan

EDGES = [("ann", "bob"), ("bob", "cid"), ("cid", "ann"), ("cid", "dan")]


class Network:
    """What a networkx graph shows of itself."""

    def __init__(self, nodes, edges):
        self.nodes, self._edges = nodes, edges

    def edges(self, data):
        assert data == "weight"
        return [(edge[0], edge[1], edge[2] if len(edge) == 3 else None) for edge in self._edges]


def square(graph):
    return graph.matrix.toarray().tolist()


def test_all_forms_agree():
    frame = pd.DataFrame(EDGES, columns=["source", "target"])
    forms = [
        EDGES, [list(edge) for edge in EDGES], frame, pl.from_pandas(frame), pa.Table.from_pandas(frame),
        ([a for a, _ in EDGES], [b for _, b in EDGES]), frame.rename(columns={"source": "from", "target": "to"}),
        frame.rename(columns={"source": "left end", "target": "right end"}), np.array(EDGES),
        Network(["ann", "bob", "cid", "dan"], EDGES),
    ]  # fmt: skip
    for form in forms:
        graph = read_graph(form)
        assert graph.names.tolist() == ["ann", "bob", "cid", "dan"]
        assert square(graph) == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    matrix = np.array(square(read_graph(EDGES)))
    for form in (matrix, sp.csr_array(matrix), sp.coo_matrix(matrix), sp.csr_array(np.triu(matrix)), matrix.tolist()):
        graph = read_graph(form) if not isinstance(form, list) else read_graph(np.array(form))
        assert square(graph) == matrix.tolist()
        assert graph.names.tolist() == [0, 1, 2, 3]
    assert read_graph(graph) is graph
    table = pd.DataFrame(matrix, columns=["ann", "bob", "cid", "dan"])
    for form in (table, table.set_axis(table.columns), pl.from_pandas(table), pa.Table.from_pandas(table)):
        graph = read_graph(form)
        assert (square(graph), graph.names.tolist()) == (matrix.tolist(), ["ann", "bob", "cid", "dan"])


def test_square_tables_of_files(tmp_path):
    links = np.array([[0, 0.5, 1, 0], [0.5, 0, 0, 2], [1, 0, 0, 0], [0, 2, 0, 0]])
    pd.DataFrame(links, columns=list("abcd")).to_csv(tmp_path / "x.csv", index=False)
    graph = read_graph(read_columns(tmp_path / "x.csv"))
    assert (square(graph), graph.names.tolist()) == (links.tolist(), list("abcd"))
    words = pa.table({"who": list("abcd"), "whom": list("bcda"), "day": [1, 2, 3, 4], "n": [1, 1, 1, 1]})
    assert read_graph(words).n_edges == 4
    assert "columns 'who' and 'whom' were taken" in read_graph(words).notes[0]


def test_networkx_itself():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.Graph(EDGES)
    graph.add_node("eve")
    read = read_graph(graph)
    assert sorted(read.names.tolist()) == ["ann", "bob", "cid", "dan", "eve"]
    assert read.n_edges == 4


def test_direction_repetition_and_loops():
    graph = read_graph([("a", "b"), ("b", "a"), ("a", "b"), ("a", "a"), ("b", "c")])
    assert square(graph) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert graph.notes == (
        "1 links of a node with itself were left out",
        "links were taken as undirected: which end they start from was not used",
        "1 edges were given in both directions",
    )
    assert not graph.weighted
    listed_both_ways = [("a", "b", 2.0), ("b", "a", 2.0), ("b", "c", 3.0), ("c", "b", 3.0)]
    assert square(read_graph(listed_both_ways)) == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]
    directed = [("a", "b", 2.0), ("b", "a", 1.0), ("b", "c", 3.0), ("b", "c", 1.0)]
    graph = read_graph(directed)
    assert square(graph) == [[0, 3, 0], [3, 0, 4], [0, 4, 0]]
    assert graph.notes[1:] == ("1 edges were given in both directions: weights added",)
    assert read_graph([("a", "b", 0.0), ("b", "c", 1.0)]).n_edges == 1


def test_nodes_without_edges():
    graph = read_graph(pd.DataFrame({"source": ["a", "c", None], "target": ["b", None, "d"]}))
    assert graph.names.tolist() == ["a", "b", "c", "d"]
    assert graph.degrees.tolist() == [1, 1, 0, 0]
    assert graph.notes == ("2 of 4 nodes have no edge and get the blocks' proportions for probabilities",)
    matrix = np.zeros((3, 3))
    matrix[0, 1] = 1
    assert read_graph(sp.csr_array(matrix)).degrees.tolist() == [1, 1, 0]
    with pytest.warns(DataWarning, match="1 rows of the graph name no node, row 2 first"):
        read_graph([("a", "b"), (None, None)])


def test_numbers_and_words_as_names():
    assert read_graph([(3, 1), (1, 2)]).names.tolist() == [1, 2, 3]
    assert read_graph(pd.DataFrame({"source": [1.0, np.nan], "target": [2, 3]})).names.tolist() == [1, 2, 3]
    assert read_graph(pd.DataFrame({"u": [1, 2], "v": ["2", "x"]})).names.tolist() == ["1", "2", "x"]
    categorical = pd.DataFrame(EDGES, columns=["source", "target"]).astype("category")
    assert read_graph(categorical).n_edges == 4
    assert read_graph(Network([("x", 1), "y"], [(("x", 1), "y")])).names.tolist() == ["('x', 1)", "y"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.ones((3, 4)), "has shape"),
        (sp.csr_array((4, 4)), "no edge between two"),
        ([("a", "a")], "no edge between two"),
        ([], "shape"),
        ([("a", "b", "c", "d")], "4 entries in edge 1"),
        ([("a", "b", -1.0)], "the weight -1 on edge 1"),
        ([("a", "b", np.inf)], "the weight inf"),
        ([("a", "b", "much")], "no number"),
        ([("a", "b", 1.0), ("b", "c", None)], "no weight for the edge in row 2"),
        (sp.csr_array([[0, -1], [0, 0]]), "negative"),
        (pd.DataFrame({"source": ["a"]}), "source and target"),
        (pd.DataFrame({"source": [], "target": []}), "0 rows"),
        (([1, 2], [3]), "has 2 sources and 1 targets; give one of each per edge"),
        (([1, 2], [2, 3], [1.0]), "has 2 sources and 2 targets, 1 weights; give one of each per edge"),
        (Network([], []), "no nodes"),
        (Network(["1", 1], []), "same name"),
        (pd.DataFrame({"source": [None], "target": [None]}, dtype=object), "no node at all"),
    ],
)
@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_every_wrong_graph_has_its_sentence(data, words):
    with pytest.raises(DataError, match=words):
        read_graph(data)


def test_columns_by_name():
    frame = pd.DataFrame({"who": ["a", "b"], "whom": ["b", "c"], "often": [2, 1]})
    graph = read_graph(frame, columns={"source": "who", "target": "whom", "weight": "often"})
    assert square(graph) == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]
    assert "columns 'who' and 'whom' were taken" in read_graph(frame).notes[0]
    with pytest.raises(DataError, match="the roles are source, target, weight"):
        read_graph(frame, columns={"start": "who"})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_the_order_of_nodes_is_the_graphs_own(seed, weighted):
    rng = np.random.default_rng(seed)
    n = 30
    upper = np.triu(rng.random((n, n)) < 0.15, 1) * (rng.integers(1, 4, (n, n)) if weighted else 1)
    matrix = upper + upper.T
    if not matrix.any():
        return
    turn = rng.permutation(n)
    one, other = read_graph(matrix), read_graph(matrix[np.ix_(turn, turn)])
    left, right = one.reordered(content_order(one)), other.reordered(content_order(other))
    assert np.array_equal(np.sort(left.degrees), np.sort(right.degrees))
    assert np.array_equal(left.degrees, right.degrees)
    assert one.reordered(np.arange(n)).matrix.toarray().tolist() == matrix.tolist()


def test_edge_lists_as_text(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a comment\n1 2\n2\t3\n\n% another\n4\n3,1\n")
    graph = read_graph(scan(path))
    assert graph.names.tolist() == [1, 2, 3, 4]
    assert graph.n_edges == 3
    packed = tmp_path / "edges.gz"
    packed.write_bytes(gzip.compress(b"a b 2\nb c 1.5\n"))
    assert read_graph(scan(packed, lines=True)).matrix.toarray().max() == 2.0
    path.write_text("a b c d\n")
    with pytest.raises(DataError, match="4 words in its line 1"):
        read_graph(scan(path))
    path.write_text("alone\n")
    with pytest.raises(DataError, match="no line with two words"):
        read_graph(scan(path))


@pytest.mark.parametrize("ends", [("gene", "disease"), ("drug_id", "disease_id"), ("movie", "tag")])
def test_two_kinds_of_things_stay_apart_too(ends):
    graph = read_graph(pd.DataFrame({ends[0]: [1, 2, 3], ends[1]: [1, 1, 2]}))
    assert graph.n_nodes == 5
    assert graph.n_edges == 3  # 1-1 is no loop
    assert any("different kinds" in note for note in graph.notes)


def test_names_that_mean_one_node_are_said_where_columns_were_taken_by_place():
    graph = read_graph(pd.DataFrame({"follower": [1, 2, 3], "followed": [2, 1, 2]}))
    assert graph.n_nodes == 3
    assert any("what is called the same in both is one node" in note for note in graph.notes)


HEAD = "%%MatrixMarket matrix coordinate"


@pytest.mark.parametrize(("kind", "edge"), [("pattern symmetric", "{} {}"), ("integer symmetric", "{} {} 2")])
def test_the_sizes_of_a_matrix_market_file_are_no_edge(tmp_path, kind, edge):
    lines = [f"{HEAD} {kind}", "% a comment", "5 5 3", *(edge.format(*ends) for ends in ((2, 1), (3, 2), (4, 3)))]
    path = tmp_path / "graph.mtx"
    path.write_text("\n".join(lines) + "\n")
    graph = read_graph(scan(path, lines=True))
    assert graph.n_edges == 3
    assert sorted(graph.names.tolist()) == [1, 2, 3, 4]
    assert graph.notes == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEAD} pattern general\n5 4 1\n1 1\n", "a graph has as many rows as columns"),
        ("%%MatrixMarket matrix array real\n2 2\n1\n", "not a Matrix Market file of coordinates"),
    ],
)
def test_matrices_that_are_no_graph_get_a_sentence(tmp_path, text, words):
    path = tmp_path / "graph.mtx"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_graph(scan(path, lines=True))
