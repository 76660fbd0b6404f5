"""The square root of all co-occurrences without a pair list: least squares weighted by co-label counts.

Paper     Ibrahim & Fu 2022, criterion (9) with the square of each term weighted by |S_mj|
Needs     a co-label graph with odd cycles in every component that is to be determined
Promises  to two digits, a root whose every U_m minimises Σ_j |S_mj| ‖R̂_mj − U_m U_jᵀ‖² + ρ ‖U_m − Ū‖² given the others,
          Ū the mean worker by labels
Differs   with weights |S_mj| the sums over pairs collapse to sums over tasks:
              Σ_j |S_mj| R̂_mj U_j = Σ_{n ∋ m} e_{x_m(n)} (t_n − u_m(n)),   t_n = Σ_{j ∋ n} U_j[x_j(n), :]
              Σ_j |S_mj| U_jᵀU_j  = Σ_{n ∋ m} (T_n − U_mᵀU_m),             T_n = Σ_{j ∋ n} U_jᵀU_j
          so a sweep costs labels · K² and never sees a pair. All workers move at once, halfway: moving
          the whole way makes the scale of U swing (c → 1/c), halfway is Newton's square root of it. The
          ridge ρ draws workers with few labels to the crowd's mean (rare classes need it). Robust weights
          gave no consistent gain after EM in the prototypes; `robust.py` has them.

Symbols   paper  here    shape       meaning
          U      root    (M·K, K)    stacked U_m
          x_m(n) cells   (labels,)   m·K + label, the row of U that a label picks
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from latentfit.core.kernels import Floats
from latentfit.labels.data.labels import Labels
from latentfit.labels.init.votes import label_matrix

RIDGE = 20.0
"""Pull towards the mean worker, in co-labels: U of a rare class is noise without it."""
SETTLED = 1e-2
"""Relative change of the last sweep: an initialisation of EM needs two digits, not eight."""
LARGEST = 1.0
"""D of (9b): ‖A_m D^½‖_F ≤ 1 for every confusion matrix and prior."""


def fit_root(labels: Labels, init: Floats, *, max_sweeps: int = 30) -> tuple[Floats, int]:
    """Stacked square root (M·K, K) of criterion (9), weighted by co-labels, from `init`, and the sweeps it took."""
    n_workers, n_classes = labels.n_workers, labels.n_classes
    cells = label_matrix(labels)
    ones = np.ones(labels.n_labels)
    presence = sp.csr_array((ones, labels.workers, labels.offsets), shape=(labels.n_rows, n_workers))
    cells_t, presence_t = cells.T.tocsr(), presence.T.tocsr()
    cell_counts = np.bincount(labels.cell_of(), minlength=n_workers * n_classes)
    counts = np.bincount(labels.workers, minlength=n_workers).astype(np.float64)
    unlabelled = (counts == 0)[:, None, None]  # keep their initial value, not part of the criterion
    root, sweeps = init, 0
    while sweeps < max_sweeps:
        sweeps += 1
        blocks = root.reshape(n_workers, n_classes, n_classes)
        grams = np.einsum("mak,mal->mkl", blocks, blocks)  # U_mᵀU_m
        task_grams = presence @ grams.reshape(n_workers, -1)  # T_n
        right = (presence_t @ task_grams).reshape(grams.shape) - counts[:, None, None] * grams
        left = cells_t @ (cells @ root) - cell_counts[:, None] * root  # via t_n
        mean = np.einsum("m,mak->ak", counts, blocks) / max(counts.sum(), 1.0)
        ridged = right + RIDGE * np.eye(n_classes)
        target = left.reshape(blocks.shape) + RIDGE * mean
        solved = np.linalg.solve(ridged, target.transpose(0, 2, 1)).transpose(0, 2, 1)
        norms = np.sqrt(np.square(solved).sum(axis=(1, 2), keepdims=True))
        solved = solved / np.maximum(norms / LARGEST, 1.0)  # (9b)
        step = np.where(unlabelled, 0.0, (solved - blocks) / 2)
        root = (blocks + step).reshape(root.shape)
        if np.square(step).sum() <= SETTLED**2 * np.square(blocks[~unlabelled[:, 0, 0]]).sum():
            break
    return root, sweeps
