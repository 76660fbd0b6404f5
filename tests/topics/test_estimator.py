"""TopicModel: every step climbs, permutations, company, words unseen, given starts, odd documents."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import latentfit
from latentfit import TopicModel
from latentfit.core.em import em
from latentfit.core.errors import DataError, DataWarning, NotIdentifiableError
from latentfit.core.verdict import Examiner
from latentfit.simulate import topic_documents
from latentfit.topics.data.documents import Documents
from latentfit.topics.data.input import read_documents
from latentfit.topics.diagnostics.coherence import npmi_coherence
from latentfit.topics.diagnostics.verdict import _examine_structure
from latentfit.topics.em import TopicPrior, TopicSteps, begin
from latentfit.topics.init import random_topics
from latentfit.topics.select import TopicNumber, choose_topics

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def made():
    return topic_documents(300, 80, 3, length=40, random_state=0)


@pytest.fixture(scope="module")
def model(made):
    return TopicModel(3).fit(made.counts)


def named(counts):
    """Counts as a long frame with names."""
    cells = counts.tocoo()
    return pd.DataFrame(
        {"document": [f"d{n}" for n in cells.row], "word": [f"w{n}" for n in cells.col], "count": cells.data}
    )


def test_topics_are_found(made, model):
    apart = 0.5 * np.abs(model.topics_[:, None] - made.topics).sum(axis=2)
    assert sorted(apart.argmin(axis=1)) == [0, 1, 2]
    assert apart.min(axis=1).max() < 0.1
    proportions = made.proportions[:, apart.argmin(axis=1)]
    assert np.abs(model.proportions_ - proportions).mean() < 0.05
    assert (np.diff(model.weights_) <= 0).all()
    np.testing.assert_allclose(model.topics_.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.proportions_.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("inner", [0, 1, 3])
def test_no_em_step_lowers_the_objective(made, accelerate, inner):
    documents = read_documents(made.counts)
    for a, b in ((0.02, 0.05), (1.0, 4.0)):
        steps = TopicSteps.of(documents, TopicPrior.of(documents, 5, a, b))
        steps = TopicSteps(steps.lists, steps.lengths, steps.prior, steps.threads, inner)
        path = em(steps, begin(steps, random_topics(documents, 5, 1)), max_iter=60, tol=0, accelerate=accelerate).path
        assert len(path) > 30
        assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


def test_transform_is_the_fit_alone_and_in_company(made, model):
    np.testing.assert_array_equal(model.transform(made.counts), model.proportions_)
    for at in (0, 17, 299):
        np.testing.assert_array_equal(model.transform(made.counts[[at]])[0], model.proportions_[at])
    scores = model.score_samples(made.counts)
    np.testing.assert_array_equal(model.score_samples(made.counts[[5]]), scores[[5]])
    assert model.score(made.counts) == pytest.approx(scores.mean())


def test_permuting_documents_and_words_permutes_the_answer(made):
    rng = np.random.default_rng(1)
    frame = named(made.counts)
    shuffled = frame.sample(frac=1, random_state=2)
    one, other = (TopicModel(3).fit(data) for data in (frame, shuffled))
    np.testing.assert_array_equal(one.words_, other.words_)
    np.testing.assert_allclose(one.topics_, other.topics_, atol=1e-8)
    place = {name: at for at, name in enumerate(other.documents_)}
    np.testing.assert_allclose(one.proportions_, other.proportions_[[place[n] for n in one.documents_]], atol=1e-7)
    names = [f"w{n}" for n in range(80)]
    wide = pd.DataFrame(made.counts.toarray(), columns=names)
    order = rng.permutation(80)
    turned = TopicModel(3).fit(wide.iloc[:, order])
    straight = TopicModel(3).fit(wide)
    np.testing.assert_allclose(turned.topics_, straight.topics_[:, order], atol=1e-7)


@pytest.mark.parametrize("kind", ["long", "polars", "wide", "dense", "lists", "texts", "series"])
def test_every_form_of_input_gives_the_same(made, kind):
    pl = pytest.importorskip("polars")
    counts = made.counts.toarray()
    counts[0, :] += 1  # every word occurs, since lists cannot name one that does not
    frame = named(sp.csr_array(counts))
    tokens = [[f"w{n:02d}" for n in np.repeat(np.arange(80), row)] for row in counts]
    words = [f"w{n:02d}" for n in range(80)]
    data = {
        "long": frame.assign(word=[f"w{int(w[1:]):02d}" for w in frame["word"]]),
        "polars": pl.DataFrame(
            {"doc": frame["document"], "term": [f"w{int(w[1:]):02d}" for w in frame["word"]], "n": frame["count"]}
        ),
        "wide": pd.DataFrame(counts, columns=words),
        "dense": counts,
        "lists": tokens,
        "texts": [" ".join(one) for one in tokens],
        "series": pd.Series([" ".join(one) for one in tokens]),
    }[kind]
    expected = TopicModel(3, max_iter=20, smoothing=(0.1, 0.2), init="spectral").fit(
        pd.DataFrame(counts, columns=words if kind != "dense" else range(80))
    )
    found = TopicModel(3, max_iter=20, smoothing=(0.1, 0.2), init="spectral").fit(data)
    np.testing.assert_allclose(found.topics_, expected.topics_, atol=1e-9)
    np.testing.assert_array_equal(found.transform(data), found.proportions_)
    kinds = {"polars": "polars", "long": "pandas", "wide": "pandas"}
    assert type(found.topic_table_).__module__.split(".")[0] == kinds.get(kind, "pyarrow")


def test_unseen_words_are_left_out_with_a_word(made):
    model = TopicModel(3).fit(named(made.counts))
    new = pd.DataFrame({"document": ["a", "a", "b"], "word": ["w1", "never", "again"], "count": [2, 5, 1]})
    with pytest.warns(DataWarning, match="2 words were not in the fit, 'again' first; their 6 counts were left out"):
        proportions = model.transform(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = model.transform(new.iloc[:1])
    np.testing.assert_array_equal(proportions[0], known[0])
    np.testing.assert_allclose(proportions[1], model.weights_)


def test_empty_documents_get_the_weights(made):
    counts = made.counts.tolil()
    counts[4] = 0
    model = TopicModel(3).fit(sp.csr_array(counts))
    np.testing.assert_array_equal(model.proportions_[4], model.weights_)
    assert model.report_.quantities["empty_documents"] == 1


def test_fractional_counts_are_weights(made):
    model = TopicModel(3).fit(made.counts * 0.5)
    assert np.isfinite(model.topics_).all()
    assert np.isfinite(model.score(made.counts * 0.5))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (np.array([[1.0, -1.0], [2.0, 0.0]]), "Negative values in data passed as counts: document 1 holds -1 of the"),
        (pd.DataFrame({"document": [*"dde"], "word": [*"wwv"], "count": [3, -1, 2]}), "'d' holds -1 of the word 'w'"),
        (np.zeros((3, 2)), "the 3 documents hold no word"),
        (pd.DataFrame({"document": ["a"], "word": ["b"], "count": ["many"]}), "holds 'many' in row 1, no number"),
        (pd.DataFrame({"document": [None], "word": ["b"]}), "no row of the frame has a document, a word and a count"),
        (["", ""], "no word|could not convert|no number"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bad_documents_get_one_sentence(data, sentence):
    with pytest.raises((DataError, ValueError), match=sentence):
        TopicModel(2).fit(data)


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"n_topics": 0}, NotIdentifiableError, "n_topics=0 topics of 300 documents with 80 words; give a"),
        ({"n_topics": 81}, NotIdentifiableError, "give a number from 1 to 80"),
        ({"init": "lucky"}, DataError, "init must be 'auto', 'spectral', 'random', topics or a model, got 'lucky'"),
        ({"n_init": 0}, DataError, "n_init must be an int >= 1, got 0"),
        ({"smoothing": (0.0, 1.0)}, DataError, "two positive numbers"),
        ({"init": np.ones((2, 5))}, DataError, "init has 5 words and the documents 80"),
        ({"init": -np.ones((2, 80))}, DataError, "negative or infinite number"),
        ({"n_topics": 3, "init": np.ones((2, 80))}, DataError, "n_topics=3, and init has 2 topics"),
    ],
)  # fmt: skip
def test_bad_settings_get_one_sentence(made, settings, error, sentence):
    with pytest.raises(error, match=sentence):
        TopicModel(**settings).fit(made.counts)


def test_given_topics_are_the_initialisation(made, model):
    by_array = TopicModel(init=made.topics).fit(made.counts)
    assert by_array.n_topics_ == 3
    assert by_array.report_.notes[0] == "started from given topics"
    frame = named(made.counts)
    first = TopicModel(3).fit(frame)
    more = pd.concat([frame, pd.DataFrame({"document": ["d0"], "word": ["new"], "count": [3]})])
    grown = TopicModel(init=first).fit(more)
    assert "new" in set(grown.words_.tolist())
    kept = grown.topics_[:, grown.words_ != "new"]
    assert 0.5 * np.abs(kept - first.topics_).sum(axis=1).max() < 0.1
    again = TopicModel(init=first.topic_table_).fit(frame)
    np.testing.assert_allclose(again.topics_, TopicModel(init=first).fit(frame).topics_, atol=1e-9)


@pytest.mark.parametrize("role", ["topic", "word"])
def test_given_topics_without_a_name_are_refused(made, role):
    """The code of a gap is -1, which would add its probability to the last name."""
    columns = {"topic": ["s", "s", "t"], "word": ["w0", "w1", "w2"], "probability": [0.5, 0.5, 1.0]}
    given = pd.DataFrame({**columns, role: [columns[role][0], None, columns[role][2]]})
    with pytest.raises(DataError, match=f"init has no {role} in row 2; fill it in, or leave such rows out"):
        TopicModel(init=given).fit(named(made.counts))


def test_one_topic_is_the_marginal(made):
    model = TopicModel(1, smoothing=(0.1, 1e-9)).fit(made.counts)
    expected = np.asarray(made.counts.sum(axis=0)) / made.counts.sum()
    np.testing.assert_allclose(model.topics_[0], expected, atol=1e-6)
    assert model.report_.verdict == "caution"  # word pairs show three
    assert "and one was fitted" in model.report_.reasons[0]


def test_coherence_equals_its_definition(made):
    documents = read_documents(made.counts)
    topics = made.topics
    shown = made.counts.toarray() > 0
    expected = []
    for topic in topics:
        top, values = np.argsort(-topic, kind="stable")[:4], []
        for i in range(4):
            for j in range(i):
                both = (shown[:, top[i]] & shown[:, top[j]]).mean()
                single = shown[:, top[i]].mean() * shown[:, top[j]].mean()
                values.append(-1.0 if both == 0 else 1.0 if both == 1 else np.log(both / single) / -np.log(both))
        expected.append(np.mean(values))
    np.testing.assert_allclose(npmi_coherence(documents, topics, 4), expected, atol=1e-12)


def test_pyldavis_gets_what_it_wants(made, model):
    arrays = model.pyldavis_arrays()
    assert set(arrays) == {"topic_term_dists", "doc_topic_dists", "doc_lengths", "vocab", "term_frequency"}
    np.testing.assert_allclose(arrays["topic_term_dists"].sum(axis=1), 1.0)
    np.testing.assert_allclose(arrays["doc_topic_dists"].sum(axis=1), 1.0)
    assert arrays["topic_term_dists"].shape == (3, len(arrays["vocab"]))
    assert arrays["doc_topic_dists"].shape == (len(arrays["doc_lengths"]), 3)
    assert arrays["term_frequency"].sum() == made.counts.sum()


def test_a_file_keeps_the_model(made, model, tmp_path):
    model.save(tmp_path / "m.latent")
    again = latentfit.load(tmp_path / "m.latent")
    np.testing.assert_array_equal(again.transform(made.counts), model.proportions_)
    assert again.top_words(5) == model.top_words(5)
    assert again.report_.verdict == model.report_.verdict
    for ask in (again.coherence, again.pyldavis_arrays):
        with pytest.raises(DataError, match="a model from a file keeps no documents"):
            ask()
    with pytest.raises(DataError, match="transform them again"):
        _ = again.document_table_
    np.testing.assert_allclose(again.coherence(made.counts), model.coherence_)


def test_halves_are_independent_and_whole(made):
    documents = read_documents(made.counts)
    first, second = documents.split(0.5, 0)
    np.testing.assert_array_equal((first.matrix + second.matrix).toarray(), made.counts.toarray())
    assert first.total == pytest.approx(documents.total / 2, rel=0.03)
    left = (first.matrix - second.matrix).toarray()
    assert abs(np.corrcoef(left[:-1].ravel(), left[1:].ravel())[0, 1]) < 0.06  # four standard errors
    again = Documents(documents.matrix[::-1], documents.names[::-1], documents.words).split(0.5, 0)[0]
    np.testing.assert_array_equal(again.matrix.toarray()[::-1], first.matrix.toarray())
    alike = documents.take(np.array([1, 1])).split(0.5, 0)[0]  # what a document says decides alone
    np.testing.assert_array_equal(alike.matrix.toarray(), first.matrix.toarray()[[1, 1]])


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (np.array([[3.0]]), 1),
        (np.array([[3.0, 2.0, 0.0]]), None),
        (np.array([[3.0, 0.0], [0.0, 3.0]]), 2),
        (np.ones((40, 6)), 3),
        (np.eye(5, dtype=bool), 2),
        (["a a b c"] * 30, 2),
        (np.array([[1e9, 1], [1, 1e9], [5, 5]]), 2),
        (np.arange(24, dtype=np.uint8).reshape(6, 4), 4),
    ],
)
def test_small_and_odd_documents_get_finite_answers(data, number):
    model = TopicModel(number).fit(data)
    assert np.isfinite(model.topics_).all()
    np.testing.assert_allclose(model.transform(data).sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(model.score(data))
    assert model.n_topics_ == 1 or model.report_.verdict != "ok"


def test_no_reason_is_given_where_every_direction_that_was_asked_for_stood_out():
    """With 40 documents ten directions are asked for at most: nothing is known of an eleventh."""
    examiner, documents = Examiner(), read_documents(topic_documents(40, 60, 3, random_state=0).counts)
    number = TopicNumber(14, [9.0] * 10)
    examiner.quantities["tokens_per_word"] = 50.0
    examiner.quantities["documents_of_three"] = 40
    _examine_structure(examiner, documents, 14, number, 0)
    assert examiner.failed == []
    _examine_structure(examiner, documents, 14, TopicNumber(14, [9.0] * 9 + [1.0]), 0)
    assert "show 10 topics" in examiner.failed[0].reason


@pytest.mark.slow
def test_many_topics_are_not_one():
    """Three or five of sixty predict words left out worse than one does: the walk must go on."""
    documents = read_documents(topic_documents(4000, 1000, 60, random_state=0).counts)
    found = choose_topics(documents, 0)
    assert found.rank == 30
    assert found.chosen >= 28
    assert found.heldout[3] < found.heldout[1]  # else the walk was not tried


@pytest.mark.slow
def test_the_most_topics_that_were_allowed_are_the_most():
    documents = read_documents(topic_documents(2000, 1000, 40, random_state=0).counts)
    assert 28 <= choose_topics(documents, 0, most=35).chosen <= 35


def word_names(made):
    names = [f"w{n}" for n in range(made.counts.shape[1])]
    return [*names[:3], "title", "term", "count", "document", "word", *names[8:]]


def test_a_wide_frame_is_a_matrix_whatever_its_words_are(made):
    names = word_names(made)
    wide = pd.DataFrame(np.asarray(made.counts.todense()), columns=names)
    model = TopicModel(3).fit(wide)
    assert model.proportions_.shape == (made.counts.shape[0], 3)
    assert model.words_.tolist() == names
    with pytest.raises(DataError, match="may be one row per document and word or one row per document"):
        TopicModel(2).fit(wide[["title", "term", "w0", "w1"]])


def test_a_long_frame_of_ids_is_a_long_frame(made):
    cells = made.counts.tocoo()
    long = pd.DataFrame({"doc_id": cells.row, "word_id": cells.col})
    model = TopicModel(3).fit(long.loc[long.index.repeat(cells.data.astype(int))])
    assert model.proportions_.shape == (len(np.unique(cells.row)), 3)
    assert TopicModel(3).fit(long.assign(count=cells.data)).topics_.tobytes() == model.topics_.tobytes()


def test_words_name_the_columns_of_a_matrix(made):
    names = word_names(made)
    plain = TopicModel(3).fit(made.counts)
    given = [names, np.array(names), pd.Index(names), dict(enumerate(names)), {word: n for n, word in enumerate(names)}]
    for words in given:
        model = TopicModel(3).fit(made.counts, words=words)
        assert model.words_.tolist() == names
        assert [names.index(word) for word in model.top_words(1)[0]] == plain.top_words(1)[0]
        assert model.transform(made.counts[:3]).shape == (3, 3)
    assert TopicModel(3).fit_transform(made.counts, words=names).shape[1] == 3
    with pytest.raises(DataError, match="words names 2 words, and the documents have"):
        TopicModel(3).fit(made.counts, words=["a", "b"])
    with pytest.raises(DataError, match="these documents bring their own; leave it out"):
        TopicModel(1).fit(["a b", "b c"], words=["a", "b", "c"])
    with pytest.raises(DataError, match="ids are not 0, 1, 2"):
        TopicModel(3).fit(made.counts, words={1: "a", 5: "b"})


def test_gensims_bags_of_words_and_iterators_are_read(made):
    counts, names = made.counts, word_names(made)
    bags = [
        [(int(word), float(count)) for word, count in zip(counts.indices[at:to], counts.data[at:to], strict=True)]
        for at, to in zip(counts.indptr, counts.indptr[1:], strict=False)
    ]
    expected = TopicModel(3).fit(counts, words=names)
    for form in (bags, iter(bags), (bag for bag in bags)):
        model = TopicModel(3).fit(form, words=names)
        assert model.topics_.tobytes() == expected.topics_.tobytes()
        assert np.array_equal(model.transform(bags[:5]), expected.proportions_[:5])
    assert TopicModel(3).fit(bags).words_.tolist() == list(range(counts.shape[1]))
    texts = ["red green blue", "red red green", "sun rain"] * 10
    assert TopicModel(2).fit(text for text in texts).topics_.shape == (2, 5)
    assert TopicModel(2).fit(text.split() for text in texts).topics_.shape == (2, 5)
    for bad, why in (([[(0, "x")]], "a count that is no number"), ([[(-1, 2)]], "hold the word id -1")):
        with pytest.raises(DataError, match=why):
            TopicModel(1).fit(bad)
    with pytest.raises(DataError, match="hold the word id 9, and 2 words have names"):
        TopicModel(1).fit([[(9, 1)]], words=["a", "b"])


def test_a_column_of_texts_is_read():
    texts = ["red green blue", "red red green", "sun rain"] * 10
    model = TopicModel(2).fit(pd.DataFrame({"review": texts}))
    assert model.words_.tolist() == ["blue", "green", "rain", "red", "sun"]
    frame = pd.DataFrame({"key": [f"d{n}" for n in range(30)], "review": texts, "stars": 3})
    named = TopicModel(2, columns={"text": "review", "document": "key"}).fit(frame)
    assert named.documents_[:2].tolist() == ["d0", "d1"]
    assert named.topics_.tobytes() == model.topics_.tobytes()


def test_neither_a_limit_that_does_not_bind_nor_the_seed_decides_the_number():
    counts = topic_documents(250, 200, 30, length=40, random_state=0).counts
    free = TopicModel(max_iter=3).fit(counts)
    assert 5 < free.n_topics_ < 30  # a practical number
    for changed in ({"max_topics": 30}, {"max_topics": 40}, {"random_state": 1}, {"random_state": 7}):
        assert TopicModel(max_iter=3, **changed).fit(counts).n_topics_ == free.n_topics_, changed
    cut = TopicModel(max_iter=3, max_topics=4).fit(counts)
    assert cut.n_topics_ == 4
    assert cut.selection_["without_limit"] == free.n_topics_
    assert any(note.startswith("max_topics=4 cut the number") for note in cut.report_.notes)


@pytest.mark.parametrize("kind", ["shuffled", "few", "one copied", "ten copied"])
def test_documents_that_show_nothing_are_not_trusted(made, kind):
    rng = np.random.default_rng(0)
    names = np.array([f"w{n}" for n in range(made.counts.shape[1])])
    tokens = [np.repeat(names, row).tolist() for row in made.counts.toarray().astype(int)]
    if kind == "shuffled":
        words = rng.permutation([word for line in tokens for word in line])
        texts = [line.tolist() for line in np.array_split(words, 300)]
    else:
        texts = {"few": tokens[:12], "one copied": tokens[:1] * 200, "ten copied": tokens[:10] * 50}[kind]
    model = TopicModel().fit(texts)
    assert model.n_topics_ == 1
    assert model.report_.verdict == "caution"
    assert any(reason.startswith("No structure found") for reason in model.report_.reasons)
    assert any("duplicate others" in reason for reason in model.report_.reasons) == ("copied" in kind)


def test_two_short_texts_are_two_however_often_they_are_repeated():
    model = TopicModel(2).fit(["tea milk sugar cup", "car road wheel fuel"] * 40)
    assert model.report_.verdict != "ok"
    assert any(reason.startswith("2 different documents are too few") for reason in model.report_.reasons)


TEXTS = [f"tea milk honey bread number{n}" if n % 2 else f"soup salt fish rice number{n}" for n in range(40)]


@pytest.mark.parametrize(
    "columns", [{"id": range(40)}, {"type": ["a", "b"] * 20}, {"label": ["a", "b"] * 20}, {"document": range(40)}]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_text_in_every_row_is_no_name_of_a_row(columns, first):
    """`id, text` was a matrix of the one word "id", `text, type` had the types for words."""
    frame = pd.DataFrame({"text": TEXTS, **columns} if first else {**columns, "text": TEXTS})
    with pytest.raises(DataError, match=r"column 'text' of .* holds a text in every row; .*columns=\{'text': 'text'\}"):
        TopicModel(2).fit(frame)
    model = TopicModel(2, columns={"text": "text"}).fit(frame)
    assert {"tea", "fish"} < set(model.words_.tolist())
    assert "a" not in model.words_.tolist()


def test_of_a_title_and_a_text_the_text_is_named_and_titles_may_repeat():
    titles = [f"the title of text {n}" for n in range(40)]
    frame = pd.DataFrame({"title": titles, "body": [f"{text} and more words than a title has" for text in TEXTS]})
    with pytest.raises(DataError, match="column 'body' of"):
        TopicModel(2).fit(frame)
    frame.loc[1, "title"] = frame.loc[0, "title"]
    assert TopicModel(2, columns={"text": "body"}).fit(frame).proportions_.shape == (40, 2)


def test_a_long_frame_with_titles_of_several_words_stays_long():
    long = pd.DataFrame(
        [(f"the title of number {n}", word, 2) for n in range(40) for word in TEXTS[n].split()],
        columns=["title", "term", "count"],
    )
    assert TopicModel(2).fit(long).proportions_.shape == (40, 2)


@pytest.mark.parametrize("fitted_on", ["words=", "texts"])
def test_names_of_columns_decide_and_not_their_places(fitted_on):
    """Words came from `words=` or from texts, and a wide frame in another order was read column by column."""
    words = sorted({word for text in TEXTS for word in text.split()})
    counts = np.array([[text.split().count(word) for word in words] for text in TEXTS])
    model = TopicModel(2).fit(counts, words=words) if fitted_on == "words=" else TopicModel(2).fit(TEXTS)
    want = model.transform(TEXTS)
    frame = pd.DataFrame(counts, columns=words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.transform(frame), want)
        np.testing.assert_array_equal(model.transform(frame[words[::-1]]), want)
        np.testing.assert_array_equal(model.transform(pl.DataFrame(frame[words[::-1]])), want)
    with pytest.warns(DataWarning, match="1 words were not in the fit"):
        np.testing.assert_array_equal(model.transform(frame.assign(zebra=1)), want)


@pytest.mark.parametrize("kind", ["list", "series", "object"])
def test_a_missing_text_keeps_its_place(kind):
    texts = ["red green blue", None, "sun rain snow"] * 10
    given = {"list": texts, "series": pd.Series(texts), "object": np.array([*texts[:-1], np.nan], object)}[kind]
    with pytest.warns(DataWarning, match="documents are missing, and have no words"):
        model = TopicModel(2).fit(given)
    assert model.proportions_.shape == (30, 2)
    assert len(model.words_) == 6


@pytest.mark.parametrize("kind", [np.array, set, frozenset, tuple])
def test_tokens_in_arrays_and_sets_are_read(kind):
    texts = [kind(["red", "green"]), kind(["sun", "rain", "snow"])] * 10
    assert TopicModel(2).fit(texts).topics_.shape == (2, 5)
