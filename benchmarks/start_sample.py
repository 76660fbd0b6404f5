"""How many rows should the starts of a long table look at: 20,000 or 50,000?

    python benchmarks/start_sample.py

Tables of 200,000 rows and 20 columns of 10 categories, a fifth of the cells missing, drawn from 10 or 25 classes; each
is fitted from starts made of either number of rows. Log-likelihood, passes over all rows, CPU seconds.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

import latentfit.tables.estimator.latent_class as latent_class
from latentfit import LatentClass

ROWS, COLUMNS, CATEGORIES, MISSING, SEEDS = 200_000, 20, 10, 0.2, 3
WORLDS = {"10 clear classes": (0.5, 10), "10 overlapping": (1.5, 10), "25 overlapping": (1.5, 25)}


def draw(spread: float, n_classes: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    profiles = rng.dirichlet(np.full(CATEGORIES, spread), (n_classes, COLUMNS)).cumsum(axis=2)
    hidden = rng.choice(n_classes, ROWS, p=rng.dirichlet(np.full(n_classes, 2.0)))
    rows = np.empty((ROWS, COLUMNS))
    for n in range(COLUMNS):
        rows[:, n] = (rng.random(ROWS)[:, None] > profiles[hidden, n]).sum(axis=1).clip(0, CATEGORIES - 1)
    rows[rng.random(rows.shape) < MISSING] = np.nan
    return rows


def main() -> None:
    print(f"{'table':<18} {'seed':>4} {'sample':>7} {'log-likelihood':>15} {'passes':>7} {'CPU s':>6}")
    for name, (spread, n_classes) in WORLDS.items():
        for seed in range(SEEDS):
            rows = draw(spread, n_classes, seed)
            for sample in (20_000, 50_000):
                latent_class.SAMPLE_ROWS = sample
                begin = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = LatentClass(n_classes, max_iter=200, n_jobs=1).fit(rows)
                seconds = time.process_time() - begin
                figures = f"{model.log_likelihood_:15.1f} {model.n_iter_:7d} {seconds:6.1f}"
                print(f"{name:<18} {seed:4d} {sample:7d} {figures}", flush=True)


if __name__ == "__main__":
    main()
