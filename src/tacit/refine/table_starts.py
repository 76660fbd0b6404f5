"""The default starts of latent classes, and the race between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.engine.memory import Sums
from tacit.engine.mixture import Mixture
from tacit.factor.table_pool import Sample, moment_starts
from tacit.refine.merge_down import merged_starts
from tacit.refine.starts import Entrant, Raced, halve
from tacit.refine.table_prior import table_steps

ROUNDS = (4, 6)
"""Passes of the rounds after which the better half of the starts stays."""


def table_starts(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None
) -> list[tuple[str, Mixture]]:
    """Named starts: two from moments where there are some, two by merging (evidence: docs/models/tables.md)."""
    merged = merged_starts(sample, n_components, rng, n_jobs)
    return [*moment_starts(sample, n_components, rng), *merged]


def race_starts(
    sample: Sample,
    starts: list[tuple[str, Mixture]],
    smoothing: float,
    n_jobs: int | None,
    **climb: Any,
) -> Raced[Mixture, Sums]:
    """The best of the starts on the sample's rows."""
    steps = table_steps(sample.table, starts[0][1].n_classes, smoothing, n_jobs)
    return halve([Entrant(name, steps, start) for name, start in starts], rounds=ROUNDS, accelerate=True, **climb)
