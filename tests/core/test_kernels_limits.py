"""More hidden causes than the kernels hold are refused in a sentence that says how many fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit import BernoulliMixture, BlockModel, LatentClass, LatentClassClassifier, TopicModel
from latentfit.core.errors import DataError, LatentfitError
from latentfit.core.kernels import WIDEST
from latentfit.core.kernels.belief import MOST_BLOCKS

ROWS = WIDEST + 100
BITS = (np.arange(ROWS)[:, None] >> np.arange(11)) & 1


def ring(nodes: int) -> sp.csr_array:
    """Every node linked with the next."""
    return sp.csr_array(np.roll(np.eye(nodes), 1, axis=1) + np.roll(np.eye(nodes), -1, axis=1))


@pytest.mark.parametrize(
    ("model", "data", "most"),
    [
        (LatentClass(WIDEST + 1), BITS, WIDEST),
        (BernoulliMixture(WIDEST + 1), BITS, WIDEST),
        (TopicModel(WIDEST + 1), sp.csr_array(np.eye(ROWS, dtype=np.int64)), WIDEST),
        (BlockModel(MOST_BLOCKS + 1), ring(MOST_BLOCKS + 50), MOST_BLOCKS),
    ],
)
def test_more_than_fit(model, data, most):
    limit = rf"={most + 1} .*; (give a number from 1 to|ask for) {most}\b|from 1 to {most}\b.*, got {most + 1}"
    with pytest.raises(LatentfitError, match=limit):
        model.fit(data)


def test_classes_of_all_labels_together():
    labels = np.arange(ROWS) % 3
    with pytest.raises(DataError, match=f"n_components must be an int from 1 to {WIDEST} or None, got {WIDEST + 1}"):
        LatentClassClassifier(WIDEST + 1).fit(BITS, labels)
    with pytest.raises(DataError, match="3 labels with n_components=342 or more each: at most 1,024 latent classes"):
        LatentClassClassifier(342).fit(BITS, labels)
    with pytest.raises(DataError, match=r"1,124 labels with n_components=1 or more each: .*; .* are not ids"):
        LatentClassClassifier().fit(np.repeat(BITS, 3, axis=0), np.repeat(np.arange(ROWS), 3))


def test_many_labels_leave_room_for_few_classes_each(monkeypatch):
    monkeypatch.setattr("latentfit.tables.estimator.classifier.WIDEST", 11)  # of four labels two classes each
    labels, rng = np.arange(120) % 4, np.random.default_rng(0)
    model = LatentClassClassifier(random_state=0).fit(rng.integers(0, 2, (len(labels), 6)), labels)
    assert model.selection_["n_components"] == [1, 2]
