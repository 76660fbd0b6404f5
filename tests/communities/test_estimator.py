"""BlockModel: what permutes, what stays, what new nodes get, what every odd graph gets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from latentfit import BlockModel, load, scan
from latentfit.communities.data import read_graph
from latentfit.communities.em import Blocks, BlockSteps, Propagated, blocks_in_use, fit_blocks, heaviest_first
from latentfit.communities.select import examine_degrees
from latentfit.core.em import EMResult, em
from latentfit.core.errors import DataError, ModelFileError, NotIdentifiableError
from latentfit.core.model_file import read_model, write_model
from latentfit.core.multistart import Selected
from latentfit.simulate import block_graph
from reproduction.pairs_communities import overlap

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def made():
    return block_graph(400, 3, 10.0, strength=3.5, random_state=0)


@pytest.fixture(scope="module")
def fitted(made):
    return BlockModel().fit(made.matrix)


def edges_of(matrix, names):
    at = sp.triu(matrix).tocoo()
    return pd.DataFrame({"source": names[at.row], "target": names[at.col]})


def test_blocks_are_found(made, fitted):
    assert fitted.n_blocks_ == 3
    assert overlap(made.blocks, fitted.labels_) > 0.8
    assert fitted.report_.verdict == "ok"
    sizes = np.bincount(fitted.labels_)
    assert (np.diff(sizes) <= 0).all(), "the block with most nodes first"
    assert fitted.connectivity_.shape == (3, 3)
    np.testing.assert_allclose(fitted.connectivity_, fitted.connectivity_.T)
    assert (np.diag(fitted.connectivity_) > fitted.connectivity_.mean()).all()
    inside = fitted.probabilities_.sum(axis=0)
    expected = inside @ fitted.connectivity_ @ inside
    assert expected == pytest.approx(made.matrix.sum(), rel=0.02), "mean weights times pairs are the edges"
    assert fitted.communities_.column_names == ["node", "block", "probability"]
    assert sizes.sum() == 400


def test_permuting_nodes_permutes_the_answer(made, fitted):
    turn = np.random.default_rng(1).permutation(400)
    other = BlockModel().fit(sp.csr_array(made.matrix[turn][:, turn]))
    np.testing.assert_allclose(other.probabilities_, fitted.probabilities_[turn], atol=1e-8)
    np.testing.assert_allclose(other.connectivity_, fitted.connectivity_, rtol=1e-8)
    assert other.log_likelihood_ == pytest.approx(fitted.log_likelihood_, rel=1e-10)


def test_names_in_names_out_and_any_order_of_edges(made, fitted):
    names = np.array([f"n{at:03}" for at in range(400)], object)
    frame = edges_of(made.matrix, names)
    model = BlockModel().fit(frame.sample(frac=1.0, random_state=0))
    assert isinstance(model.communities_, pd.DataFrame)
    linked = np.asarray(made.matrix.sum(axis=1)).reshape(-1) > 0
    assert model.nodes_.tolist() == names[linked].tolist()
    np.testing.assert_allclose(model.probabilities_, fitted.probabilities_[linked], atol=0.02)
    turned = frame.rename(columns={"source": "target", "target": "source"})
    np.testing.assert_array_equal(BlockModel().fit(turned).probabilities_, model.probabilities_)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_no_em_step_lowers_the_objective(corrected, weighted):
    made = block_graph(300, 4, 6.0, strength=2.0, power=2.5 if corrected else None, random_state=3)
    at = sp.triu(made.matrix).tocoo()
    at.data = 0.5 + (at.row + at.col) % 2 if weighted else at.data
    steps = BlockSteps.of(read_graph(sp.csr_array(at + at.T)), degree_corrected=corrected)
    noisy = np.where(np.random.default_rng(0).random(300) < 0.5, made.blocks, 3 - made.blocks)
    refined = em(steps, steps.begin(noisy, 4), max_iter=40, tol=1e-6)
    assert (np.diff(refined.path) >= -1e-9 * np.abs(refined.path[0])).all()
    assert len(refined.path) > 3
    assert refined.sums.change < 0.01


def test_messages_that_do_not_settle_count_by_the_mean_field_bound():
    """Weights as if every edge were seen five times: no messages settle, and what is kept has settled or is a bound."""
    made = block_graph(200, 3, 6.0, strength=2.0, random_state=1)
    steps = BlockSteps.of(read_graph(made.matrix * 5.0), degree_corrected=True)
    rng = np.random.default_rng(0)
    starts = [(str(draw), rng.integers(0, 3, 200)) for draw in range(3)]
    selected = fit_blocks(steps, starts, 3, max_iter=20, tol=1e-6)
    path = selected.refined.path
    assert (np.diff(path) >= -1e-9 * np.abs(path[0])).all()
    truth = em(steps, steps.begin(made.blocks, 3), max_iter=20, tol=1e-6)
    assert truth.objective > selected.refined.objective - 1e-6, "no spurious optimum above the true blocks'"


def test_the_m_step_is_the_maximum():
    """No nearby shares or affinities do better on the expected log-likelihood with its prior."""
    made = block_graph(200, 3, 8.0, strength=3.0, random_state=4)
    steps = BlockSteps.of(read_graph(made.matrix), degree_corrected=True)
    sums = steps.e_step(steps.begin(made.blocks, 3))
    best = steps.m_step(sums)
    held = steps.edges.mass @ sums.posterior

    def value(prior, affinity):
        upper = np.triu_indices(3)
        pairs, mass = sums.pairs.copy(), np.outer(held, held)
        np.fill_diagonal(pairs, np.diag(pairs) / 2)
        np.fill_diagonal(mass, np.diag(mass) / 2)
        fit = (pairs * np.log(affinity) - mass * affinity)[upper].sum() + (sums.posterior @ np.log(prior)).sum()
        relative = affinity / steps.mean_affinity
        return fit + np.log(prior).sum() + (np.log(relative) - relative)[upper].sum()

    rng = np.random.default_rng(0)
    top = value(best.prior, best.affinity)
    for _ in range(20):
        nudge = 1 + 0.02 * rng.standard_normal((3, 3))
        prior = best.prior * (1 + 0.02 * rng.standard_normal(3))
        assert value(prior / prior.sum(), best.affinity * (nudge + nudge.T) / 2) < top


def test_only_ratios_of_weights_matter(made):
    plain = BlockModel(3).fit(made.matrix)
    for factor in (1.0, 2.0, 0.25):
        scaled = BlockModel(3).fit(sp.csr_array(made.matrix * factor))
        np.testing.assert_array_equal(plain.probabilities_, scaled.probabilities_)
        np.testing.assert_allclose(scaled.connectivity_, plain.connectivity_ * factor, rtol=1e-12)


def test_weights_can_carry_the_blocks():
    """Everyone is linked alike, and the links inside are three times as heavy."""
    made = block_graph(300, 1, 20.0, random_state=2)
    blocks = np.arange(300) % 2
    at = sp.triu(made.matrix).tocoo()
    at.data = np.where(blocks[at.row] == blocks[at.col], 3.0, 1.0)
    model = BlockModel().fit(sp.csr_array(at + at.T))
    assert model.n_blocks_ == 2
    assert overlap(blocks, model.labels_) > 0.8
    assert BlockModel().fit(made.matrix).n_blocks_ == 1


def test_random_weights_split_nothing():
    rng = np.random.default_rng(0)
    for seed in range(5):
        at = sp.triu(block_graph(500, 1, 8.0, random_state=seed).matrix).tocoo()
        at.data = rng.exponential(size=at.nnz)
        assert BlockModel(max_iter=0).fit(sp.csr_array(at + at.T)).n_blocks_ == 1


def test_new_nodes_alone_or_together(made, fitted):
    names = np.arange(400)
    base = edges_of(made.matrix, names)
    first = np.flatnonzero(fitted.labels_ == 0)[:4]
    second = np.flatnonzero(fitted.labels_ == 1)[:4]
    new = pd.DataFrame({"source": [400] * 4 + [401] * 4 + [400], "target": [*first, *second, 401]})
    together = fitted.predict_proba(pd.concat([base, new]))
    whole = read_graph(pd.concat([base, new]))
    known = whole.names < 400
    np.testing.assert_array_equal(together[known], fitted.probabilities_[whole.names[known]])
    assert together[~known].argmax(axis=1).tolist() == [0, 1]
    alone = fitted.predict_proba(new.iloc[:4])
    assert np.array_equal(alone[-1], together[~known][0]), "the company does not matter, not by a bit"
    stranger = fitted.predict_proba(pd.DataFrame({"source": [500], "target": [501]}))
    np.testing.assert_allclose(stranger, np.broadcast_to(fitted.weights_, (2, 3)), rtol=1e-12)


def test_new_nodes_get_what_belief_propagation_gives_them(made):
    """A node left out of the fit gets nearly the probabilities it has inside it."""
    inside = BlockModel(3).fit(made.matrix)
    left = 17
    rest = np.delete(np.arange(400), left)
    model = BlockModel(3).fit(edges_of(made.matrix, np.arange(400)).query("source != @left and target != @left"))
    found = model.predict_proba(edges_of(made.matrix, np.arange(400)).query("source == @left or target == @left"))
    names = read_graph(edges_of(made.matrix, np.arange(400)).query("source == @left or target == @left")).names
    agree = [model.labels_[model.nodes_ == node] == inside.labels_[node] for node in rest if node in model.nodes_]
    if np.mean(agree) > 0.9:  # blocks in the same order
        np.testing.assert_allclose(found[names == left][0], inside.probabilities_[left], atol=0.1)


def test_saved_and_loaded(made, fitted, tmp_path):
    names = np.array([f"n{at}" for at in range(400)], object)
    model = BlockModel(3).fit(edges_of(made.matrix, names))
    model.save(tmp_path / "model.latent")
    again = load(tmp_path / "model.latent")
    np.testing.assert_array_equal(again.probabilities_, model.probabilities_)
    np.testing.assert_array_equal(again.connectivity_, model.connectivity_)
    assert again.nodes_.tolist() == model.nodes_.tolist()
    assert again.report_.verdict == model.report_.verdict
    fitted.save(tmp_path / "numbers.latent")
    assert load(tmp_path / "numbers.latent").nodes_.dtype.kind == "i"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, m: m.update(nodes=m["nodes"][:-1] + m["nodes"][:1]), "twice"),
        (lambda a, m: m.update(nodes=[*m["nodes"][:-1], 3]), "neither all text"),
        (lambda a, m: a.update(weights=a["weights"] * 2), "sum to one"),
        (lambda a, m: a.update(affinity=a["affinity"] * 0), "zero"),
        (lambda a, m: a.update(held=a["held"][:1]), "shape"),
        (lambda a, m: m.update(n_features_in=7), "features"),
    ],
)
def test_inconsistent_files_are_refused(change, words, tmp_path):
    path = tmp_path / "model.latent"
    BlockModel(2).fit([(f"{team}{i}", f"{team}{j}") for team in "ab" for i in range(6) for j in range(i)]).save(path)
    file = read_model(path)
    arrays, metadata = dict(file.arrays), dict(file.metadata)
    change(arrays, metadata)
    write_model(path, "BlockModel", arrays, metadata)
    with pytest.raises(ModelFileError, match=words):
        load(path)


# ------------------------------------------------------------- odd graphs


def test_disconnected_graphs():
    pieces = [block_graph(200, 2, 12.0, strength=6.0, random_state=seed).matrix for seed in (1, 2)]
    graph = sp.csr_array(sp.block_diag(pieces))
    four = BlockModel().fit(graph)
    assert four.n_blocks_ == 4, "two blocks in either piece"
    assert four.report_.verdict == "ok"
    assert four.report_.quantities["n_components"] >= 2
    cliques = sp.csr_array(np.kron(np.eye(3), np.ones((12, 12)) - np.eye(12)))
    model = BlockModel().fit(cliques)
    assert model.n_blocks_ == 3
    assert [len(set(model.labels_[at : at + 12])) for at in (0, 12, 24)] == [1, 1, 1]


def test_a_block_over_two_components_gets_caution():
    """Three blocks for four pieces: one must reach over two of them; four need not."""
    graph = sp.csr_array(sp.block_diag([block_graph(150, 1, 10.0, random_state=seed).matrix for seed in range(4)]))
    report = BlockModel(3).fit(graph).report_
    assert report.verdict == "caution"
    assert any("reaches over several" in reason for reason in report.reasons)
    assert BlockModel(4).fit(graph).report_.verdict == "ok"


def test_nodes_without_edges_get_the_proportions(made):
    padded = sp.csr_array(sp.block_diag([made.matrix, sp.csr_array((5, 5))]))
    model = BlockModel(3).fit(padded)
    np.testing.assert_allclose(model.probabilities_[-5:], np.broadcast_to(model.weights_, (5, 3)), rtol=1e-9)
    assert any("have no edge" in note for note in model.report_.notes)


def test_one_block_and_too_many(made):
    one = BlockModel(1).fit(made.matrix)
    assert one.labels_.max() == 0
    assert one.connectivity_[0, 0] == pytest.approx(made.matrix.sum() / 400**2, rel=0.01)
    with pytest.raises(NotIdentifiableError, match=r"n_blocks must be an int from 1 to 3 .* 3 nodes have edges, got 7"):
        BlockModel(7).fit([("a", "b"), ("b", "c")])
    with pytest.raises(NotIdentifiableError, match=r"n_blocks must be .* got 0"):
        BlockModel(0).fit([("a", "b"), ("b", "c")])
    with pytest.raises(DataError, match="degree_corrected must be 'auto', True or False, got 'maybe'"):
        BlockModel(2, degree_corrected="maybe").fit([("a", "b")])
    tiny = BlockModel().fit([("a", "b")])
    assert tiny.n_blocks_ == 1
    assert tiny.report_.verdict == "caution"


def test_unlike_nodes_are_blocks_too():
    made = block_graph(600, 2, 8.0, strength=-4.0, random_state=5)
    model = BlockModel().fit(made.matrix)
    assert model.n_blocks_ == 2
    assert overlap(made.blocks, model.labels_) > 0.8
    assert (np.diag(model.connectivity_) < model.connectivity_[0, 1]).all()


def test_the_first_level_of_a_graph_with_levels():
    """Two camps with two groups each, camps far more apart than groups."""
    affinity = np.array([[12, 6, 0.5, 0.5], [6, 12, 0.5, 0.5], [0.5, 0.5, 12, 6], [0.5, 0.5, 6, 12]])
    made = block_graph(2000, 4, 40.0, affinity=affinity, random_state=6)
    model = BlockModel().fit(made.matrix)
    assert (model.n_blocks_, model.selection_["informative"]) == (2, 4)
    assert any("n_blocks=4 asks for the finer division" in note for note in model.report_.notes)
    assert overlap(made.blocks, BlockModel(4).fit(made.matrix).labels_) > 0.7


def test_degrees_decide_the_model():
    affinity = np.array([[6.0, 1.0], [1.0, 2.0]])
    plain = BlockModel(2).fit(block_graph(1500, 2, 12.0, affinity=affinity, random_state=7).matrix)
    assert plain.degree_corrected_ is False
    assert any("plain model" in note for note in plain.report_.notes)
    hubs = BlockModel(2).fit(block_graph(1500, 2, 12.0, affinity=affinity, power=2.5, random_state=7).matrix)
    assert hubs.degree_corrected_ is True
    rng = np.random.default_rng(0)
    posterior = np.eye(2)[rng.integers(0, 2, 4000)]
    same = examine_degrees(rng.poisson(8.0, 4000).astype(float), posterior)
    assert same.dispersion == pytest.approx(1, abs=0.1)
    assert not same.plain, "nothing to learn from degrees that are alike"


@pytest.mark.parametrize("given", [False, np.False_, 0, True, np.True_, 1], ids=repr)
def test_the_model_is_the_one_asked_for_in_any_spelling(made, given):
    model = BlockModel(3, degree_corrected=given, max_iter=0).fit(made.matrix)
    assert model.degree_corrected_ is bool(given)


def test_blocks_asked_for_are_not_emptied():
    """Eight blocks of a graph that shows two: the climb may empty some, and the best that kept all is taken."""
    made = block_graph(120, 2, 10.0, strength=5.0, random_state=8)
    steps = BlockSteps.of(read_graph(made.matrix), degree_corrected=True)
    rng = np.random.default_rng(0)
    starts = [(str(draw), rng.integers(0, 8, 120)) for draw in range(4)]
    selected = fit_blocks(steps, starts, 8, max_iter=60, tol=1e-6)
    ends = [em(steps, steps.begin(labels, 8), max_iter=60, tol=1e-6) for _, labels in starts]
    whole = [end for end in ends if blocks_in_use(end.sums) == 8]
    if whole:
        assert blocks_in_use(selected.refined.sums) == 8


def test_max_iter_zero_returns_the_initialisation(made):
    model = BlockModel(3, max_iter=0).fit(made.matrix)
    assert model.n_iter_ == 0
    assert len(model.objective_path_) == 1


# ------------------------------------------------------ what users ran into


def test_blocks_come_in_the_order_of_their_nodes():
    """Two blocks of nearly one size, one of whose nodes are unsure: the order is that of the nodes assigned."""
    posterior = np.array([[0.9, 0.1]] * 4 + [[0.45, 0.55]] * 5)
    sums = Propagated(np.zeros((0, 2)), posterior, np.eye(2), 0.0, 0.0)
    refined = EMResult(
        Blocks(np.array([0.6, 0.4]), np.eye(2), np.zeros((0, 2)), posterior), sums, 0.0, 0.0, 0, True, []
    )
    assert posterior.sum(axis=0).argmax() == 0
    params, ordered = heaviest_first(Selected("x", None, refined, {}))
    assert np.bincount(ordered.posterior.argmax(axis=1)).tolist() == [5, 4]
    assert params.prior.tolist() == [0.4, 0.6]


def test_a_graph_of_triangles_without_communities_is_not_trusted():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.powerlaw_cluster_graph(400, 3, 0.6, seed=0)
    report = BlockModel().fit(graph).report_
    assert report.verdict == "caution"
    assert any("The division is unstable" in reason for reason in report.reasons)
    assert report.quantities["agreement_without_edges"][0] < 0.65


def test_sound_blocks_agree_without_some_edges(fitted):
    assert min(fitted.report_.quantities["agreement_without_edges"]) > 0.75


def test_a_grid_graph_is_not_trusted_and_does_not_depend_on_the_order_of_nodes():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    grid = networkx.grid_2d_graph(12, 12)
    nodes = list(grid.nodes)
    model = BlockModel(4).fit(grid)
    other = networkx.Graph()
    other.add_nodes_from(nodes[i] for i in np.random.default_rng(0).permutation(len(nodes)))
    other.add_edges_from(grid.edges)
    again = BlockModel(4).fit(other)
    place = {name: at for at, name in enumerate(again.nodes_.tolist())}
    at = [place[name] for name in model.nodes_.tolist()]
    np.testing.assert_array_equal(again.labels_[at], model.labels_)
    assert model.report_.verdict == "caution"


def linked(n, near):
    """The graph of n nodes whose edges are the pairs that `near` (n, n) says."""
    return sp.csr_array((near & ~np.eye(n, dtype=bool)).astype(float))


def grid(rows, columns):
    across, along = np.divmod(np.arange(rows * columns), columns)
    return linked(rows * columns, abs(across[:, None] - across) + abs(along[:, None] - along) == 1)


def geometric(n, radius):
    at = np.random.default_rng(0).random((n, 2))
    return linked(n, ((at[:, None] - at) ** 2).sum(axis=2) < radius**2)


@pytest.mark.parametrize("graph", [grid(30, 10), geometric(300, 0.1)], ids=["grid", "geometric"])
def test_a_number_of_blocks_that_is_chosen_has_no_empty_ones(graph):
    model = BlockModel().fit(graph)
    K = model.n_blocks_
    assert (np.bincount(model.labels_, minlength=K) > 0).all()
    assert 1 < K < model.selection_["informative"]
    assert K == len(model.weights_) == model.selection_["chosen"] == model.probabilities_.shape[1]
    assert model.connectivity_.shape == (K, K)
    assert any("blocks were empty after the last fit and were left out" in note for note in model.report_.notes)
    assert model.report_.verdict == "caution"


def directed_cycle(n=200):
    blocks = np.arange(n) % 4
    follows = (blocks[None] - blocks[:, None]) % 4 == 1
    return sp.csr_array((follows & (np.random.default_rng(0).random((n, n)) < 0.15)).astype(float))


@pytest.mark.parametrize("kind", ["matrix", "edges"])
def test_a_direction_that_says_more_is_said(kind):
    matrix = directed_cycle()
    at = matrix.tocoo()
    data = {"matrix": matrix, "edges": list(zip(at.row.tolist(), at.col.tolist(), strict=True))}[kind]
    model = BlockModel().fit(data)
    assert model.n_blocks_ == 2
    assert model.report_.verdict == "caution"
    assert any("their direction follows a pattern" in reason for reason in model.report_.reasons)
    assert any("links were taken as undirected" in note for note in model.report_.notes)


def test_a_direction_of_coin_flips_is_noted_and_no_more(made, fitted):
    at = sp.triu(made.matrix).tocoo()
    flip = np.random.default_rng(0).random(at.nnz) < 0.5
    ends = np.where(flip, at.row, at.col), np.where(flip, at.col, at.row)
    model = BlockModel().fit(sp.csr_array(sp.coo_array((np.ones(at.nnz), ends), shape=made.matrix.shape)))
    np.testing.assert_array_equal(model.labels_, fitted.labels_)
    assert model.report_.verdict == "ok"
    assert model.report_.quantities["direction_signal"] < 1.1
    assert any("links were taken as undirected" in note for note in model.report_.notes)
    assert not any("undirected" in note for note in fitted.report_.notes)


def test_the_list_of_an_undirected_graph_has_no_direction(made):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    listed = networkx.from_scipy_sparse_array(made.matrix).edges()
    assert read_graph(listed).notes == ()
    assert read_graph(networkx.DiGraph(list(listed))).directed is not None, "who says it has one is believed"


def test_users_and_items_with_the_same_ids_stay_apart():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(0, 20, 300), "item": rng.integers(0, 20, 300), "rating": 3})
    graph = read_graph(frame)
    assert graph.n_nodes == 40
    assert "user 5" in graph.names.tolist()
    assert "item 5" in graph.names.tolist()
    assert any("kept apart" in note for note in graph.notes)
    assert any("'rating'" in note and "--weight" in note for note in graph.notes)
    named = frame.assign(user=[f"u{n}" for n in frame["user"]], item=[f"i{n}" for n in frame["item"]])
    assert "u5" in read_graph(named).names.tolist(), "names that do not collide stay as they are"
    people = frame.rename(columns={"user": "source", "item": "target"})
    assert read_graph(people).n_nodes == 20


def test_users_and_items_in_a_file_stay_apart_too(tmp_path):
    pd.DataFrame({"customer_id": [1, 2, 3, 1], "product_id": [1, 2, 3, 2]}).to_csv(tmp_path / "buys.csv", index=False)
    names = read_graph(scan(tmp_path / "buys.csv")).names.tolist()
    assert names == [f"customer_id {n}" for n in (1, 2, 3)] + [f"product_id {n}" for n in (1, 2, 3)]


def test_edges_of_networkx_are_read():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.les_miserables_graph()
    want = read_graph(graph)
    for edges in (graph.edges(data="weight"), graph.edges(data=True), iter(graph.edges(data="weight"))):
        found = read_graph(edges)
        order = np.argsort(want.names)
        assert found.names.tolist() == want.names[order].tolist()
        assert (found.matrix != want.matrix[order][:, order]).nnz == 0
    assert read_graph(graph.edges()).n_edges == want.n_edges


class Series(dict):
    """Vertices or edges of igraph: columns by name."""

    def attributes(self):
        return list(self)


def test_a_graph_of_igraph_is_read():
    """What an igraph graph shows of itself, since igraph itself need not be installed."""
    graph = SimpleNamespace(
        vs=Series(name=["a", "b", "c", "d"]), es=Series(weight=[1.0, 2.0, 3.0]), vcount=lambda: 4,
        get_edgelist=lambda: [(0, 1), (1, 2), (2, 0)], is_directed=lambda: True,
    )  # fmt: skip
    found = read_graph(graph)
    assert found.names.tolist() == ["a", "b", "c", "d"]
    assert found.matrix.toarray()[0].tolist() == [0, 1, 3, 0]
    assert found.directed is not None
    plain = SimpleNamespace(**{**vars(graph), "vs": Series(), "es": Series(), "is_directed": lambda: False})
    assert read_graph(plain).names.tolist() == [0, 1, 2, 3]
    assert read_graph(plain).directed is None
    assert BlockModel(1).fit(plain).communities_.num_rows == 4


def test_the_largest_number_of_blocks_looked_for_is_said():
    """Sixty groups of eight: 48 signals are all that are looked for, so 48 blocks are no finding, and 60 no mistake."""
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.relaxed_caveman_graph(60, 8, 0.05, seed=1)
    found = BlockModel().fit(graph)
    assert found.n_blocks_ == 48
    assert found.report_.verdict == "caution"
    assert any("all that are looked for" in reason for reason in found.report_.reasons)
    assert any("48 or more informative" in note for note in found.report_.notes)
    told = BlockModel(60).fit(graph)
    assert not any("ask for 48" in reason for reason in told.report_.reasons)
    assert told.report_.verdict == "ok"


def test_nodes_are_called_as_in_the_fit_whether_or_not_ids_collide_again():
    """Ids that occurred in both columns were kept apart; in new links they may not, and known nodes were not known."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 1500)
    users, items = (rng.integers(0, size, 1500) * 2 + group for size in (40, 30))
    links = pd.DataFrame({"user": [f"A{one}" for one in users], "item": [f"A{one}" for one in items]})
    model = BlockModel().fit(links)
    place = {name: at for at, name in enumerate(model.nodes_.tolist())}
    found = model.predict_proba(pd.DataFrame({"user": ["A70", "A70"], "item": ["A2", "A4"]}))
    want = model.probabilities_[[place[name] for name in ("item A2", "item A4", "user A70")]]
    np.testing.assert_array_equal(found, want)
    plain = BlockModel().fit(links.assign(item="B" + links["item"]))
    assert "A70" in plain.nodes_.tolist()
    again = plain.predict_proba(pd.DataFrame({"user": ["A70", "A72"], "item": ["BA2", "A70"]}))
    np.testing.assert_array_equal(again[0], plain.probabilities_[plain.nodes_.tolist().index("A70")])


def test_weights_of_networkx_that_are_no_numbers_get_a_sentence():
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = networkx.path_graph(5)
    graph.add_edge(0, 1, weight="strong")
    with pytest.raises(DataError, match="a weight that is no number; give numbers"):
        BlockModel().fit(graph)
