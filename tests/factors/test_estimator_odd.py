"""Odd data at the fourth door: what cannot be known is doubted, what cannot be read is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import ConvergenceWarning

from latentfit import Admixture, BinaryFactors, MixtureFractions, load
from latentfit.cli.main import main
from latentfit.core import frames
from latentfit.core.errors import DataError
from latentfit.core.matrix import NamedMatrix, read_named_matrix
from latentfit.simulate import binary_factors

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_features_far_from_zero_are_not_trusted():
    X = binary_factors(3_000, m=8, d=3, sigma=0.1, random_state=1).X
    assert BinaryFactors().fit(X).report_.verdict == "ok"
    assert "subtract a constant" in " ".join(BinaryFactors().fit(X + 1e7).report_.reasons)


def test_converged_means_convergence_in_the_full_space():
    X = binary_factors(1_000, m=30, d=4, sigma=0.8, random_state=0).X
    model = BinaryFactors(4).fit(X)
    assert model.converged_
    assert model.objective_path_[-1] - model.objective_path_[-2] < model.tol * X.size
    assert (np.diff(model.objective_path_) >= -1e-9 * abs(model.objective_)).all()


def test_alternating_least_squares_says_how_long_it_took():
    X = binary_factors(2_000, m=10, d=3, sigma=0.4, random_state=2).X
    model = BinaryFactors(3, refine="als").fit(X)
    assert model.n_iter_ > 1
    assert model.converged_
    with pytest.warns(ConvergenceWarning, match="alternating least squares stopped at max_iter=1"):
        assert not BinaryFactors(3, refine="als", max_iter=1).fit(X).converged_
    enough = BinaryFactors(3, refine="als", max_iter=model.n_iter_).fit(X)
    assert (enough.n_iter_, enough.converged_) == (model.n_iter_, True), "it stood still in the last pass allowed"
    every = BinaryFactors(3, refine="als", max_iter=40, tol=0.0).fit(X)
    assert (every.n_iter_, every.converged_) == (40, False)
    np.testing.assert_array_equal(every.components_, model.components_)


@pytest.mark.parametrize("refine", ["em", "wls", "als"])
def test_max_iter_zero_keeps_the_initial_parameters(refine):
    X = binary_factors(500, m=10, d=3, sigma=0.4, random_state=2).X
    start, kept = (BinaryFactors(3, refine=one, max_iter=0).fit(X) for one in (None, refine))
    np.testing.assert_array_equal(kept.components_, start.components_)
    assert kept.n_iter_ == 0


def test_the_second_em_run_for_a_baseline_respects_max_iter():
    X = binary_factors(500, m=10, d=3, sigma=0.4, random_state=0).X + 3.0
    model = BinaryFactors(4, max_iter=9, tol=0.0).fit(X)
    assert model.n_iter_ == 9
    assert "always on" in " ".join(BinaryFactors(4).fit(X).report_.notes)


def test_people_without_informative_calls_are_refused_and_equal_people_not_trusted():
    rng = np.random.default_rng(0)
    calls = rng.binomial(2, rng.uniform(0.1, 0.9, (30, 50))).astype(float)
    calls[3] = np.nan
    with pytest.raises(DataError, match="person 3 has no call at any SNP used by the fit"):
        Admixture(2).fit(np.c_[calls, np.zeros(30)])
    assert Admixture(2).fit(np.ones((10, 5), int)).report_.verdict != "ok"


def test_tensor_initialisations_and_refits_use_the_same_objective():
    rng = np.random.default_rng(0)
    calls = rng.binomial(2, rng.dirichlet([0.3, 0.3], 60) @ rng.uniform(0.05, 0.95, (2, 200)))
    assert -200 < Admixture(2, init="tensor").fit(calls).objective_ <= 0  # squares, as of every least-squares fit


def test_as_many_parts_as_samples_explain_nothing():
    rng = np.random.default_rng(0)
    assert MixtureFractions(12).fit(rng.random((12, 60))).report_.verdict == "not identifiable"
    assert MixtureFractions(2).fit(np.zeros((10, 5))).report_.verdict != "ok"


def test_a_sliced_index_names_people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.binomial(2, 0.5, (40, 30)))[::2]
    assert Admixture(1).fit(frame).samples_.tolist()[:3] == ["0", "2", "4"]


@pytest.mark.parametrize("model", [BinaryFactors(1), Admixture(1), MixtureFractions(1)])
def test_names_twice_and_negative_seeds_are_refused(model):
    twice = pd.DataFrame(np.eye(6)[:, :2], columns=["a", "a"])
    for frame in (twice, pa.table([pa.array([0, 1] * 3)] * 2, ["a", "a"])):
        with pytest.raises(DataError, match="two columns with the name 'a'"):
            model.fit(frame)
    with pytest.raises(DataError, match="random_state must be None, an int >= 0 or a generator, got -1"):
        model.set_params(random_state=-1).fit(np.random.default_rng(0).integers(0, 2, (20, 6)).astype(float))


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    asked = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.asked += 1
        return str.__eq__(self, other)


def test_a_repeated_name_is_found_in_linear_time():
    """40,000 names took 17 seconds when each was compared with all before it."""
    names = [Counted(f"cg{n}") for n in range(3_000)]
    names[-1] = Counted(names[-2])
    rows = NamedMatrix(np.zeros((3_000, 1)), tuple(names), ("a",))
    Counted.asked = 0
    with pytest.raises(DataError, match="the table has the row 'cg2998' twice; give every row a name of its own"):
        read_named_matrix(rows)
    assert "two columns with the name 'cg2998'" in str(frames._repeated(names))
    assert Counted.asked < 10 * len(names)


def test_a_negative_seed_is_bad_usage(capsys):
    assert main(["factors", "none.csv", "--seed", "-1"]) == 2


def test_text_among_numbers_is_reported_with_its_row():
    rng = np.random.default_rng(0)
    words = [f"{value:.3f}" for value in rng.random(20)]
    words[6] = "n.d."
    frame = pd.DataFrame({"a": words, "b": rng.random(20)})
    with pytest.raises(DataError, match=r"feature 'a' holds 'n\.d\.' in row 7, no number"):
        BinaryFactors(1).fit(frame)
    with pytest.raises(DataError, match=r"column 'a' of .* holds 'n\.d\.' in row 7, no number"):
        MixtureFractions(2).fit(frame)
    with pytest.raises(DataError, match=r"SNP 'a' holds 'n\.d\.' in row 7, no number"):
        Admixture(2).fit(frame)


def test_everyone_has_a_name_of_their_own(tmp_path, capsys):
    path = tmp_path / "panel.csv"
    path.write_text("sample,rs1,rs2\nann,0,1\nbob,1,2\nann,2,0\n")
    assert main(["admixture", str(path), "--out", str(tmp_path / "out")]) == 3
    assert "the person 'ann' is in rows 1 and 3" in capsys.readouterr().err
    path.write_text("sample,rs1,rs2\nann,0,1\n,1,2\n")
    assert main(["admixture", str(path), "--out", str(tmp_path / "out")]) == 3
    assert "the person in row 2 has no name" in capsys.readouterr().err


def test_features_that_never_change_keep_their_value(tmp_path):
    X = np.c_[binary_factors(800, m=6, d=2, sigma=0.1, random_state=1).X, np.full(800, 7.5)]
    model = BinaryFactors(2).fit(X)
    model.save(tmp_path / "model.latent")
    for fitted in (model, load(tmp_path / "model.latent")):
        assert (fitted.inverse_transform([[1, 0]])[:, 6] == 7.5).all()
        assert (np.asarray(fitted.sample(5)["6"]) == 7.5).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_on_in_half_a_percent_of_many_rows_is_found(seed):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(4, 12))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    h = rng.random((20_000, 4)) < np.r_[0.005, rng.uniform(0.15, 0.45, 3)]
    model = BinaryFactors(4).fit(h @ W + 0.2 * rng.normal(size=(20_000, 12)))
    error = ((W[:, None] - model.components_) ** 2).sum(axis=2).min(axis=1)
    assert error.max() < 0.05


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_values_whose_third_power_overflows_are_refused(unit):
    with pytest.raises(DataError, match="give other units"):
        BinaryFactors(2).fit(unit * binary_factors(50, m=5, d=2, random_state=0).X)
