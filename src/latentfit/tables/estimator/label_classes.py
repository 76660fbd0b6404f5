"""Latent classes that belong to labels: stacking those of all labels, asking them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentfit.core.em import Refined
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.mixture.row_init import marginal_table
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.tables.data import Owners, label_counts, labels_of, without_label

LABEL_SMOOTHING = 0.5
"""Part of a pseudo-row per label shaped like all rows; chosen among 0, 0.25, 0.5, 1 on three halvings of six tables,
scored on the very halves they left. The log-likelihood of new labels rises where rows are few (Zoo −0.96 to −0.14 nats,
Splice −0.19 to −0.15) and falls a little on Car (−0.144 to −0.149) and King-Rook (−0.150 to −0.153); accuracy moves by
0.2 points or less, but on Zoo, where half the table is 51 rows, it fell from 94.8 % to 93.5 %."""

Fit = Refined[Mixture, Sums]


def stack(fits: Sequence[Fit], labels: Owners, seen: Table, smoothing: float) -> tuple[Mixture, Owners]:
    """The classes of some labels side by side, and which label each belongs to.

    A label's own prior is shaped like its own rows, so a category it never met would rule it out. Part of a pseudo-row
    shaped like the rows of all labels, `LABEL_SMOOTHING` times `smoothing` of it, keeps it possible.
    """
    counts, first = label_counts(seen)[labels], fits[0].params.first
    shares = counts / counts.sum()
    weights = [fit.params.weights * share for fit, share in zip(fits, shares, strict=True)]
    pinch = LABEL_SMOOTHING * smoothing * marginal_table(without_label(seen))[:, None]
    tables = [fit.params.table * count + pinch for fit, count in zip(fits, counts, strict=True)]
    owners = np.repeat(labels, [fit.params.n_classes for fit in fits])
    return Mixture(np.concatenate(weights), normalise_tables(np.hstack(tables), first), first), owners


def joint_log_likelihood(mixture: Mixture, owners: Owners, table: Table, n_jobs: int | None) -> float:
    """log P(columns, label) of all rows, in nats."""
    total = 0.0
    for label in np.unique(owners):
        own = Mixture(mixture.weights[owners == label], mixture.table[:, owners == label], mixture.first)
        rows = without_label(table.take(labels_of(table) == label))
        total += float(rows.each_weight() @ posterior_of(MemoryEngine(rows, n_jobs), own)[1])
    return total


def label_beliefs(mixture: Mixture, owners: Owners, table: Table, n_labels: int, n_jobs: int | None) -> Floats:
    """P(label | what a row shows) (n, L)."""
    posterior, _ = posterior_of(MemoryEngine(table, n_jobs), mixture)
    beliefs = np.zeros((len(posterior), n_labels))
    for latent, label in enumerate(owners):  # a matrix product would round one row otherwise than many
        beliefs[:, label] += posterior[:, latent]
    return beliefs
