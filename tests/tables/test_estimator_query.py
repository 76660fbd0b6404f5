"""JointPMF against the whole tensor of a small joint, and the grammar that asks it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit.core.errors import DataError
from latentfit.core.mixture.joint import JointPMF
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column
from latentfit.tables.estimator.query import QueryError, ask

SIZES = (2, 3, 4)
NAMES = ("a", "b", "c d")


def make(sizes=SIZES, names=NAMES, seed=0):
    rng = np.random.default_rng(seed)
    table = np.concatenate([rng.dirichlet(np.ones(size), size=3).T for size in sizes])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    columns = tuple(Column(name, np.arange(size)) for name, size in zip(names, sizes, strict=True))
    return JointPMF(Mixture(rng.dirichlet(np.ones(3)), table, offsets), columns)


JOINT = make()
PROFILES = JOINT.mixture.profiles()
FULL = np.einsum("f,fa,fb,fc->abc", JOINT.mixture.weights, *PROFILES)


def entropy(p):
    p = np.asarray(p).reshape(-1)
    return -(p[p > 0] * np.log(p[p > 0])).sum()


def test_against_the_whole_tensor():
    close = {"rtol": 0, "atol": 1e-12}
    given = FULL[:, 1, :] / FULL[:, 1, :].sum()
    np.testing.assert_allclose(JOINT.prob({"a": 1, "b": 2, "c d": 3}), FULL[1, 2, 3], **close)
    np.testing.assert_allclose(JOINT.prob({"a": 1}, {"b": 1}), given[1].sum(), **close)
    np.testing.assert_allclose(JOINT.marginal(["c d", "a"]), FULL.sum(axis=1).T, **close)
    np.testing.assert_allclose(JOINT.marginal("a", {"b": 1}), given.sum(axis=1), **close)
    np.testing.assert_allclose(JOINT.condition({"b": 1}).marginal(["a", "c d"]), given, **close)
    np.testing.assert_allclose(JOINT.expect("c d", {"b": 1}), given.sum(axis=0) @ np.arange(4), **close)
    np.testing.assert_allclose(JOINT.entropy(["a", "c d"], {"b": 1}), entropy(given), **close)
    reported = entropy(given.sum(axis=0)) + entropy(given.sum(axis=1)) - entropy(given)
    np.testing.assert_allclose(JOINT.mutual_information("a", "c d", {"b": 1}), reported, **close)


def test_a_column_asked_and_given_is_one_column():
    assert JOINT.prob({"a": 1}, {"a": 1}) == pytest.approx(1, abs=1e-12)
    assert JOINT.prob({"a": 1}, {"a": 0}) == 0
    np.testing.assert_allclose(JOINT.marginal("a", {"a": 0}), [1, 0], atol=1e-12)
    assert JOINT.mutual_information("a", "a") == pytest.approx(JOINT.entropy("a"), abs=1e-12)
    with pytest.raises(DataError, match="asked for twice"):
        JOINT.marginal(["a", "a"])
    with pytest.raises(DataError, match="no category 7"):
        JOINT.prob({"a": 7})


@pytest.mark.parametrize("kind", [list, tuple, pd.Index, pd.Series, np.array])
def test_names_come_in_any_sequence(kind):
    np.testing.assert_array_equal(JOINT.marginal(kind(["c d", "a"])), JOINT.marginal(["c d", "a"]))
    assert JOINT.entropy(kind(["a", "b"])) == JOINT.entropy(["a", "b"])
    assert JOINT.mutual_information(kind(["a"]), kind(["b", "c d"])) == JOINT.mutual_information("a", ["b", "c d"])
    numbered = make(names=(0, 1, 2))
    np.testing.assert_array_equal(numbered.marginal(kind([2, 0])), numbered.marginal([2, 0]))
    np.testing.assert_array_equal(numbered.marginal(np.int64(2)), numbered.marginal(2))


def test_a_tuple_may_be_the_name_of_a_column():
    joint = make(names=(("a", "x"), ("a", "y"), "a"))
    np.testing.assert_array_equal(joint.marginal(("a", "y")), joint.marginal([("a", "y")]))
    assert joint.marginal((("a", "y"), "a")).shape == (3, 4)


def test_samples_have_the_frequencies_of_the_joint():
    drawn = JOINT.sample(200_000, 1)
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(drawn[name].to_numpy() for name in NAMES), 1 / 200_000)
    np.testing.assert_allclose(counts, FULL, atol=5 * np.sqrt(0.25 / 200_000))
    assert drawn.equals(JOINT.sample(200_000, 1))


def test_hundreds_of_columns_do_not_underflow():
    names = [f"x{n}" for n in range(600)]
    joint = make([20] * 600, names)
    given = dict.fromkeys(names[1:], 3)
    p = joint.marginal("x0", given)
    assert p.sum() == pytest.approx(1)
    logs = np.log(joint.mixture.weights) + sum(np.log(profile[:, 3]) for profile in joint.mixture.profiles()[1:])
    probabilities = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    np.testing.assert_allclose(p, probabilities @ joint.mixture.profiles()[0], atol=1e-10)
    with pytest.raises(DataError, match="ask for fewer columns"):
        joint.marginal(names[:30])


def test_questions():
    assert ask(JOINT, "P(a=1, b=2.0, 'c d'=3)").values[0] == pytest.approx(FULL[1, 2, 3], abs=1e-12)
    answer = ask(JOINT, 'P(b=2, c d | a="1")')
    np.testing.assert_allclose(answer.values, FULL[1, 2] / FULL[1].sum(), atol=1e-12)
    assert answer.as_columns()["c d"] == [0, 1, 2, 3]
    assert "probability" in str(answer)
    assert ask(JOINT, "e(b)").values[0] == pytest.approx(JOINT.expect("b"))
    assert ask(JOINT, "H(a, b | c d=0)").values[0] == pytest.approx(JOINT.entropy(["a", "b"], {"c d": 0}))
    assert ask(JOINT, "I(a; b, c d)").values[0] == pytest.approx(JOINT.mutual_information("a", ["b", "c d"]))


WRONG = {
    "Q(a)": (0, "begins with P"),
    "P(a": (3, "found the end"),
    "P(cd)": (2, "did you mean 'c d'?"),
    "P(a=9)": (4, "no category '9'"),
    "P(a | b)": (7, "after the bar"),
    "P(a, a)": (5, "twice"),
    "P('a)": (2, "never closed"),
    "P(a) b": (5, "remove what follows"),
    "I(a)": (3, "two sides"),
    "E(a, b)": (3, "one column"),
    "H(a=1)": (2, "after the bar"),
    "P()": (2, "column is missing"),
}


@pytest.mark.parametrize("question", WRONG)
def test_errors_point_at_the_character(question):
    at, words = WRONG[question]
    with pytest.raises(QueryError) as caught:
        ask(JOINT, question)
    sentence, line, caret = str(caught.value).splitlines()
    assert words in sentence
    assert line == f"  {question}"
    assert caret.index("^") == at + 2
