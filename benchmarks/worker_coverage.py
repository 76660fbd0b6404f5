"""What the 95 % intervals of worker accuracy cover on real crowds, where the truth is known.

    python benchmarks/worker_coverage.py            # all real crowds, some seconds

A worker's accuracy is the share of its labels that are right, on tasks with a truth; counted are workers with at least
ten such labels, and those with at least a hundred. On simulated crowds the intervals cover what they promise
(`python tests/labels/test_diagnostics_workers_intervals.py 2000`); on real ones workers err together, which no
interval made without truth can know.
"""

from __future__ import annotations

import numpy as np
from known_answers import REAL, real

from latentfit.labels.estimator import CrowdSettings, fit_crowd

LABELS = (10, 100)


def main() -> None:
    print("| crowd | β | " + " | ".join(f"workers with ≥ {n} labels | covered | mean width" for n in LABELS) + " |")
    print("|" + "---|" * (2 + 3 * len(LABELS)))
    total = np.zeros((len(LABELS), 2))
    for name in REAL:
        labels, rows, truth = real(name)
        fitted = fit_crowd(labels, CrowdSettings(n_jobs=1))
        answer = np.full(labels.n_rows, -1)
        answer[rows] = truth
        known = answer[labels.task_of()] >= 0
        right = labels.given[known] == answer[labels.task_of()[known]]
        given = np.bincount(labels.workers[known], minlength=labels.n_workers)
        accuracy = np.bincount(labels.workers[known], right, labels.n_workers) / np.maximum(given, 1)
        low, high = fitted.quality.low, fitted.quality.high
        inside, cells = (low <= accuracy) & (accuracy <= high), []
        for at, least in enumerate(LABELS):
            used = given >= least
            total[at] += inside[used].sum(), used.sum()
            cells += [f"{used.sum()}", f"{inside[used].mean():.0%}", f"{(high - low)[used].mean():.2f}"]
            if not used.any():
                cells[-2:] = "–", "–"
        print(f"| {name} | {fitted.beta:.2f} | " + " | ".join(cells) + " |", flush=True)
    cells = [f"{int(n)} | {covered / n:.0%} | " for covered, n in total]
    print("| all | | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
