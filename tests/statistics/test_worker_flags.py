"""What a worker's flag says, on workers of whom it is known."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.data.labels import Labels
from tacit.simulate import crowd, draw_confusions

K, M, N = 3, 30, 600


def flags_of(labels: Labels) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(tacit.DawidSkene(random_state=0).fit(labels).workers_["flag"].to_pylist())


@pytest.fixture(scope="module")
def odd_crowd() -> Labels:
    """Skilled workers, but 0 guesses, 1 always says class 2, 2 misleads, 3 and 4 say the same."""
    rng = np.random.default_rng(0)
    confusion = draw_confusions(M, K, "skilled", (0.65, 0.9), rng)
    confusion[0] = 1 / K
    confusion[1] = np.eye(K)[2]
    confusion[2] = (1 - np.eye(K)) / (K - 1)
    labels = crowd(N, M, K, labels_per_task=10, confusion=confusion, random_state=rng).coded()
    given, task = labels.given.copy(), labels.task_of()
    source = dict(zip(task[labels.workers == 3], given[labels.workers == 3], strict=True))
    for at in np.flatnonzero(labels.workers == 4):
        given[at] = source.get(task[at], given[at])
    return replace(labels, given=given)


def test_flags(odd_crowd):
    flags = flags_of(odd_crowd)
    assert flags[:5].tolist() == ["guessing", "constant", "adversarial", "copies 4", "copies 3"]
    assert (flags[5:] == "").sum() >= M - 6


def test_few_labels(odd_crowd):
    mine = np.flatnonzero(odd_crowd.workers == 9)
    kept = np.ones(odd_crowd.n_labels, bool)
    kept[mine[6:]] = False
    flags = flags_of(odd_crowd.subset(kept))
    assert flags[9] == "few labels"


def test_a_right_worker_with_tasks_of_one_class_is_not_constant():
    rng = np.random.default_rng(1)
    confusion = draw_confusions(20, 2, "skilled", (0.8, 0.9), rng)
    data = crowd(400, 20, 2, labels_per_task=8, confusion=confusion, prior=np.array([0.8, 0.2]), random_state=rng)
    labels = data.coded()
    true = data.answers[labels.task_of()]
    kept = (labels.workers != 0) | (true == 0)
    given = np.where(labels.workers == 0, 0, labels.given)  # worker 0 sees class 0 only, and is always right
    flags = flags_of(replace(labels, given=given.astype(np.int32)).subset(kept))
    assert flags[0] == ""


def test_honest_crowds_are_hardly_flagged():
    flags = [
        flag
        for seed in range(20)
        for flag in flags_of(crowd(400, 20, 3, labels_per_task=6, skill=(0.6, 0.95), random_state=seed).coded())
    ]
    assert np.mean([flag != "" for flag in flags]) <= 0.01
    assert not any(flag.startswith("copies") or flag == "constant" for flag in flags)
