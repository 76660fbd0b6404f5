"""The coherence of topics by its definition."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.topics.data.documents import Documents
from latentfit.topics.diagnostics import coherence


def test_coherence_by_its_definition():
    counts = np.array([[2, 1, 0, 1, 0], [1, 0, 0, 1, 0], [0, 3, 1, 1, 0], [1, 1, 0, 1, 0], [0, 0, 2, 1, 0]], float)
    documents = Documents(sp.csr_array(counts), np.arange(5), np.arange(5))
    topics = np.array([[0.4, 0.3, 0.2, 0.05, 0.05], [0.1, 0.1, 0.1, 0.6, 0.1], [0.0, 0.0, 0.0, 0.0, 1.0]])

    def npmi(i, j):
        single = [(counts[:, k] > 0).mean() for k in (i, j)]
        both = ((counts[:, i] > 0) & (counts[:, j] > 0)).mean()
        return -1.0 if both == 0 else 1.0 if both == 1 else log(both / (single[0] * single[1])) / -log(both)

    found = coherence.npmi_coherence(documents, topics, 3)
    assert coherence.top_words(topics, 3).tolist() == [[0, 1, 2], [3, 0, 1], [4, 0, 1]]
    assert found[0] == pytest.approx((npmi(0, 1) + npmi(0, 2) + npmi(1, 2)) / 3)
    assert found[1] == pytest.approx((npmi(3, 0) + npmi(3, 1) + npmi(0, 1)) / 3)
    assert found[2] == pytest.approx(npmi(0, 1))  # a word that no document holds makes no pair
    assert np.isnan(coherence.npmi_coherence(documents, topics, 1)).all()
    always = Documents(sp.csr_array(np.ones((3, 2))), np.arange(3), np.arange(2))
    assert coherence.npmi_coherence(always, np.array([[0.5, 0.5]]))[0] == 1
    assert documents.matrix.data.max() == 3  # the counts themselves stay
