"""Features whose noise differs: the number of switches, weights and noise come back, on the features' own scale."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BinaryFactors, load
from latentfit.core.assign import match_classes
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.factors.select import determined, feature_variances, unequal_noise
from latentfit.simulate import binary_factors


def noisy(seed=0, n=3000):
    """Four switches behind twenty features, three of them ten times as noisy as the others."""
    data = binary_factors(n, m=20, d=4, sigma=0.1, random_state=seed)
    return data, data.X + np.where(np.arange(20) < 3, 1.0, 0.0) * np.random.default_rng(seed).standard_normal((n, 20))


@pytest.mark.parametrize("seed", range(3))
def test_noisy_features_are_no_switches(seed):
    data, X = noisy(seed)
    model = BinaryFactors(feature_noise="unequal").fit(X)
    assert model.n_components_ == 4
    assert model.report_.verdict == "ok"
    order = match_classes(-((data.W[:, None] - model.components_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.components_[order], data.W, atol=0.15)
    np.testing.assert_allclose(model.feature_noise_, np.where(np.arange(20) < 3, np.sqrt(1.01), 0.1), rtol=0.08)
    assert model.noise_ == pytest.approx(np.exp(np.log(model.feature_noise_).mean()))
    assert model.score(X) == pytest.approx(model.log_likelihood_ / len(X))
    assert (model.predict(X)[:, order] == data.h).mean() > 0.99


@pytest.mark.parametrize("d", [None, 1, 2])
def test_noise_alone_is_not_trusted_to_be_a_switch(d):
    rng, passed = np.random.default_rng(7), 0
    for _ in range(10):
        X = rng.standard_normal((500, 8)) * np.linspace(0.5, 2, 8)
        reasons = BinaryFactors(d, feature_noise="unequal", tol=1e-5).fit(X).report_.reasons
        passed += not any("does not rise above what noise alone makes" in reason for reason in reasons)
    assert passed <= 1  # one in a hundred does


def test_a_switch_too_many_is_not_trusted():
    _, X = noisy()
    report = BinaryFactors(5, feature_noise="unequal").fit(X).report_
    assert report.verdict != "ok"
    assert any("does not rise above what noise alone makes" in reason for reason in report.reasons)


def test_more_switches_than_are_looked_for_are_named_as_the_reason():
    X = np.random.default_rng(0).standard_normal((600, 14)) @ np.random.default_rng(1).standard_normal((14, 30))
    X += 0.1 * np.random.default_rng(2).standard_normal(X.shape)
    with pytest.raises(NotIdentifiableError, match=r"12 switches do not explain the 30 features .* n_components"):
        BinaryFactors(feature_noise="unequal").fit(X)


def test_the_verdict_of_equal_noise_suggests_unequal_noise():
    _, X = noisy()
    report = BinaryFactors().fit(X).report_
    assert report.verdict != "ok"
    (reason,) = [check.reason for check in report.checks if check.name == "equal_noise"]
    assert reason.startswith("Noise differs between features")
    assert "4 switches explain what 7 were needed for" in reason
    assert "fit again with feature_noise='unequal' (--feature-noise unequal)" in reason
    equal = binary_factors(3000, m=20, d=4, sigma=0.1, random_state=0).X
    assert "unequal_noise" not in BinaryFactors().fit(equal).report_.quantities


def test_scales_of_features_do_not_matter():
    _, X = noisy()
    scale = np.geomspace(0.1, 30, 20)
    one, other = (BinaryFactors(4, feature_noise="unequal").fit(rows) for rows in (X, X * scale))
    np.testing.assert_allclose(other.components_, one.components_ * scale, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other.feature_noise_, one.feature_noise_ * scale, rtol=1e-4)


def test_files_engines_and_samples_know_the_scale(tmp_path):
    _, X = noisy()
    model = BinaryFactors(4, feature_noise="unequal", max_iter=10).fit(X)
    streamed = BinaryFactors(4, feature_noise="unequal", max_iter=10, engine="stream").fit(X)
    assert np.array_equal(streamed.components_, model.components_)
    model.save(tmp_path / "model.latent")
    again = load(tmp_path / "model.latent")
    assert np.array_equal(again.transform(X), model.transform(X))
    assert np.array_equal(again.feature_noise_, model.feature_noise_)
    drawn = np.asarray(model.sample(4000, random_state=0))
    np.testing.assert_allclose(drawn.std(axis=0), X.std(axis=0), rtol=0.1)


def test_variances_are_a_fixed_point_of_the_likelihood():
    """At the maximum the diagonal of L Lᵀ + Ψ is that of M."""
    rng = np.random.default_rng(0)
    L, noise = rng.standard_normal((12, 2)), rng.uniform(0.2, 3.0, 12)
    M = L @ L.T + np.diag(noise)
    np.testing.assert_allclose(feature_variances(M, 2), noise, rtol=1e-2)
    found = unequal_noise(M, 5_000, most=5)
    assert found.count.d == 2
    assert unequal_noise(M, 5_000, most=1) is None
    assert determined(12, 7)
    assert not determined(12, 8)


def test_noise_that_cannot_be_estimated_raises_an_error():
    _, X = noisy()
    with pytest.raises(NotIdentifiableError, match="each of 20 features cannot be estimated beside 15 switches"):
        BinaryFactors(15, feature_noise="unequal").fit(X)
    with pytest.raises(NotIdentifiableError, match="in 15 rows; bring more rows or features"):
        BinaryFactors(feature_noise="unequal").fit(X[:15])
    with pytest.raises(DataError, match="feature_noise must be one of equal, unequal, got 'free'"):
        BinaryFactors(feature_noise="free").fit(X)
    with pytest.raises(DataError, match=r"noise must be None with feature_noise='unequal', got 0\.1"):
        BinaryFactors(feature_noise="unequal", noise=0.1).fit(X)
