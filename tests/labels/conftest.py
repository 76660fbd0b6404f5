"""Fixtures of several files of this folder."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.mixture.parameters import stack_confusions
from latentfit.simulate import crowd


@pytest.fixture(params=[(40, 5, 2), (60, 7, 3), (50, 6, 4)])
def world(request):
    """A small crowd and a mixture that is near, but not at, what made it."""
    n_tasks, n_workers, n_classes = request.param
    data = crowd(n_tasks, n_workers, n_classes, labels_per_task=3.5, random_state=n_classes)
    blurred = 0.9 * data.confusion + 0.1 / n_classes
    weights = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 9.0))
    return data.coded(), stack_confusions(weights, blurred)
