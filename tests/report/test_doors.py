"""Pages of switches, ancestry, mixtures, topics, states, communities, pairs: what they draw is what the model says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from latentfit import (
    Admixture,
    BinaryFactors,
    BlockModel,
    CategoricalHMM,
    MixtureFractions,
    PairMatrix,
    TopicModel,
    load,
)
from latentfit.admixture.data.genotypes import read_genotypes
from latentfit.communities.data import read_graph
from latentfit.communities.plot import block_links, densities, sorted_nodes
from latentfit.core.errors import ModelFileError
from latentfit.core.matrix import NamedMatrix
from latentfit.core.model_file import read_model, write_model
from latentfit.hmm.data import read_sequences
from latentfit.hmm.page import SHOWN_STEPS, state_runs
from latentfit.hmm.plot import state_graph
from latentfit.report.assemble import context_of
from latentfit.report.assemble import page_of_model as page_of
from latentfit.report.charts import MOST_BARS, MOST_PIECES, drawn_bars, stacked
from latentfit.report.page import Chart, DataTable, Note
from latentfit.report.render import render
from latentfit.simulate import binary_factors, block_graph, pairs, topic_documents
from latentfit.topics.data.input import read_documents
from latentfit.topics.page import SHOWN_WORDS
from latentfit.topics.plot import relevances
from tests.report.worlds import name

STORED = Path(__file__).parents[1] / "system" / "models"
NAMES = np.array([name(n) for n in range(200)], object)


def _switches():
    import pandas as pd

    rows = pd.DataFrame(binary_factors(600, m=6, d=2, sigma=0.15, random_state=1).X, columns=NAMES[:6])
    return BinaryFactors(2).fit(rows), None


def _ancestry():
    rng = np.random.default_rng(0)
    counts = rng.binomial(2, rng.dirichlet([0.2, 0.2], 50) @ rng.uniform(0.05, 0.95, (2, 100)))
    genotypes = read_genotypes(counts, samples=NAMES[:50])
    return Admixture(2).fit(genotypes), genotypes


def _fractions():
    rng = np.random.default_rng(0)
    parts = rng.beta(0.5, 0.5, (3, 60))
    values = np.clip(rng.dirichlet(np.full(3, 0.5), 10) @ parts + 0.02 * rng.normal(size=(10, 60)), 0, 1)
    mixed = NamedMatrix(values, tuple(NAMES[:10]), tuple(NAMES[:60]))
    reference = NamedMatrix(parts.T, tuple(NAMES[:60]), tuple(NAMES[:3]))
    return MixtureFractions(reference=reference).fit(mixed), mixed


def _topics():
    counts = topic_documents(120, 40, 3, length=30, random_state=0).counts
    documents = read_documents(counts)
    documents = type(documents)(documents.matrix, NAMES[:120], NAMES[:40])
    return TopicModel(3, smoothing=(0.1, 0.1)).fit(documents), documents


def _hmm():
    rng = np.random.default_rng(1)
    walks = []
    for _ in range(14):
        state, walk = 0, []
        for _ in range(60):
            state = state if rng.random() < 0.9 else 1 - state
            walk.append(NAMES[rng.integers(0, 3) + 3 * state])
        walks.append(walk)
    walks[0] = walks[0] * 8
    data = read_sequences(walks)
    return CategoricalHMM(2, smoothing=1.0, n_init=1).fit(data), data


def _communities():
    at = block_graph(150, 2, 10.0, strength=5.0, random_state=0).matrix.tocoo()
    graph = read_graph([(NAMES[i], NAMES[j]) for i, j in zip(at.row, at.col, strict=True) if i < j])
    return BlockModel(2).fit(graph), graph


def _pairs():
    at = pairs(40, 4000, "topics", n_components=3, random_state=0).counts.tocoo()
    cells = np.repeat(np.column_stack([at.row, at.col]), at.data.astype(int), axis=0)
    return PairMatrix(3).fit((NAMES[cells[:, 0]], NAMES[cells[:, 1]])), None


MADE = {
    "switches": _switches, "ancestry": _ancestry, "fractions": _fractions, "topics": _topics, "hmm": _hmm,
    "communities": _communities, "pairs": _pairs,
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """door → the fitted model, what was read, and the model again from its file."""
    kept = {}

    def get(door):
        if door not in kept:
            kept[door] = MADE[door]()
        return kept[door]

    return get


def page(model, data=None):
    return page_of(model, context_of({}, {"input": data}))


def charts(of):
    return [block for block in [of.picture, *(b for s in of.sections for b in s.blocks)] if isinstance(block, Chart)]


def chart(of, title):
    return next(block for block in charts(of) if block.title == title)


def fields(spec):
    """Every name of a field that a spec mentions."""
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key in ("field", "groupby", "flatten", "as", "lookup", "key") and key != "data":
                yield from [value] if isinstance(value, str) else [one for one in value if isinstance(one, str)]
            if key != "values":
                yield from fields(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from fields(value)


# ------------------------------------------------------------- every page


@pytest.mark.parametrize("door", MADE)
def test_pages_are_whole_and_names_are_data(door, made):
    model, data = made(door)
    of = page(model, data)
    assert of.verdict == model.report_.verdict
    assert len(of.figures) == 3
    assert of.picture is not None
    titles = [section.title for section in of.sections]
    assert {"How the fit went", "What was checked", "What to do next"} <= set(titles)
    assert titles[-1] == "What to do next"
    assert of.papers
    html = render(of)
    assert len(html.encode()) < 2_000_000
    inside = re.search(r'<script type="application/json" id="content">(.*?)</script>', html, re.S)
    embedded = json.loads(inside.group(1))
    assert len(embedded["charts"]) == len(charts(of))
    for spec in embedded["charts"]:
        assert all(re.fullmatch(r"[a-z_0-9]+", field) for field in fields(spec)), set(fields(spec))
    outside = html.replace(inside.group(1), "")
    assert "<script>window.hurt" not in outside
    assert 'onerror="window' not in outside


def test_squares_are_not_called_nats(made):
    genotypes = made("ancestry")[1]
    for refine, unit, told in ((False, "minus the squares", "Alternation took"), (True, "nats", "EM took")):
        model = Admixture(2, refine=refine).fit(genotypes)
        of = page_of(model, context_of({"n_iter": model.n_iter_, "converged": model.converged_}))
        section = next(section for section in of.sections if section.title == "How the fit went")
        assert section.text.startswith(told)
        assert section.blocks[0].spec["layer"][0]["encoding"]["y"]["title"] == f"objective, {unit}"


def test_the_map_of_topics_is_as_far_across_as_upward(made):
    spec = chart(page(*made("topics")), "Map").spec
    assert spec["width"] == spec["height"]
    place = spec["layer"][0]["encoding"]
    spans = [np.ptp(place[way]["scale"]["domain"]) for way in "xy"]
    assert spans[0] == pytest.approx(spans[1])
    for way in "xy":
        low, high = place[way]["scale"]["domain"]
        assert all(low - 1e-12 <= row[way] <= high + 1e-12 for row in spec["data"]["values"])


@pytest.mark.parametrize("door", MADE)
def test_a_file_alone_makes_a_page(door, made, tmp_path):
    """What was checked is known to the file; what only data tell is said to be absent, and there with the data."""
    model, data = made(door)
    model.save(tmp_path / "m.latent")
    again = load(tmp_path / "m.latent")
    alone = page(again)
    assert alone.verdict == model.report_.verdict
    checked = next(section for section in alone.sections if section.title == "What was checked")
    assert any(isinstance(block, DataTable) for block in checked.blocks)
    said = [b.text for s in alone.sections for b in s.blocks if isinstance(b, Note)]
    lacking = any("give the data" in text for text in said)
    assert lacking == (door in ("fractions", "topics", "hmm"))
    if data is not None:
        fresh, later = page(model, data), page(again, data)
        assert json.dumps(_plain(later.picture.spec)) == json.dumps(_plain(fresh.picture.spec))


def _plain(value):
    return json.loads(json.dumps(value, default=float))


@pytest.mark.parametrize("path", sorted(STORED.glob("*.tacit")), ids=lambda path: path.stem)
def test_files_of_old_still_make_a_page(path):
    assert "<h1>" in render(page(load(path)))


def test_numbers_behind_a_verdict_must_be_a_mapping(made, tmp_path):
    made("switches")[0].save(tmp_path / "m.latent")
    file = read_model(tmp_path / "m.latent")
    write_model(tmp_path / "bad.latent", file.name, file.arrays, {**file.metadata, "quantities": "many"})
    with pytest.raises(ModelFileError, match="quantities"):
        load(tmp_path / "bad.latent")


# -------------------------------------------------------------- door by door


def test_candidates_are_told(made, tmp_path):
    model = made("switches")[0]
    found = model.report_.quantities
    marks = chart(page(model), "Scores of candidates").spec["data"]["values"]
    assert sum(mark["kind"] == "chosen" for mark in marks) == len(found["scores"]) == 2
    assert sum(mark["kind"] == "rejected" for mark in marks) == len(found["rejected_scores"])
    assert [mark["y"] for mark in marks] == sorted(mark["y"] for mark in marks)
    tiles = chart(page(model), "Weights").spec["data"]["values"]
    np.testing.assert_allclose([tile["v"] for tile in tiles], model.components_.reshape(-1), atol=1e-4)


def test_bars_are_everyones_shares(made):
    model = made("ancestry")[0]
    rows = page(model).picture.spec["data"]["values"]
    assert [row["who"] for row in rows] == NAMES[:50].tolist()
    np.testing.assert_allclose([row["q"] for row in rows], model.ancestry_, atol=1e-4)
    for key in "abc":
        assert sorted(row[key] for row in rows) == list(range(50))
    named = sorted(rows, key=lambda row: row["b"])
    assert [row["who"] for row in named] == sorted(NAMES[:50])
    by_share = sorted(rows, key=lambda row: row["a"])
    largest = [int(np.argmax(row["q"])) for row in by_share]
    assert largest == sorted(largest)


def test_other_people_are_drawn_when_given(made):
    model, genotypes = made("ancestry")
    some = genotypes.take(np.arange(genotypes.n_snps), np.arange(7))
    of = page(model, some)
    assert "7 people" in of.title
    assert len(of.picture.spec["data"]["values"]) == 7


@pytest.mark.parametrize(("people", "parts"), [(100, 3), (5_000, 3), (9_000, 12)])
def test_too_many_bars_are_thinned_and_said(people, parts):
    proportions = np.random.default_rng(0).dirichlet(np.full(parts, 0.3), people)
    shown = drawn_bars(proportions)
    assert len(shown) == min(people, MOST_BARS, MOST_PIECES // parts)
    assert (np.diff(shown) > 0).all()
    model = Admixture(parts)
    model.ancestry_, model.samples_, model.n_populations_ = proportions, np.arange(people), parts
    from latentfit.admixture.page import _bars

    told = _bars(model, proportions, [str(n) for n in range(people)]).caption
    assert (f"{len(shown):,} of {people:,} people" in told) == (len(shown) < people)
    spec = stacked(
        proportions[shown], [str(n) for n in shown], [str(k) for k in range(parts)], bar="b", part="p", value="v"
    )
    assert len(spec["data"]["values"]) == len(shown)


def test_slider_finds_its_words_in_the_page(made):
    """Whatever λ the reader chooses, the most relevant words are among those that the page holds."""
    model = made("topics")[0]
    rows = page(model).picture.spec["data"]["values"]
    for share in np.linspace(0, 1, 21):
        wanted = -np.sort(-relevances(model.topics_, model.weights_, share), axis=1)[:, :SHOWN_WORDS]
        for k in range(3):
            held = [share * np.log(row["p"]) + (1 - share) * row["lift"] for row in rows if row["t"] == k]
            np.testing.assert_allclose(sorted(held, reverse=True)[:SHOWN_WORDS], wanted[k], atol=1e-3)


def test_coherence_travels_in_the_file(made, tmp_path):
    model = made("topics")[0]
    model.save(tmp_path / "m.latent")
    np.testing.assert_allclose(load(tmp_path / "m.latent").report_.quantities["coherence"], model.coherence_)


def test_arcs_lead_from_state_to_state():
    transitions = np.array([[0.9, 0.1, 0.0], [0.02, 0.38, 0.6], [0.5, 0.5, 0.0]])
    graph = state_graph(transitions)
    drawn = {(arc.source, arc.target): arc for arc in graph.arcs}
    assert set(drawn) == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (2, 1)}
    assert graph.left_out == 1
    for (source, target), arc in drawn.items():
        assert np.linalg.norm(arc.curve[0] - graph.places[source]) < 0.35
        assert np.linalg.norm(arc.curve[-1] - graph.places[target]) < 0.35
        along = arc.curve[len(arc.curve) // 2 + 1] - arc.curve[len(arc.curve) // 2 - 1]
        turn = np.radians(arc.angle)
        np.testing.assert_allclose(along / np.linalg.norm(along), [np.cos(turn), np.sin(turn)], atol=1e-9)
    assert [arc.probability for arc in graph.arcs] == sorted(arc.probability for arc in graph.arcs)


def test_timeline_is_the_most_probable_path(made):
    model, data = made("hmm")
    rows, shown, longest = state_runs(model, data)
    assert shown == 12
    assert longest == 480
    assert max(row["last"] for row in rows) == SHOWN_STEPS
    for at, walk in enumerate(np.split(data.codes, data.offsets[1:-1])[:shown]):
        cut = [str(data.symbols[code]) for code in walk[:SHOWN_STEPS]]
        path = model.predict(cut)
        mine = [row for row in rows if row["y"] == str(at + 1)]
        told = np.concatenate([[int(row["state"])] * (row["last"] - row["first"] + 1) for row in mine])
        assert told.tolist() == path.tolist()
    caption = chart(page(model, data), "Timeline").caption
    assert "the first 12 of 14 sequences" in caption
    assert f"the first {SHOWN_STEPS} steps" in caption


def test_matrix_shows_links_and_what_degrees_make(made):
    model, graph = made("communities")
    spec = page(model, graph).picture.spec
    cells, first = spec["layer"][0], spec["layer"][0]["data"]["values"]
    order, _ = sorted_nodes(model.posterior_in(graph))
    dense = densities(graph.matrix, order, 100)
    np.testing.assert_allclose([row["o"] for row in first], dense, rtol=1e-2)
    degrees = [one["d"] for one in cells["transform"][3]["from"]["data"]["values"]]
    size = graph.n_nodes / 100
    assert np.sum(degrees) * size == pytest.approx(graph.degrees.sum(), rel=0.02)
    links, expected = block_links(graph.matrix, model.labels_, 2)
    assert links.sum() == graph.matrix.sum()
    np.testing.assert_allclose(expected.sum(axis=1), links.sum(axis=1))
    assert links[0, 0] > expected[0, 0]
    assert links[0, 1] < expected[0, 1]


@pytest.mark.parametrize(
    ("number", "method", "how"),
    [(2, "paper", "as asked for"), (None, "paper", "as method='paper' has them"), (None, "auto", "by the test")],
)
def test_how_the_number_of_components_was_found(number, method, how):
    model = PairMatrix(number, method=method).fit(pairs(40, 2000, random_state=0).counts)
    first = page(model).figures[0]
    assert first.value == str(model.n_components_)
    assert first.note.startswith(how)


def test_items_and_ranks_of_pairs(made):
    model = made("pairs")[0]
    of = page(model)
    rows = of.picture.spec["data"]["values"]
    assert {row["name"] for row in rows} == {str(item) for item in model.items_}
    at = {str(item): place for place, item in enumerate(model.items_.tolist())}
    for row in rows[:5]:
        assert row["x"] == pytest.approx(model.components_[0, at[row["name"]]], rel=1e-3)
    tests = chart(of, "Tests of the rank").spec["data"]["values"]
    assert len(tests) == len(model.report_.quantities["structure_p_values"])
    shown = [row for row in rows if row["shown"]]
    assert 0 < len(shown) <= 40
