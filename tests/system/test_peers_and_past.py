"""Stored results of peers, and models stored by every version of Latentfit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import latentfit
from latentfit.core.mixture.parameters import stack_confusions
from latentfit.core.registry import ESTIMATORS
from latentfit.engine.memory import MemoryEngine
from latentfit.labels.data import assemble
from latentfit.simulate import crowd

HERE = Path(__file__).parent
STORED = sorted((HERE / "models").glob("*.tacit"))


@pytest.mark.parametrize("number", range(3))
def test_plain_em_reaches_crowdkits_optimum(number):
    fit = json.loads((HERE / "crowdkit_dawid_skene.json").read_text())["fits"][number]
    made = crowd(**fit["settings"])
    model = latentfit.DawidSkene(method="majority-em", smoothing=0, tol=1e-13, max_iter=20_000).fit(made.labels)
    np.testing.assert_allclose(model.prior_, fit["prior"], atol=1e-4)
    theirs = np.zeros_like(model.confusion_)
    for (worker, given), row in zip(fit["index"], fit["errors"], strict=True):
        theirs[worker, :, given] = row
    np.testing.assert_allclose(model.confusion_, theirs, atol=1e-4)
    order = np.argsort(model.tasks_["task"].to_numpy())
    assert model.labels_[order].tolist() == fit["labels"]
    columns = [made.labels[name].to_numpy().astype(np.int32) for name in ("task", "worker", "label")]
    coded = assemble(*columns, np.arange(made.truth.num_rows), np.arange(len(theirs)), np.arange(len(model.prior_)))
    at_theirs = MemoryEngine(coded, 1).sums(stack_confusions(np.array(fit["prior"]), theirs)).log_likelihood
    assert model.log_likelihood_ == pytest.approx(at_theirs, rel=1e-6)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_models_of_every_version_load_and_predict_the_same(path):
    expected = json.loads(path.with_suffix("").with_name(path.name.removesuffix(".tacit") + ".json").read_text())
    model = latentfit.load(path)
    labels = pd.DataFrame(expected["labels"])
    if "predicted" in expected:
        assert model.predict(labels).tolist() == expected["predicted"]
    if "probabilities" in expected:
        np.testing.assert_allclose(model.predict_proba(labels), expected["probabilities"], rtol=1e-12)
    if "transformed" in expected:  # matrix products: other BLAS builds add in other orders
        np.testing.assert_allclose(model.transform(labels), expected["transformed"], rtol=1e-9, atol=1e-12)
    if "reconstructed" in expected:
        np.testing.assert_allclose(np.asarray(model.reconstruct()), expected["reconstructed"], rtol=1e-9, atol=1e-15)
    assert model.report_.verdict in ("ok", "caution", "not identifiable")
    if path.name.startswith("DawidSkene"):
        assert model.workers_.num_rows == 6


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_this_version_has_a_stored_model(name):
    assert any(path.name.startswith(f"{name}-{latentfit.__version__}.") for path in STORED)
