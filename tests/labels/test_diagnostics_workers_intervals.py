"""The 95 % intervals of worker accuracy cover 93–97 % of the true accuracies, and nearly so in every stratum.

`python tests/labels/test_diagnostics_workers_intervals.py 2000` prints the coverage over 2 000 fits.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import latentfit
from latentfit.core.errors import LatentfitError
from latentfit.labels.diagnostics.workers import worker_quality
from latentfit.simulate import Crowd, crowd

ENOUGH_LABELS = 10


def any_crowd(seed: int) -> Crowd:
    """Crowds of many shapes, some with guessers and misleaders, some with a long tail of workers."""
    rng = np.random.default_rng([3, seed])
    n_classes, n_workers = int(rng.integers(2, 6)), int(rng.integers(10, 60))
    each = int(rng.integers(3, min(n_workers, 11)))
    return crowd(
        int(rng.integers(100, 500)),
        n_workers,
        n_classes,
        labels_per_task=each,
        kind=("skilled", "one-coin", "mixed")[seed % 3],
        skill=(0.55, 0.95),
        activity=float(rng.choice([0.0, 0.8])),
        prior=rng.dirichlet(np.full(n_classes, 5.0)),
        random_state=rng,
    )


def intervals(n_fits: int, first: int = 0) -> dict[str, np.ndarray]:
    """True accuracy, interval and number of labels of all workers with enough labels."""
    columns: list[list[np.ndarray]] = [[], [], [], []]
    for seed in range(first, first + n_fits):
        data = any_crowd(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some crowds are poor on purpose; their verdict is not the subject
            workers = latentfit.DawidSkene(random_state=0, n_jobs=1).fit(data.labels).workers_
        n_labels = workers["n_labels"].to_numpy()
        kept = n_labels >= ENOUGH_LABELS
        truth = data.accuracy[workers["worker"].to_numpy()]
        found = truth, workers["accuracy_low"].to_numpy(), workers["accuracy_high"].to_numpy(), n_labels
        for column, values in zip(columns, found, strict=True):
            column.append(values[kept])
    return dict(zip(("truth", "low", "high", "n_labels"), map(np.concatenate, columns), strict=True))


def covered(found: dict[str, np.ndarray]) -> np.ndarray:
    return (found["low"] <= found["truth"]) & (found["truth"] <= found["high"])


def strata(found: dict[str, np.ndarray]) -> Iterator[tuple[str, float, int]]:
    """Coverage by number of labels and by true accuracy."""
    inside = covered(found)
    by_labels, by_truth = (10, 20, 40, 80, 160, 10_000), (0, 0.4, 0.6, 0.7, 0.8, 0.9, 1.01)
    for name, edges in (("n_labels", by_labels), ("truth", by_truth)):
        for low, high in pairwise(edges):
            stratum = inside[(found[name] >= low) & (found[name] < high)]
            yield f"{name} {low}–{high}", float(stratum.mean()), len(stratum)


def test_intervals_cover_the_true_accuracy():
    found = intervals(120, first=10_000)
    assert 0.93 <= covered(found).mean() <= 0.97


@pytest.mark.slow
def test_intervals_cover_in_every_stratum():
    found = intervals(1_200)
    assert 0.93 <= covered(found).mean() <= 0.97
    for name, coverage, size in strata(found):
        assert size > 1_000
        assert 0.92 <= coverage <= 0.98, name


def test_intervals_are_wider_where_workers_err_together():
    """A quarter of the tasks mislead everybody: workers err together, and look better than they are."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    right = np.where(rng.random(400) < 0.25, 0.35, 0.9)  # hard tasks and easy ones, the same for all
    labels = np.where(rng.random((12, 400)) < right, truth, 1 - truth).T
    fitted = latentfit.DawidSkene(n_jobs=1).fit(labels)._fitted
    plain = worker_quality(fitted.evidence.data, fitted.mixture)
    assert fitted.beta < 0.9
    assert fitted.evidence.calibration.weight > 0.95
    assert (fitted.quality.low < plain.low).all()
    assert (fitted.quality.high >= plain.high).all()
    accuracy = (labels == truth[:, None]).mean(axis=0)
    inside = [((q.low <= accuracy) & (accuracy <= q.high)).mean() for q in (plain, fitted.quality)]
    assert inside[1] > inside[0]


def test_too_few_workers_is_an_error_not_an_interval():
    with pytest.raises(LatentfitError):
        latentfit.DawidSkene().fit(crowd(20, 1, 2, labels_per_task=1, random_state=0).labels)


if __name__ == "__main__":
    measured = intervals(int(sys.argv[1]))
    print(f"all: {covered(measured).mean():.4f} of {len(measured['truth']):,} workers")
    for line in strata(measured):
        print("{}: {:.3f} of {:,}".format(*line))
