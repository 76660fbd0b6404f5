"""scikit-learn's checks and our own on every estimator; every public name is there and documented."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from functools import cached_property

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import latentfit
import latentfit.core.registry
from latentfit import (
    Admixture,
    BernoulliMixture,
    BinaryFactors,
    BlockModel,
    CategoricalHMM,
    DawidSkene,
    LatentClass,
    LatentClassClassifier,
    LatentClassImputer,
    MixtureFractions,
    PairMatrix,
    TopicModel,
)
from latentfit.communities.data import read_graph
from latentfit.core import checkpoint
from latentfit.core.errors import DataError
from latentfit.core.registry import ESTIMATORS
from latentfit.core.verdict import FitReport
from latentfit.simulate import binary_factors, block_graph, crowd, pairs, topic_documents
from latentfit.testing import CHECKS, Labelled
from tests.fits import bits

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def answers():
    """A table of words, numbers and truth values that three classes made, with gaps."""
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 3, 150)
    codes = np.where(rng.random((150, 6)) < 0.75, hidden[:, None], rng.integers(0, 3, (150, 6)))
    frame = pd.DataFrame({f"q{n}": codes[:, n] for n in range(4)})
    frame["word"], frame["flag"] = np.array(["a", "b", "c"], object)[codes[:, 4]], codes[:, 5] > 1
    return frame.mask(rng.random(frame.shape) < 0.1)


def labelled_answers():
    frame = answers()
    return Labelled(frame.drop(columns="word"), frame["word"].fillna("none").to_numpy())


def switches():
    """Yes/no rows of two clusters, with gaps."""
    rng = np.random.default_rng(2)
    kind = np.repeat([0, 1], 90)
    rows = (rng.random((180, 10)) < np.where(kind, 0.85, 0.15)[:, None]).astype(float)
    return pd.DataFrame(np.where(rng.random(rows.shape) < 0.1, np.nan, rows), columns=[f"s{n}" for n in range(10)])


def mixtures():
    """Mixtures of three parts, values in [0, 1], with gaps."""
    rng = np.random.default_rng(3)
    values = rng.dirichlet(np.full(3, 0.5), 20) @ rng.beta(0.5, 0.5, (3, 40)) + 0.02 * rng.normal(size=(20, 40))
    values = np.where(rng.random(values.shape) < 0.1, np.nan, np.clip(values, 0, 1))
    return pd.DataFrame(values, columns=[f"site{n}" for n in range(40)], index=[f"blood{n}" for n in range(20)])


def measurements():
    """Numbers that three switches add up to."""
    rows = binary_factors(600, m=8, d=3, sigma=0.2, random_state=3).X
    return pd.DataFrame(rows, columns=[f"x{n}" for n in range(8)])


def genotypes():
    """Allele counts of people who descend from two populations, with gaps."""
    rng = np.random.default_rng(4)
    counts = rng.binomial(2, rng.dirichlet([0.3, 0.3], 110) @ rng.uniform(0.05, 0.95, (2, 150))).astype(float)
    counts[rng.random(counts.shape) < 0.05] = np.nan
    return pd.DataFrame(counts, columns=[f"rs{n}" for n in range(150)])


def links():
    """Edges of a graph with three communities, nodes with words for names."""
    at = block_graph(240, 3, 9.0, strength=3.0, random_state=5).matrix.tocoo()
    return pd.DataFrame({"source": [f"n{i}" for i in at.row], "target": [f"n{j}" for j in at.col]}).astype(object)


def sentences():
    """Words that two states made, in many short sequences, with gaps."""
    rng = np.random.default_rng(5)
    state = np.cumsum(rng.random(900) < 0.15) % 2
    place = np.where(rng.random(900) < 0.85, 2 * state, 0) + rng.integers(0, 2, 900)
    words = np.array(["ant", "bee", "cat", "dog"], object)[place]
    words[rng.random(900) < 0.05] = None
    return pd.DataFrame({"sequence": np.repeat(np.arange(30), 30), "symbol": words})


def word_pairs():
    """One row per pair of words with its count."""
    counts = pairs(60, 1500, "zipf", random_state=5).counts.tocoo()
    words = np.array([f"word{n:02d}" for n in range(60)], object)
    return pd.DataFrame({"word": words[counts.row], "context": words[counts.col], "count": counts.data})


def texts():
    """Documents of three topics as a long frame, one of them without a known word's count."""
    counts = topic_documents(150, 60, 3, length=30, random_state=5).counts.tocoo()
    columns = {"document": counts.row, "word": [f"w{n}" for n in counts.col], "count": counts.data.astype(float)}
    frame = pd.DataFrame(columns)
    frame.loc[7, "count"] = np.nan
    return frame


CASES = {
    "Admixture": (Admixture(2), genotypes),
    "BernoulliMixture": (BernoulliMixture(), switches),
    "BinaryFactors": (BinaryFactors(), measurements),
    "BlockModel": (BlockModel(3), links),
    "CategoricalHMM": (CategoricalHMM(2), sentences),
    "DawidSkene": (DawidSkene(), lambda: crowd(80, 9, 3, labels_per_task=5, random_state=1).labels),
    "LatentClass": (LatentClass(3), answers),
    "LatentClassClassifier": (LatentClassClassifier(2), labelled_answers),
    "LatentClassImputer": (LatentClassImputer(3), answers),
    "MixtureFractions": (MixtureFractions(3, n_init=3), mixtures),
    "PairMatrix": (PairMatrix(), word_pairs),
    "TopicModel": (TopicModel(3, tol=1e-7), texts),
}


@parametrize_with_checks(
    [
        BernoulliMixture(binarize=0.0, weight_type="frequency"),
        BinaryFactors(),
        DawidSkene(),
        LatentClass(weight_type="frequency"),  # what scikit-learn means by weights: a row of weight w is w rows
        LatentClassClassifier(weight_type="frequency"),
        LatentClassImputer(weight_type="frequency"),
        TopicModel(),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_own_contract(name, check):
    model, data = CASES[name]
    check(clone(model), data())


def fitted(model, data, **more):
    return model.fit(data.rows, data.labels, **more) if isinstance(data, Labelled) else model.fit(data, **more)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("max_iter", -1, "max_iter must be an int >= 0 .*, got -1"),
        ("max_iter", 2.5, r"max_iter must be an int >= 0 .*, got 2\.5"),
        ("tol", float("nan"), "tol must be a finite number >= 0 .*, got nan"),
        ("tol", "small", "tol must be a finite number >= 0 .*, got 'small'"),
        ("n_", "many", " must be an int or .*, got 'many'"),
        ("n_jobs", 0, "n_jobs must be a nonzero int or None, got 0"),
        ("engine", "abacus", r"engine of \w+ must be one of .*, got 'abacus'"),
        ("engine", "memory=4GB", r"engine of \w+ must be one of .*, got 'memory=4GB'"),
    ],
)
def test_settings_that_cannot_be_get_one_sentence(name, setting, value, sentence):
    model, data = CASES[name]
    settings = [one for one in model.get_params() if one == setting or (setting == "n_" and one.startswith("n_"))]
    with pytest.raises(ValueError, match=sentence):
        fitted(clone(model).set_params(**{settings[0]: value}), data())


LEARNS = ("fit", "partial_fit", "fit_transform", "fit_predict", "compare")


def questions():
    """(estimator, method or property) for all that only a fitted one can answer."""
    for name in sorted(ESTIMATORS):
        kind = getattr(latentfit, name)
        for asked in dir(kind):
            value = inspect.getattr_static(kind, asked)
            own = inspect.isfunction(value) and value.__module__.startswith("latentfit.")
            if asked[0] != "_" and asked not in LEARNS and (own or isinstance(value, property | cached_property)):
                yield name, asked


@pytest.mark.parametrize(("name", "asked"), questions())
def test_what_was_not_fitted_says_so(name, asked):
    model, data = CASES[name]
    model, rows = clone(model), data()
    rows = rows.rows if isinstance(rows, Labelled) else read_graph(rows) if asked == "posterior_in" else rows
    if isinstance(inspect.getattr_static(type(model), asked), property | cached_property):
        with pytest.raises(NotFittedError):
            getattr(model, asked)
        return
    ask = getattr(model, asked)
    needed = [one for one in inspect.signature(ask).parameters.values() if one.default is one.empty]
    given = [rows if at == 0 else "word" for at, one in enumerate(needed) if one.kind is one.POSITIONAL_OR_KEYWORD]
    with pytest.raises(NotFittedError):
        ask(*given)


SMOOTHED = ("BernoulliMixture", "CategoricalHMM", "DawidSkene", "LatentClass", "LatentClassClassifier", "PairMatrix")


@pytest.mark.parametrize("name", SMOOTHED)
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1, "much", np.ones(2)], ids=str)
def test_smoothing_that_cannot_be_gets_one_sentence(name, value):
    model, data = CASES[name]
    with pytest.raises(DataError, match="smoothing"):
        fitted(clone(model).set_params(smoothing=value), data())


@pytest.mark.parametrize("name", SMOOTHED)
@pytest.mark.parametrize("value", [np.int64(2), np.float32(0.5), 0, "auto"], ids=str)
def test_smoothing_by_any_number(name, value):
    model, data = CASES[name]
    fitted(clone(model).set_params(smoothing=value, max_iter=2), data())


def as_numpy(value):
    """A number of Python's as numpy has it; all else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return np.int64(value) if isinstance(value, int) else np.float64(value)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_settings_may_be_numbers_of_numpy(name, tmp_path, monkeypatch):
    """They fit, keep a checkpoint and are saved as Python's are."""
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "SPARING", 0.0)
    kind, data = CASES[name]
    model = clone(kind).set_params(max_iter=40, tol=0.0, random_state=3)
    if "n_components" in model.get_params() and name != "PairMatrix":
        model.set_params(n_components=2)
    numpys = clone(model).set_params(**{one: as_numpy(value) for one, value in model.get_params(deep=False).items()})
    kept = {"checkpoint": tmp_path / "kept.latent"} if "checkpoint" in inspect.signature(model.fit).parameters else {}
    fitted(model, data()).save(tmp_path / "plain.latent")
    fitted(numpys, data(), **kept).save(tmp_path / "numpy.latent")
    assert type(numpys.converged_) is bool
    assert (tmp_path / "numpy.latent").read_bytes() == (tmp_path / "plain.latent").read_bytes()


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_generator_gives_one_seed_a_fit(name):
    """And what is asked of the fit later has the same: nothing draws again."""
    kind, data = CASES[name]
    states = [np.random.RandomState(0), np.random.RandomState(0)]
    one, two = (fitted(clone(kind).set_params(max_iter=5, random_state=state), data()) for state in states)
    assert bits(one) == bits(two)
    made = [str(model.report_).partition("\nseconds")[0] for model in (one, two)]
    assert made[0] == made[1]
    if name == "BernoulliMixture":
        assert one.purity_.equals(two.purity_)
    once = np.random.RandomState(0)
    once.randint(2**31)
    assert states[0].randint(2**31) == once.randint(2**31)
    assert one._seed() == one._seed()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.PCG64])
def test_any_generator_gives_a_seed_of_its_own_to_every_fit(make):
    state, rows = make(0), answers()
    first, second = (LatentClass(3, init="random", max_iter=3, random_state=state).fit(rows) for _ in range(2))
    assert bits(first) != bits(second)
    again = LatentClass(3, init="random", max_iter=3, random_state=make(0)).fit(rows)
    assert bits(first) == bits(again)
    assert first._settings() == again._settings() != second._settings()  # what a checkpoint belongs to
    assert pickle.loads(pickle.dumps(first))._seed() == first._seed() != second._seed()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (BernoulliMixture(binarize=float("nan")), "binarize must be a finite number or None, got nan"),
        (DawidSkene(method=["auto"]), r"name of a method, got \['auto'\]"),
        (DawidSkene(memory="4GB"), "memory must be a number of bytes >= 0 or None, got '4GB'"),
        (LatentClass(init=np.ones((2, 2))), "init must be 'auto'"),
        (LatentClass(1, init="spae"), "fitted LatentClass, got 'spae'"),
        (LatentClass(bins=2.5), r"bins must be an int or None, got 2\.5"),
        (PairMatrix(rounds=1.5), r"rounds must be a number, such as \d+, got 1\.5"),
        (TopicModel(smoothing=("a", "b")), r"smoothing must be 'auto' or two positive numbers"),
    ],
    ids=lambda part: "" if isinstance(part, str) else type(part).__name__,
)
def test_odd_settings_get_one_sentence(model, sentence):
    with pytest.raises(DataError, match=sentence):
        model.fit(np.eye(4))


@pytest.mark.parametrize("name", ["BernoulliMixture", "DawidSkene", "LatentClass", "TopicModel"])
def test_warnings_point_at_the_line_that_fits(name):
    model, data = CASES[name]
    with pytest.warns(ConvergenceWarning) as told:
        clone(model).set_params(max_iter=1, tol=1e-12).fit(data())
    assert {one.filename for one in told if one.category is ConvergenceWarning} == {__file__}


def test_public_names_are_exported_and_documented():
    for name in latentfit.__all__:
        value = getattr(latentfit, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{name} has no docstring"
    assert set(latentfit.__all__) <= set(dir(latentfit))
    with pytest.raises(AttributeError, match="has no attribute 'Dawid'"):
        _ = latentfit.Dawid


def test_public_modules_are_there_when_asked_for():
    code = "import latentfit; print([getattr(latentfit, name).__name__ for name in latentfit._MODULES])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([f"latentfit.{name}" for name in latentfit._MODULES])
    model, data = CASES["DawidSkene"]
    assert type(clone(model).fit(data()).report_) is FitReport


def test_import_is_light():
    """`import latentfit` pulls in none of the heavy dependencies, nor does the type of `report_`."""
    code = "import latentfit, sys; print(latentfit.DataError.__name__); "
    code += "print([m for m in ('numpy', 'sklearn', 'pyarrow', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["DataError", "[]"]


def modules_with_examples():
    for module in pkgutil.walk_packages(latentfit.__path__, "latentfit."):
        if not any(part in module.name for part in (".cli", ".reproduce", ".libkernels")):
            yield module.name


@pytest.mark.parametrize("name", ["latentfit", *modules_with_examples()])
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=options).failed == 0
