"""`Graph`: who is linked with whom, undirected, and an order of the nodes that the links alone decide."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from latentfit.core.counts import CellTally, read_counts, sparse_sums
from latentfit.core.errors import DataError, DataWarning
from latentfit.core.frames import Columns, Roles, as_frame, column, columns_by_role, find_roles, unused_columns
from latentfit.core.kernels import Floats
from latentfit.core.names import GrowingNames, Names, decoded, encode, objects, single_cells, to_arrow
from latentfit.core.numbers import as_numbers
from latentfit.core.sampling import scramble
from latentfit.io.scan import Scan
from latentfit.io.text_lines import edge_batches

REFINEMENTS = 6
"""Rounds of telling nodes apart by their neighbours: enough to reach most of a sparse graph."""


@dataclass(frozen=True)
class Graph:
    """An undirected graph: symmetric weights without a diagonal, and the names of its nodes."""

    matrix: sp.csr_array  # (n, n) float64, sorted indices
    names: Names
    notes: tuple[str, ...] = ()
    directed: sp.csr_array | None = None  # (n, n) the links as they were given, where they have a direction

    @property
    def n_nodes(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_edges(self) -> int:
        return int(self.matrix.nnz) // 2

    @property
    def weighted(self) -> bool:
        return bool((self.matrix.data != 1).any())

    @property
    def degrees(self) -> Floats:
        """Sum of the weights of every node's edges (n,)."""
        return np.asarray(self.matrix.sum(axis=1), np.float64).reshape(-1)

    def evened(self) -> tuple[Graph, float]:
        """The graph with weights of mean 1, and the mean they had."""
        if not self.weighted:
            return self, 1.0
        mean = float(self.matrix.data.mean())
        return replace(self, matrix=sp.csr_array(self.matrix / mean)), mean

    def reordered(self, order: NDArray[np.intp]) -> Graph:
        """The same graph, its nodes in that order."""
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        lengths = np.diff(self.matrix.indptr)[order]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        take = np.repeat(self.matrix.indptr[order] - starts[:-1], lengths) + np.arange(starts[-1])
        matrix = sp.csr_array((self.matrix.data[take], place[self.matrix.indices[take]], starts), self.matrix.shape)
        matrix.sort_indices()
        directed = None if self.directed is None else sp.csr_array(self.directed[order][:, order])
        return Graph(matrix, self.names[order], self.notes, directed)


def content_order(graph: Graph) -> NDArray[np.intp]:
    """An order of the nodes that does not depend on their places.

    Nodes are told apart by their degrees, then by those of their neighbours, and so on (colour refinement, by hashes);
    nodes that stay alike look alike from `REFINEMENTS` steps around, and their names decide. The nodes of a matrix have
    no names: those that stay alike keep their order.
    """
    offsets, reach = graph.matrix.indptr, graph.matrix.indices
    weights = scramble(graph.matrix.data.view(np.uint64), 1) if graph.weighted else None
    colour = np.diff(offsets).astype(np.uint64)
    for round_ in range(REFINEMENTS):
        said = scramble(colour, round_ + 2)[reach]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(said if weights is None else said * weights)])
        colour = scramble(colour ^ scramble(sums[offsets[1:]] - sums[offsets[:-1]], 0), round_)  # wraps around, exactly
    rank = np.argsort(np.argsort(graph.names, kind="stable"), kind="stable")
    return np.lexsort((rank, colour))


# -----------------------------------------------------------------------------
# Whatever holds a graph → `Graph`: who is linked with whom, undirected, with the names of the nodes.
#
# Accepted: a scipy.sparse or dense square matrix, also as a frame whose columns name the nodes, a networkx graph
# (anything with `nodes` and `edges(data=…)`) or its `edges()`, an igraph graph, a frame `source, target[, weight]`, a
# list or any other collection of pairs or triples, an array (edges, 2), a tuple of columns, a `latentfit.scan` of files
# of edges (tables, or text with two words per line), added batch by batch.
#
# Rules, each counted in `notes`: links are taken as undirected, and an edge given both ways is one edge (what was given
# is kept in `directed` where it has a direction, for the diagnosis); two columns of different kinds (user and item)
# whose
# ids are numbers or occur in both are kept apart by the names of the columns; weights of the same edge are added (a
# listing in which every edge stands both ways with the same weight counts it once); without weights an edge given twice
# is one edge. Links of a node with itself say nothing about blocks and are left out. A weight of zero is no edge; only
# ratios of weights matter to a fit (`Graph.evened`). A node without edges is kept: in a matrix an empty row, in a
# list a row without a target. Rows without a name at all are left out.

ALIASES = {
    "source": ("source", "from", "src", "u", "node_1", "node1", "i", "left"),
    "target": ("target", "to", "dst", "v", "node_2", "node2", "j", "right"),
    "weight": ("weight", "weights", "count", "counts", "w", "n", "value"),
}

KINDS = (
    frozenset((
        "user", "customer", "client", "buyer", "shopper", "reader", "viewer", "listener", "visitor", "person", "member",
        "patient", "student", "author", "reviewer", "rater", "actor", "voter", "legislator", "woman", "employee",
    )),
    frozenset((
        "item", "product", "article", "movie", "film", "book", "song", "track", "artist", "paper", "page",
        "url", "course", "drug", "disease", "diagnosi", "symptom", "gene", "event", "group", "club", "company",
        "store", "shop", "tag", "category", "bill", "project", "game", "restaurant", "busines", "hashtag",
    )),
)  # fmt: skip
"""Words for who chooses, and for what is chosen, without the ending s: columns called so hold nodes of two kinds."""
ROUND = 0.02
"""Proportion of the nodes that paths must lead back to for links to have a direction."""


def read_graph(data: Any, *, columns: Columns = None, what: str = "the graph", nodes: Names | None = None) -> Graph:
    """A graph of any accepted kind; `columns` names the columns of a frame ({"source": …, "target": …}).

    `nodes` are those of a fit: what is called "user 5" there is called so here, whether or not ids collide here too.
    """
    if isinstance(data, Graph):
        return data
    if isinstance(data, Scan):
        return _from_scan(data, columns, what, nodes)
    if hasattr(data, "nodes") and hasattr(data, "edges") and callable(data.edges):
        return _from_networkx(data, what)
    if hasattr(data, "get_edgelist") and hasattr(data, "vs"):
        return _from_igraph(data, what)
    if isinstance(data, Iterator | Set) or type(data).__module__.startswith("networkx"):
        data = list(data)  # G.edges(), a generator, a set of pairs
    if isinstance(data, tuple) and len(data) in (2, 3) and all(np.ndim(part) == 1 for part in data):
        return _from_edges(data[0], data[1], data[2] if len(data) == 3 else None, what)
    if isinstance(data, list) and data and all(isinstance(edge, tuple | list) for edge in data):
        return _from_list(data, what)
    frame = None if sp.issparse(data) else as_frame(data)
    if frame is not None:
        return _from_frame(frame, columns, what, nodes)
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] in (2, 3) and len(data) != data.shape[1]:
        return _from_edges(data[:, 0], data[:, 1], data[:, 2] if data.shape[1] == 3 else None, what)
    return _from_matrix(data, what)


# ------------------------------------------------------------------ forms


def _from_matrix(data: Any, what: str) -> Graph:
    shape = np.shape(data)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise DataError(
            f"{what} has shape {shape}; give a square matrix (node, node), or edges as a frame source, target[, weight]"
        )
    if sp.issparse(data) and not getattr(data, "nnz", 0):  # counts would ask for a count, a graph for an edge
        return _finished(sp.csr_array(shape, dtype=np.float64), np.arange(shape[0]), what, weighted=False)
    counts = read_counts(data, what=f"the edges of {what}")
    return _finished(counts.matrix.astype(np.float64), np.arange(shape[0]), what, weighted=True)


def _from_networkx(data: Any, what: str) -> Graph:
    place = {node: at for at, node in enumerate(data.nodes)}
    edges = list(data.edges(data="weight"))
    weights = [weight for *_, weight in edges]
    weighted = any(weight is not None for weight in weights)
    return _from_library(
        data, list(place), [(place[edge[0]], place[edge[1]]) for edge in edges], weights, weighted, what
    )


def _from_igraph(data: Any, what: str) -> Graph:
    """A graph of igraph: vertices by their names, if they have any, and the edges' weights."""
    nodes = list(data.vs["name"]) if "name" in data.vs.attributes() else list(range(data.vcount()))
    weighted, edges = "weight" in data.es.attributes(), data.get_edgelist()
    return _from_library(data, nodes, edges, data.es["weight"] if weighted else [None] * len(edges), weighted, what)


def _from_library(
    data: Any, nodes: list[Any], edges: list[tuple[int, int]], weights: list[Any], weighted: bool, what: str
) -> Graph:
    """A graph of networkx or igraph: its nodes, its edges by their places and their weights, None for 1."""
    if not nodes:
        raise DataError(f"{what} has no nodes; give at least one edge")
    names = _plain_names(nodes)
    try:
        values = np.array([1.0 if weight is None else weight for weight in weights], np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} has a weight that is no number; give numbers, or edges without a weight") from None
    source, target = np.array(edges, np.int64).reshape(-1, 2).T
    matrix = _added(source, target, _checked_weights(values, what), len(nodes))
    directed = bool(getattr(data, "is_directed", lambda: False)())
    return _finished(matrix, names, what, weighted=weighted, directed=directed)


def _from_list(data: list[Any], what: str) -> Graph:
    wrong = next((at for at, edge in enumerate(data) if len(edge) not in (2, 3)), None)
    if wrong is not None:
        raise DataError(
            f"{what} has {len(data[wrong])} entries in edge {wrong + 1}; give two names, and a weight if any"
        )
    given = [edge[2] if len(edge) == 3 else 1.0 for edge in data]
    given = [one.get("weight", 1.0) if isinstance(one, dict) else one for one in given]  # edges(data=True) of networkx
    named = any(len(edge) == 3 and not (isinstance(edge[2], dict) and "weight" not in edge[2]) for edge in data)
    weights = given if named else None
    return _from_edges([edge[0] for edge in data], [edge[1] for edge in data], weights, what)


def _roles(words: list[str], columns: Columns) -> tuple[Roles, tuple[str, ...]]:
    """Which column plays which role, and what the report must say of it."""
    roles = find_roles(words, ALIASES, columns)
    advice = "" if roles["weight"] else "; if one holds the weights of the edges, call it weight (--weight)"
    if roles["source"] is None and roles["target"] is None and len(words) >= 2:
        roles["source"], roles["target"] = words[:2]
        alike = "" if _kinds(roles) else "; what is called the same in both is one node"
        taken = (f"columns {words[0]!r} and {words[1]!r} were taken as the ends of the edges{alike}",)
        return roles, taken + unused_columns(words, roles, advice)
    return roles, unused_columns(words, roles, advice)


def _kinds(roles: Roles) -> tuple[str, str] | None:
    """The names of two columns whose ends are things of different kinds, such as user and item; None elsewhere."""
    ends = [str(roles[end]) for end in ("source", "target")]
    stems = [end.strip().lower().removesuffix("id").rstrip("_ ").removesuffix("s") for end in ends]
    sides = [next((side for side, known in enumerate(KINDS) if stem in known), None) for stem in stems]
    chosen = sides == [1, 1] and stems[0] != stems[1]  # gene and disease; two names of people may mean the same people
    return (ends[0], ends[1]) if set(sides) == {0, 1} or chosen else None


def _apart(
    left: Any, right: Any, kinds: tuple[str, str] | None, nodes: Names | None
) -> tuple[Any, Any, tuple[str, ...]]:
    """Both ends under names that cannot collide, and the word about it; as they are where they do not."""
    plain = [decoded(left), decoded(right)]
    if kinds is None:
        return left, right, ()
    texts = [one.cast(pa.string()) for one in plain]
    named = [pc.binary_join_element_wise(kind, one, " ") for kind, one in zip(kinds, texts, strict=True)]
    if nodes is not None:
        fitted = {node for node in nodes.tolist() if isinstance(node, str)}
        collide = any(node.startswith(tuple(f"{kind} " for kind in kinds)) for node in fitted)
    else:
        all_numeric = all(pa.types.is_integer(one.type) or pa.types.is_floating(one.type) for one in plain)
        collide = all_numeric or pc.any(pc.is_in(texts[0], value_set=texts[1].drop_null().unique())).as_py()
    if not collide:
        return left, right, ()
    note = f"{kinds[0]!r} and {kinds[1]!r} name things of different kinds, so their ids were kept apart: {named[0][0]}"
    return named[0], named[1], (f"{note}, {named[1][0]}",)


def _from_frame(frame: Any, columns: Columns, what: str, nodes: Names | None) -> Graph:
    words = [str(name) for name in frame.columns]
    roles, notes = _roles(words, columns)
    if None in (roles["source"], roles["target"]) or not len(frame):
        raise DataError(
            f"{what} is a frame of {len(frame)} rows with the columns {words}; give the ends of every edge in columns "
            "source and target, and a weight if any"
        )
    if notes and len(frame) == len(words) > 3 and (links := _all_numbers(frame)) is not None:
        return replace(_from_matrix(links, what), names=_plain_names(list(frame.columns)))
    parts = columns_by_role(frame, roles)
    source, target, kind_notes = _apart(parts["source"], parts["target"], _kinds(roles), nodes)
    graph = _from_edges(source, target, parts.get("weight"), what)
    return replace(graph, notes=notes + kind_notes + graph.notes)


def _all_numbers(frame: Any) -> Floats | None:
    """The cells of a frame that holds numbers alone, also as words, since CSV files deliver decimals as text."""
    try:
        return np.column_stack([as_numbers(column(frame, name), "", "") for name in frame.columns])
    except DataError:
        return None


def _from_edges(source: Any, target: Any, weight: Any, what: str) -> Graph:
    left, right = to_arrow(source, "source"), to_arrow(target, "target")
    if len(left) != len(right) or (weight is not None and len(weight) != len(left)):
        more = "" if weight is None else f", {len(weight)} weights"
        raise DataError(f"{what} has {len(left)} sources and {len(right)} targets{more}; give one of each per edge")
    if not len(left):
        raise DataError(f"{what} has no edge; give at least one")
    both, names = encode(_stacked(left, right), "node")
    from_, to = both[: len(left)], both[len(left) :]
    empty = (from_ < 0) & (to < 0)
    if empty.any():
        _warn_nameless(int(empty.sum()), int(empty.argmax()) + 1, what)
    values = np.ones(len(left)) if weight is None else _weight_column(weight, (from_ >= 0) & (to >= 0), what)
    named = (from_ >= 0) & (to >= 0)
    if not len(names):
        raise DataError(f"{what} names no node at all; give the ends of every edge")
    matrix = _added(from_[named], to[named], _checked_weights(values[named], what), len(names))
    return _finished(matrix, names, what, weighted=weight is not None)


def _from_scan(scan: Scan, columns: Columns, what: str, nodes: Names | None) -> Graph:
    """Files of edges: nodes coded with names that grow, weights added batch by batch."""
    notes: tuple[str, ...] = ()
    kinds = None
    if scan.text:
        batches, untyped = edge_batches(scan.lines()), True
    else:
        names = scan.first_names()
        roles, notes = _roles(names, columns)
        if None in (roles["source"], roles["target"]):
            raise DataError(
                f"{what} has the columns {names[:12]}; give the ends of every edge in columns source and target, and a "
                "weight if any"
            )
        batches, untyped, kinds = scan.columns_by_role(roles), scan.untyped, _kinds(roles)
    ends = GrowingNames("source", untyped), GrowingNames("target", untyped)
    tally, behind, edges, nameless, first_nameless = CellTally(), 0, 0, 0, 0
    weighted, unweighted = False, -1  # the first row without a weight: an error when another row has one
    for part in batches:
        from_, to = ends[0].code(part["source"]), ends[1].code(part["target"])
        named, empty = (from_ >= 0) & (to >= 0), (from_ < 0) & (to < 0)
        if empty.any() and not nameless:
            first_nameless = behind + int(empty.argmax()) + 1
        nameless += int(empty.sum())
        values = None
        if named.any() and "weight" not in part and unweighted < 0:
            unweighted = behind + int(named.argmax()) + 1
        weighted = weighted or "weight" in part
        if weighted and unweighted >= 0:
            raise _no_weight(unweighted, what)
        if "weight" in part:
            values = _checked_weights(_weight_column(part["weight"], named, what, behind)[named], what, edges)
        tally.add(from_[named], to[named], values)
        behind, edges = behind + len(from_), edges + int(named.sum())
    if nameless:
        _warn_nameless(nameless, first_nameless, what)
    words = [one.words() for one in ends]
    if scan.text and not len(words[1]):
        raise DataError(f"{what} has no line with two words; give one edge per line")
    if not any(len(one) for one in words):
        raise DataError(f"{what} names no node at all; give the ends of every edge")
    words[0], words[1], kind_notes = _apart(words[0], words[1], kinds, nodes)
    notes += kind_notes
    place, node_names = encode(_stacked(*words), "node")
    rows, cols, sums = tally.cells()
    from_, to = place[: len(words[0])][rows], place[len(words[0]) :][cols]
    graph = _finished(_added(from_, to, sums.astype(np.float64), len(node_names)), node_names, what, weighted=weighted)
    return replace(graph, notes=notes + graph.notes)


# ------------------------------------------------------------------ rules


def _finished(matrix: sp.csr_array, names: Names, what: str, *, weighted: bool, directed: bool | None = None) -> Graph:
    """The rules of direction, repetition and loops; `directed` None: the links themselves say whether they are."""
    notes = []
    loops = int((matrix.diagonal() > 0).sum())
    if loops:
        notes.append(f"{loops} links of a node with itself were left out")
    if not weighted:
        matrix.data[:] = 1.0
    given = None
    upper, lower = sp.csr_array(sp.triu(matrix, 1)), sp.csr_array(sp.tril(matrix, -1).T)
    mirrored = upper.nnz == lower.nnz and not np.any((upper - lower).data)
    if mirrored:
        joined = upper
    else:
        joined = sp.csr_array(upper + lower)
        if _has_direction(matrix) if directed is None else directed:
            given = sp.csr_array(matrix)
            notes.append("links were taken as undirected: which end they start from was not used")
        if upper.nnz and lower.nnz and joined.nnz < upper.nnz + lower.nnz:
            twice = upper.nnz + lower.nnz - joined.nnz
            notes.append(f"{twice} edges were given in both directions" + (": weights added" if weighted else ""))
    if not weighted:
        joined.data[:] = 1.0
    symmetric = sp.csr_array(joined + joined.T, dtype=np.float64)
    symmetric.sort_indices()
    if not symmetric.nnz:
        raise DataError(
            f"{what} has {symmetric.shape[0]} nodes and no edge between two of them; give at least one edge"
        )
    isolated = int((np.diff(symmetric.indptr) == 0).sum())
    if isolated:
        notes.append(
            f"{isolated} of {symmetric.shape[0]} nodes have no edge and get the blocks' proportions for probabilities"
        )
    return Graph(symmetric, names, tuple(notes), given)


def _has_direction(matrix: sp.csr_array) -> bool:
    """Whether links that were given one way each go around: a list of undirected ones follows an order of the nodes.

    Programs that list undirected edges go through the nodes one by one, so no path comes back to where it began. Lists
    in which nodes can be reached from one another have links in a direction, or in none that means anything.
    """
    pieces, _ = connected_components(matrix, directed=True, connection="strong")
    linked = int(((matrix.sum(axis=0) + matrix.sum(axis=1)) > 0).sum())
    return bool(matrix.shape[0] - pieces > ROUND * max(linked, 1))


def _added(source: NDArray[Any], target: NDArray[Any], values: Floats, n: int) -> sp.csr_array:
    matrix = sparse_sums(source, target, values, (n, n))
    matrix.eliminate_zeros()
    return matrix


def _warn_nameless(number: int, first: int, what: str) -> None:
    message = f"{number} rows of {what} name no node, row {first} first, and were left out"
    warnings.warn(message, DataWarning, stacklevel=5)


def _weight_column(weight: Any, needed: NDArray[np.bool_], what: str, before: int = 0) -> Floats:
    where, advice = f"the column of weights of {what}", "give numbers, or leave the column out"
    values = as_numbers(to_arrow(weight, "weight"), where, advice, before)
    missing = np.isnan(values) & needed
    if missing.any():
        raise _no_weight(before + int(missing.argmax()) + 1, what)
    return values


def _no_weight(row: int, what: str) -> DataError:
    return DataError(f"{what} has no weight for the edge in row {row}; give one, or leave the column out")


def _checked_weights(values: Floats, what: str, before: int = 0) -> Floats:
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(
            f"{what} has the weight {values[at]:g} on edge {before + at + 1}; weights count edges: give finite numbers "
            "from 0"
        )
    return values


def _stacked(left: pa.Array, right: pa.Array) -> pa.Array:
    """Both ends in one column; 1 and "1" are the same name, as they would be in a CSV file."""
    plain = [single_cells(decoded(left), "source"), single_cells(decoded(right), "target")]
    if any(pa.types.is_null(array.type) for array in plain):
        kind = next((array.type for array in plain if not pa.types.is_null(array.type)), pa.string())
        plain = [array.cast(kind) for array in plain]
    if plain[0].type != plain[1].type:
        numbers = all(pa.types.is_integer(array.type) or pa.types.is_floating(array.type) for array in plain)
        plain = [array.cast(pa.float64() if numbers else pa.string()) for array in plain]
    return pa.concat_arrays(plain)


def _plain_names(nodes: list[Any]) -> Names:
    """Nodes of networkx, which may be anything hashable: whole numbers stay numbers, everything else becomes words."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        return np.array(nodes, np.int64)
    names = objects(str(node) for node in nodes)
    if len(set(names.tolist())) < len(names):
        raise DataError("two nodes of the graph have the same name as text; rename one of them")
    return names
