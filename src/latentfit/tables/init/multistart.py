"""The initialisations of latent classes, how many there are, and the multi-start between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from latentfit.core.em import EMResult
from latentfit.core.mixture.em import quasi_newton, table_steps
from latentfit.core.mixture.init import Sample, moment_inits, random_init
from latentfit.core.mixture.merge_init import merged_inits
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Candidate, MultiStart, Selected, multistart, successive_halving
from latentfit.core.table.table import Table
from latentfit.engine.memory import Sums

ROUNDS = (4, 6)
"""Iterations of the rounds after which the better half of the initialisations stays, on samples of long tables."""
MIN_INIT = 4
"""Initialisations of a table that is costly: two from moments where there are some, two by merging."""
MOST = 48
"""Initialisations of a table that costs next to nothing."""
INIT_WORK = 6_000_000
"""Rows × columns × classes over all initialisations: between the two, so many as this allows."""
LAST_GAIN = 0.01
"""Part of `tail_gain` below which a quasi-Newton step is the last."""
RANDOM_RUNS = 2
"""Random initialisations to every one by merging, after the first four."""


def n_init_for(table: Table, n_components: int) -> int:
    """How many initialisations ``n_init="auto"`` means: many where a pass is cheap, four where it is not."""
    work = max(table.n_rows * table.n_columns * n_components, 1)
    return 1 if n_components == 1 else int(np.clip(INIT_WORK // work, MIN_INIT, MOST))


def table_inits(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None, n_init: int = MIN_INIT
) -> list[tuple[str, Mixture]]:
    """Named initialisations: two by merging, two from moments where there are some, then random ones and merged ones.

    Merged classes are the best single one, random ones find optima that merging misses (docs/guide/tables.md).
    """
    return list(islice(_pool(sample, n_components, rng, n_jobs), n_init))


def _pool(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None
) -> Iterator[tuple[str, Mixture]]:
    yield from merged_inits(sample, n_components, rng, n_jobs)
    yield from moment_inits(sample, n_components, rng)
    number = 0
    while True:
        for name, merged in merged_inits(sample, n_components, rng, n_jobs):
            number += 1
            for k in range(RANDOM_RUNS):
                yield f"random {RANDOM_RUNS * (number - 1) + k + 1}", random_init(sample.table, n_components, rng)
            yield f"{name} {(number + 1) // 2 + 1}", merged


def select_by_halving(
    sample: Sample,
    inits: list[tuple[str, Mixture]],
    smoothing: float,
    n_jobs: int | None,
    **em_options: Any,
) -> Selected[Mixture, Sums]:
    """The best of the initialisations on the sample's rows; the better half stays each time, and one goes on."""
    steps = table_steps(sample.table, inits[0][1].n_classes, smoothing, n_jobs)
    return successive_halving(
        [Candidate(name, steps, init) for name, init in inits], rounds=ROUNDS, accelerate=True, **em_options
    )


def select_by_multistart(
    sample: Sample,
    inits: list[tuple[str, Mixture]],
    smoothing: float,
    n_jobs: int | None,
    **em_options: Any,
) -> MultiStart[Mixture, Sums]:
    """The best of the initialisations on the sample's rows, several of them run until they have converged."""
    steps = table_steps(sample.table, inits[0][1].n_classes, smoothing, n_jobs, rooted=True)

    def finish(found: EMResult[Mixture, Sums], max_iter: int) -> EMResult[Mixture, Sums]:
        return quasi_newton(steps, found, max_iter, LAST_GAIN * em_options["tail_gain"])

    return multistart([Candidate(name, steps, init) for name, init in inits], finish=finish, **em_options)
