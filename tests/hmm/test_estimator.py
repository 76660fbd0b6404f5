"""Hidden Markov models of symbols: every form of input, gaps, unseen symbols, order of sequences, saving, errors."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

import latentfit
from latentfit import CategoricalHMM
from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.errors import DataError, DataWarning, IdentifiabilityWarning, NotIdentifiableError
from latentfit.hmm.data import lines_to_sequences, read_sequences
from latentfit.hmm.diagnostics import neighbour_test
from latentfit.hmm.em import fit as chain_fit
from latentfit.hmm.em.fit import cut, fit_chain, pieces_of, spectral_inits, thinned
from latentfit.hmm.em.steps import Chain, ChainSteps, chain_prior
from latentfit.simulate import draw_sequences, hidden_markov

WORDS = np.array([f"w{n:02}" for n in range(12)], object)


@pytest.fixture(scope="module")
def made():
    return hidden_markov(4000, n_states=3, n_symbols=12, n_sequences=40, overlap=0.1, random_state=1)


@pytest.fixture(scope="module")
def lists(made):
    words = WORDS[made.sequences.codes]
    return [list(part) for part in np.split(words, made.sequences.offsets[1:-1])]


@pytest.fixture(scope="module")
def fitted(lists):
    return CategoricalHMM(3).fit(lists)


# ------------------------------------------------------------------ input


def forms(lists):
    flat = [word for one in lists for word in one]
    ids = np.repeat([f"s{n}" for n in range(len(lists))], [len(one) for one in lists])
    lengths = [len(one) for one in lists]
    frame = {"sequence": ids, "symbol": flat}
    yield "lengths", np.array(flat, object), {"lengths": lengths}
    yield "column and lengths", np.array(flat, object)[:, None], {"lengths": lengths}
    yield "groups", flat, {"groups": ids}
    yield "pandas", pd.DataFrame(frame), {}
    yield "polars", pl.DataFrame({"sequence": ids.tolist(), "symbol": flat}), {}
    yield "pyarrow", pa.table({"sequence": ids.tolist(), "symbol": flat}), {}
    yield "arrays", [np.array(one, object) for one in lists], {}
    yield "lines", lines_to_sequences([[" ".join(one) for one in lists]]), {}


def test_every_form_of_input_is_the_same_fit(lists, fitted):
    want = fitted.predict(lists)
    for name, data, more in forms(lists):
        assert np.array_equal(fitted.predict(data, **more), want), name
        assert fitted.score(data, **more) == fitted.score(lists), name
        found = read_sequences(data, **more)
        assert np.array_equal(found.codes, read_sequences(lists).codes), name


def test_groups_need_not_stand_together(lists, fitted):
    flat = np.array([word for one in lists[:2] for word in one], object)
    ids = np.repeat(["a", "b"], [len(lists[0]), len(lists[1])])
    mixed = _merge(ids)
    got = fitted.predict_proba(flat[mixed], groups=ids[mixed])
    want = fitted.predict_proba([flat[ids == "a"], flat[ids == "b"]])
    assert np.array_equal(got, want[mixed])


def _merge(ids):
    """An order that mixes two groups and keeps the order inside each."""
    turn = np.random.default_rng(0).permutation(ids)
    out = np.empty(len(ids), int)
    for name in ("a", "b"):
        out[turn == name] = np.flatnonzero(ids == name)
    return out


def test_a_text_is_a_sequence_of_characters():
    data = read_sequences("GATTACA")
    assert data.symbols.tolist() == ["A", "C", "G", "T"]
    assert data.n_steps == 7
    assert data.pairs()[3, 3] == 1


def test_numbers_stay_numbers_and_nan_is_missing():
    data = read_sequences(np.array([3.0, np.nan, 5.0, 3.0]))
    assert data.symbols.tolist() == [3, 5]
    assert data.codes.tolist() == [0, -1, 1, 0]
    assert data.pairs().toarray().tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("data", "more", "words"),
    [
        ([], {}, "holds no observation"),
        ([None, None], {}, "every observation of X is missing"),
        (np.zeros((3, 2)), {}, "shape \\(3, 2\\)"),
        (["a", "b"], {"lengths": [1]}, "lengths must sum to the 2 observations of X, got 1"),
        (["a", "b"], {"groups": ["x"]}, "groups must have one id per observation of X, 2, got 1"),
        (["a", "b"], {"groups": ["x", None]}, "X, row 2: the sequence id is missing"),
        ([["a", "b"], "c"], {}, "mixes sequences with single symbols"),
        ([["a", "b"]], {"lengths": [2]}, "says in two ways"),
        (pd.DataFrame({"one": [1], "two": [2]}), {}, "no column for the symbol"),
    ],
)
def test_bad_input_gets_a_sentence(data, more, words):
    with pytest.raises(DataError, match=words):
        CategoricalHMM(1).fit(data, **more)


def test_one_symbol_sequences_have_no_states():
    with pytest.raises(NotIdentifiableError, match="have one observation"):
        CategoricalHMM(2).fit([["a"], ["b"], ["a"]])
    assert CategoricalHMM().fit([["a"], ["b"], ["a"]]).n_states_ == 1


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"init": "svd"}, "init must be 'auto', 'spectral' or 'random', got 'svd'"),
        ({"smoothing": -1.0}, "smoothing must be a number >= 0 or 'auto', got -1.0"),
        ({"n_states": 0}, "n_states must be an int from 1 to 256 or None, got 0"),
        ({"n_states": 1000}, "n_states must be an int from 1 to 256 or None, got 1000"),
        ({"engine": "dask"}, "engine of CategoricalHMM must be one of 'auto', 'memory', got 'dask'"),
        ({"columns": {"word": "x"}}, "roles are sequence, symbol"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, words):
    frame = pd.DataFrame({"symbol": list("abab")})
    with pytest.raises(DataError, match=words):
        CategoricalHMM(**parameters).fit(frame)


# ---------------------------------------------------------------- the fit


def test_the_model_is_found(made, fitted):
    apart = np.abs(made.chain.emissions[:, None] - fitted.emissions_[None]).sum(axis=2)
    order = match_classes(-apart)
    assert apart[np.arange(3), order].max() < 0.25
    assert np.mean(order[made.states] == fitted.predict([WORDS[made.sequences.codes]])) > 0.75
    assert (np.diff(fitted.weights_) <= 0).all()
    assert fitted.report_.verdict == "ok", fitted.report_


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_no_em_step_lowers_the_objective(made, accelerate, smoothing):
    start = fit_chain(made.sequences, 3, init="random", n_init=1, smoothing=1.0, max_iter=0).refined.params
    steps = ChainSteps(made.sequences, chain_prior(made.sequences, smoothing))
    path = np.array(em(steps, start, max_iter=60, tol=0, accelerate=accelerate).path)
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


def test_order_of_sequences_does_not_matter(lists, fitted):
    order = np.random.default_rng(1).permutation(len(lists))
    again = CategoricalHMM(3).fit([lists[n] for n in order])
    np.testing.assert_allclose(again.emissions_, fitted.emissions_, atol=1e-6)
    np.testing.assert_allclose(again.transitions_, fitted.transitions_, atol=1e-6)
    assert again.log_likelihood_ == pytest.approx(fitted.log_likelihood_, rel=1e-9)


def test_alone_or_in_a_batch(lists, fitted):
    together = np.split(fitted.predict_proba(lists), np.cumsum([len(one) for one in lists])[:-1])
    for one, want in list(zip(lists, together, strict=True))[:5]:
        assert np.array_equal(fitted.predict_proba(one), want)
    assert fitted.score_sequences(lists).sum() == pytest.approx(fitted.log_likelihood_, rel=1e-12)


def test_missing_values_at_the_end_change_nothing(lists, fitted):
    padded = [[*one, None, None] for one in lists]
    assert fitted.score(padded) == pytest.approx(fitted.score(lists), rel=1e-9)
    long = fitted.predict_proba(padded[0])
    np.testing.assert_allclose(long[:-2], fitted.predict_proba(lists[0]), atol=1e-12)
    np.testing.assert_allclose(long[-1], long[-3] @ fitted.transitions_ @ fitted.transitions_, atol=1e-12)


def test_unseen_symbols_are_missing_with_a_warning(lists, fitted):
    changed = ["new", *lists[0][1:]]
    with pytest.warns(DataWarning, match="1 observations of X are symbols that the fit has not seen \\('new'\\)"):
        got = fitted.predict_proba(changed)
    assert np.array_equal(got, fitted.predict_proba([None, *lists[0][1:]]))


def test_dead_states_do_no_harm():
    """More states than symbols, no smoothing: numbers stay finite and rows stay distributions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CategoricalHMM(6, smoothing=0.0, n_init=2).fit(["a", "b", "a", "a", "b"] * 10)
    for part in (model.start_, model.transitions_, model.emissions_):
        np.testing.assert_allclose(part.sum(axis=-1), 1.0)
    assert np.isfinite(model.score(["a", "b"]))
    assert model.report_.verdict != "ok"


def test_one_state_is_the_unigram_model(lists):
    flat = [word for one in lists for word in one]
    model = CategoricalHMM(1, smoothing=0.0).fit(lists)
    counts = pd.Series(flat).value_counts(normalize=True).sort_index().to_numpy()
    np.testing.assert_allclose(model.emissions_[0], counts)
    assert model.score(lists) == pytest.approx(np.log(counts) @ pd.Series(flat).value_counts().sort_index().to_numpy())


def test_the_limit_is_reported(lists):
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model = CategoricalHMM(3, max_iter=2, tol=1e-12).fit(lists)
    assert not model.converged_
    assert any("stopped before" in reason for reason in model.report_.reasons)


# ------------------------------------------------------------------ pieces


def test_pieces_cover_everything_once(made):
    begins, ends = pieces_of(made.sequences)
    assert (ends > begins).all()
    assert (ends - begins).sum() == made.sequences.n_steps
    split = cut(made.sequences, 0)
    assert split.learn.n_steps + split.held.n_steps == made.sequences.n_steps
    assert 0.1 < split.held.n_steps / made.sequences.n_steps < 0.3
    assert thinned(made.sequences, 500, 0).n_steps <= 500


# ------------------------------------------------------------------ results


def test_tables_speak_the_users_words(lists, fitted):
    frame = pd.DataFrame({"sequence": ["x", "x", "y"], "symbol": ["w00", None, "w03"]})
    table = fitted.state_table(frame)
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == ["sequence", "position", "symbol", "state", "probability"]
    assert table["sequence"].tolist() == ["x", "x", "y"]
    assert table["position"].tolist() == [1, 2, 1]
    assert table["symbol"].tolist() == ["w00", "", "w03"]
    parameters = fitted.parameter_table_.to_pandas()
    sums = parameters.groupby(["kind", "from"])["probability"].sum()
    np.testing.assert_allclose(sums, 1.0)
    assert len(parameters) == 3 + 9 + 36


def test_samples_follow_the_model(fitted):
    symbols, states = fitted.sample(20_000, random_state=1)
    again, _ = fitted.sample(20_000, random_state=1)
    assert symbols.tolist() == again.tolist()
    assert set(symbols.tolist()) <= set(WORDS.tolist())
    moves = np.zeros((3, 3))
    np.add.at(moves, (states[:-1], states[1:]), 1)
    np.testing.assert_allclose(moves / moves.sum(axis=1, keepdims=True), fitted.transitions_, atol=0.03)
    assert fitted.sample(0)[0].tolist() == []
    with pytest.raises(DataError, match="n_samples must be an int >= 0, got -1"):
        fitted.sample(-1)


def test_entropy_rate():
    """A chain that shows its state has a formula; an independent one the entropy of its symbols."""
    transitions = np.array([[0.9, 0.1], [0.3, 0.7]])
    model = CategoricalHMM(2)
    model.start_, model.transitions_, model.emissions_ = np.full(2, 0.5), transitions, np.eye(2)
    model.symbols_, model.n_observed_ = np.array(["a", "b"], object), 100
    share = np.array([0.75, 0.25])
    exact = -float(share @ (transitions * np.log(transitions)).sum(axis=1))
    rate, error = model.entropy_rate()
    assert abs(rate - exact) < 5 * error + 1e-9
    model.n_observed_ = 1
    with pytest.warns(IdentifiabilityWarning, match="Corollary 1.7"):
        model.entropy_rate()


def test_saved_and_loaded(tmp_path, lists, fitted):
    fitted.save(tmp_path / "m.latent")
    again = latentfit.load(tmp_path / "m.latent")
    assert np.array_equal(again.predict_proba(lists), fitted.predict_proba(lists))
    assert again.symbols_.tolist() == fitted.symbols_.tolist()
    assert again.report_.verdict == fitted.report_.verdict
    assert again.parameter_table_.num_rows == 48


def test_the_number_of_states_is_found(made, lists):
    model = CategoricalHMM().fit(lists)
    assert model.n_states_ == 3
    assert model.selection_["chosen"] == 3
    assert any("3 states" in note for note in model.report_.notes)


@pytest.mark.parametrize("init", ["auto", "spectral", "random"])
def test_states_of_one_symbol_are_fitted_and_not_trusted(init):
    for long in (3, 60):  # few observations, and many: they take other ways
        model = CategoricalHMM(2, init=init, max_iter=5, tol=0).fit([["s"] * long] * 4)
        assert model.report_.verdict == "not identifiable"


@pytest.mark.parametrize("steps", [list("ab" * 9), list(np.random.default_rng(0).choice(list("abc"), 20))])
def test_a_sequence_too_short_to_be_parted_is_not_compared_with_itself(steps):
    model = CategoricalHMM().fit([steps])
    assert model.n_states_ == 1
    assert model.selection_ == {"chosen": 1, "held_out": [], "errors": [], "limit": 20}
    assert model.report_.verdict == "caution"
    assert any("too few neighbouring symbols" in reason for reason in model.report_.reasons)
    assert any("too few steps to leave any out" in note for note in model.report_.notes)


def test_states_of_a_short_sequence_get_caution_with_the_right_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        report = CategoricalHMM(2).fit([list("ab" * 9)]).report_
    assert report.verdict == "not identifiable"
    assert any("too few to leave any out" in reason for reason in report.reasons)
    assert not any("look independent" in reason for reason in report.reasons)
    assert not any("left out most probable" in note for note in report.notes)


def test_the_order_of_many_sequences_decides_nothing(monkeypatch):
    """More steps than the start by slices looks at: which of them it takes, their content decides; so do halves."""
    monkeypatch.setattr(chain_fit, "SEARCH", replace(chain_fit.SEARCH, most_trigrams=1500))
    made = hidden_markov(4000, n_states=3, n_symbols=12, n_sequences=40, overlap=0.1, random_state=1).sequences
    order = np.random.default_rng(0).permutation(40)
    turned = made.slices(made.offsets[:-1][order], made.offsets[1:][order])
    starts = [spectral_inits(data, 3, np.random.default_rng(0))[0][1] for data in (made, turned)]
    np.testing.assert_allclose(starts[0].emissions, starts[1].emissions, atol=1e-8)
    tests = [neighbour_test(data, 2).z for data in (made, turned)]
    assert tests[0] == pytest.approx(tests[1], rel=1e-9)


# ------------------------------------------------------ what users ran into


def planted(n=300):
    """Sequences of ten steps that all begin in state 0; the long array and the lengths."""
    chain = Chain(np.array([1.0, 0.0]), np.array([[0.8, 0.2], [0.0, 1.0]]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    made = draw_sequences(chain, 10 * n, n, np.random.default_rng(0)).sequences
    return made.codes.reshape(-1, 1), np.diff(made.offsets)


def test_lengths_stand_where_hmmlearn_has_them():
    X, lengths = planted()
    model = CategoricalHMM(2, random_state=0).fit(X, lengths)
    want = CategoricalHMM(2, random_state=0).fit(X, lengths=lengths)
    np.testing.assert_array_equal(model.transitions_, want.transitions_)
    first = int(model.start_.argmax())
    assert model.transitions_[1 - first, first] < 0.05, "nothing comes back where every sequence begins anew"
    assert model.score(X, lengths) == model.score(X, lengths=lengths) == pytest.approx(model.log_likelihood_)
    assert model.score(X, lengths) > model.score(X)
    np.testing.assert_array_equal(model.predict(X, lengths), model.predict(X, lengths=lengths))
    np.testing.assert_array_equal(model.predict_proba(X, lengths), model.predict_proba(X, lengths=lengths))
    np.testing.assert_array_equal(model.score_sequences(X, lengths), model.score_sequences(X, lengths=lengths))


def test_pipelines_and_searches_pass_no_target():
    X, _ = planted(60)
    piped = Pipeline([("hmm", CategoricalHMM(2, n_init=1))]).fit(X, None)
    assert piped.named_steps["hmm"].n_states_ == 2
    assert CategoricalHMM(2, n_init=1).fit(X, y=np.zeros(len(X))).n_states_ == 2


def log_of_events(n_users=40):
    made = hidden_markov(n_users * 20, n_states=2, n_symbols=6, n_sequences=n_users, random_state=3).sequences
    frame = pd.DataFrame({
        "user": [f"u{n:02}" for n in made.sequence_of()],
        "timestamp": pd.Timestamp("2024-01-31") + pd.to_timedelta(made.positions() * 7, unit="min"),
        "event": [f"e{code}" for code in made.codes],
    })  # fmt: skip
    return made, frame


@pytest.mark.parametrize("kind", ["dates", "text", "numbers"])
def test_an_event_log_is_read_user_by_user_in_the_order_of_time(kind):
    made, frame = log_of_events()
    if kind != "dates":
        frame["timestamp"] = frame["timestamp"].astype("int64" if kind == "numbers" else str)
    mixed = frame.sample(frac=1.0, random_state=0)
    found = read_sequences(mixed)
    assert found.n_sequences == made.n_sequences
    want = {tuple(made.codes[a:b]) for a, b in itertools.pairwise(made.offsets)}
    assert {tuple(found.codes[a:b]) for a, b in itertools.pairwise(found.offsets)} == want
    assert found.notes == ("the steps of a sequence were sorted by the column 'timestamp'",)
    np.testing.assert_array_equal(found.in_input_order(found.codes), [int(event[1]) for event in mixed["event"]])
    model = CategoricalHMM(2, n_init=1).fit(mixed)
    assert found.notes[0] in model.report_.notes
    assert read_sequences(frame).notes == (), "rows that stand in order need no word"


def test_steps_that_are_numbered_are_sorted_and_unused_columns_are_named(tmp_path):
    """user, step, event in another order was read as it stood, without a word."""
    made, frame = log_of_events()
    frame = frame.assign(step=made.positions())[["user", "step", "event"]]
    mixed = frame.sample(frac=1.0, random_state=0)
    found = read_sequences(mixed)
    want = {tuple(made.codes[a:b]) for a, b in itertools.pairwise(made.offsets)}
    assert {tuple(found.codes[a:b]) for a, b in itertools.pairwise(found.offsets)} == want
    assert found.notes == ("the steps of a sequence were sorted by the column 'step'",)
    told = ("not used: column 'visit_no'; if one tells the order of the steps, name it as their time (--time)",)
    other = mixed.rename(columns={"step": "visit_no"})
    assert read_sequences(other).notes == told
    other.to_csv(tmp_path / "log.csv", index=False)
    assert read_sequences(latentfit.scan(tmp_path / "log.csv")).notes == told
    both = read_sequences(mixed.assign(country="x")).notes
    assert both == ("not used: column 'country'", "the steps of a sequence were sorted by the column 'step'")


def test_an_event_log_in_a_file_is_read_like_the_frame(tmp_path):
    _, frame = log_of_events(10)
    mixed = frame.sample(frac=1.0, random_state=0)
    mixed.to_csv(tmp_path / "log.csv", index=False)
    found, want = read_sequences(latentfit.scan(tmp_path / "log.csv")), read_sequences(mixed)
    np.testing.assert_array_equal(found.codes, want.codes)
    assert found.names.tolist() == want.names.tolist()
    assert found.notes == want.notes


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (["2024-01-01", None, "2024-01-03"], "row 2"),
        (["3/14/24", "4/14/24", "1/1/24"], "neither a number nor a date"),
        (["2024-01-01", "2024-01-02", "soon"], "'soon' in row 3"),
    ],
)
def test_times_that_cannot_be_sorted_get_a_sentence(times, words):
    frame = pd.DataFrame({"user": ["a"] * 3, "time": times, "event": list("xyx")})
    with pytest.raises(DataError, match=words):
        read_sequences(frame)


def test_measurements_are_not_symbols():
    with pytest.raises(DataError, match="look like measurements, not symbols"):
        CategoricalHMM(2).fit(np.random.default_rng(0).normal(size=500))
    with pytest.raises(DataError, match="look like measurements, not symbols"):
        CategoricalHMM(2).fit([f"{value:.3f}" for value in np.random.default_rng(0).normal(size=500)])
    prices = np.random.default_rng(0).choice([0.99, 1.49, 1.99], 200)
    assert CategoricalHMM(1).fit(prices).symbols_.tolist() == [0.99, 1.49, 1.99]


def test_a_fold_without_any_pair_is_no_crash():
    model = CategoricalHMM(2).fit([["a", "b", "c"]] + [["d"]] * 9)
    assert model.report_.verdict == "not identifiable"


def test_a_generator_of_sequences_is_read(lists, fitted):
    again = CategoricalHMM(3).fit(one for one in lists)
    np.testing.assert_array_equal(again.emissions_, fitted.emissions_)


def test_spectral_init_runs_em_from_the_moment_estimate(made, monkeypatch):
    resume_from = []

    def climb(steps, start, **how):
        resume_from.append((steps.data.n_steps, start))
        return em(steps, start, **how)

    monkeypatch.setattr(chain_fit, "em", climb)
    CategoricalHMM(3, init="spectral").fit(made.sequences)
    alone = CategoricalHMM(3, init="spectral", max_iter=0).fit(made.sequences)
    steps, start = resume_from[-2]  # the last but the one without iterations
    assert steps == made.sequences.n_steps
    order = np.argsort(-alone.weights_, kind="stable")
    np.testing.assert_allclose(np.sort(start.emissions, axis=0), np.sort(alone.emissions_[order], axis=0))


def test_dependence_is_seen_at_ten_observations_per_symbol():
    """Where the paper's own structure test sees it; and independent draws are not called dependent."""
    seen = [
        neighbour_test(hidden_markov(5000, n_states=2, n_symbols=500, random_state=seed).sequences).p_value < 1e-3
        for seed in range(6)
    ]
    assert sum(seen) >= 5


def test_nothing_found_is_said(lists):
    rng = np.random.default_rng(0)
    model = CategoricalHMM().fit([rng.choice(list("abcdef"), 50).tolist() for _ in range(40)])
    assert model.n_states_ == 1
    assert model.report_.verdict == "caution"
    assert any("No structure found" in reason for reason in model.report_.reasons)


def test_duplicates_of_a_sequence_are_no_evidence():
    sentence = list("the cat sat on the mat")
    model = CategoricalHMM().fit([sentence] * 300)
    assert model.report_.verdict != "ok"
    assert model.n_states_ == 1
    assert any("299 of 300 sequences are exact duplicates" in reason for reason in model.report_.reasons)
    assert model.report_.quantities["n_observed"] == len(sentence)
    short = CategoricalHMM(1).fit([list("ab"), list("ba")] * 50)
    assert short.report_.quantities["copied_share"] == 0.0


def test_duplicates_of_a_few_short_sequences_are_reported():
    sentence = ["red", "cat", "sat", "on", "blue", "mat"]
    model = CategoricalHMM().fit([sentence] * 300)
    assert model.report_.verdict == "caution"
    assert any("300 sequences are duplicates of 1 different one" in reason for reason in model.report_.reasons)
    by_chance = CategoricalHMM(2).fit([list("abab"), list("baba")] * 200)  # two symbols leave no room for many
    assert not any("duplicates" in reason for reason in by_chance.report_.reasons)


@pytest.mark.parametrize("lengths", [[2.0, 2.0], ["2", "2"], [[2], [2]], [5, -1]])
def test_lengths_that_are_no_numbers_of_steps_are_refused_as_such(lengths):
    with pytest.raises(DataError, match="list of whole numbers, zero or more; give the number of observations"):
        CategoricalHMM(1).fit(np.array([0, 1, 0, 1]), lengths)


def test_the_limit_of_states_is_said_and_the_advice_can_be_followed():
    made = hidden_markov(8000, n_states=5, n_symbols=20, overlap=0.05, random_state=0).sequences
    model = CategoricalHMM(max_states=3).fit(made)
    assert model.n_states_ == 3
    assert any("the limit max_states=3" in reason for reason in model.report_.reasons)
    assert not any("leave n_states=None" in reason for reason in model.report_.reasons)
    with pytest.raises(DataError, match="max_states must be an int from 1 to 256 or None, got 0"):
        CategoricalHMM(max_states=0).fit(made)


def test_the_number_of_states_does_not_hang_on_the_seed():
    made = hidden_markov(3000, n_states=4, n_symbols=60, n_sequences=30, overlap=0.4, random_state=2).sequences
    assert len({CategoricalHMM(random_state=seed).fit(made).n_states_ for seed in range(5)}) == 1


def test_initialisations_that_reached_the_best_are_counted(lists):
    notes = CategoricalHMM(3).fit(lists).report_.notes
    assert any("the best log-likelihood was reached by" in note for note in notes)
