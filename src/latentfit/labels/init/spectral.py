"""Confusion matrices from whitened third moments of three groups of workers.

With Z_g the mean label vector of group g on a task and C_g⋄ the group's mean confusion matrix,

    M₂ = E[Z'_a ⊗ Z'_b] = Σ_h w_h μ_h ⊗ μ_h,   M₃ = E[Z'_a ⊗ Z'_b ⊗ Z_c] = Σ_h w_h μ_h ⊗ μ_h ⊗ μ_h,

where μ_h is column h of C_c⋄ and Z'_a, Z'_b are Z_a, Z_b carried over to group c. Whitening by M₂ makes the
components of M₃ orthogonal; the power method finds them. There is no objective: this is a plug-in estimate.

Paper     Zhang, Chen, Zhou & Jordan, "Spectral methods meet EM: a provably optimal algorithm for
          crowdsourcing", JMLR 17 (2016): Algorithm 1, the first stage. The second stage, EM, belongs to the
          estimator. Power method: Anandkumar, Ge, Hsu, Kakade & Telgarsky, "Tensor decompositions for
          learning latent variable models", JMLR 15 (2014), Algorithm 1
Needs     three groups whose mean confusion matrices have rank K and a dominant diagonal; workers independent
          given the class; labels missing at random
Promises  errors of C_i fall like n^-1/2, with a constant that grows with the inverse powers of the smallest
          singular value of E[Z_a ⊗ Z_b] (σ_L) and of the smallest class weight
Differs   of several random partitions the best conditioned is kept (paper: any one); M₂ and the whitened M₃
          are made symmetric, as they are in expectation; μ_h ↔ label is one optimal assignment (paper:
          largest coordinate, which may clash); C_i uses both groups that i is not in (paper: one of them);
          singular moments are inverted on their range only

Symbols   paper       here        shape       meaning
          z_ij        labels                  label of worker i for task j, as an indicator vector
          Z_gj        Z           (3, n, K)   mean label vector of group g on task j, missing counts as zero
          Q̂           whitener    (K, K)      Q̂ᵀ M₂ Q̂ = I
          M₃(Q̂,Q̂,Q̂)  T           (K, K, K)   whitened third moment
          α̂_h, v̂_h    value, vector           robust eigenpairs of T
          C_g⋄, Ŵ     groups, W   (3, K, K), (3, K)
          C_i         A           (M, K, K)   P(i says k | class f), axes (i, k, f)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.tensor.whitened import symmetrised
from latentfit.labels.data import Labels
from latentfit.labels.init.multispa import check_labels_are_classes, floored_mixture
from latentfit.labels.moments import label_matrix

POWER_INITS, POWER_STEPS = 50, 100
"""L and N of the power method: its theorem asks for a polynomial in K initialisations and about log K steps; a tensor
of K³ cells makes both nearly free, so both are generous."""
PARTITIONS = 5
"""Random partitions to choose from: with few labels per task, one in five may leave an indefinite M₂."""
TURNS = ((1, 2, 0), (2, 0, 1), (0, 1, 2))
"""(a, b, c): groups a and b are carried over to group c."""
RANGE = 1e-6
"""Fraction of the largest singular value below which a direction of a moment counts as noise."""


def factor_spectral(labels: Labels, n_classes: int, *, rng: np.random.Generator) -> Mixture:
    """The Dawid–Skene model whose class k is label k; `rng` draws the groups and the initial vectors (Algorithm 1)."""
    check_labels_are_classes(labels.column_offsets, n_classes)
    if labels.n_workers < 3:
        raise NotIdentifiableError(
            f"{labels.n_workers} workers cannot be split in three groups; "
            "the spectral method needs at least three workers"
        )
    group, Z = best_partition(labels, rng)  # step 1
    groups, W = np.zeros((3, n_classes, n_classes)), np.zeros((3, n_classes))
    for a, b, c in TURNS:  # step 2
        T, whitener = whitened_moments(Z[a], Z[b], Z[c])
        groups[c], W[c] = group_confusion(T, whitener, rng)
    A = worker_confusions(labels, group, Z, groups, W)  # step 3
    weights = W / W.sum(axis=1, keepdims=True)
    return floored_mixture(weights.mean(axis=0), A)


def best_partition(labels: Labels, rng: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Of several random partitions in three groups the one whose M₂ are furthest from singular, and its Z."""
    drawn = [rng.permutation(labels.n_workers) % 3 for _ in range(PARTITIONS)]
    means = (group_labels(labels, group) for group in drawn)
    margins = [min(margin(Z, *turn) for turn in TURNS) for Z in means]
    best = drawn[int(np.argmax(margins))]
    return best, group_labels(labels, best)


def margin(Z: Floats, a: int, b: int, c: int) -> float:
    """The smallest eigenvalue of M₂ as a fraction of the largest: negative if noise made it indefinite."""
    values = np.linalg.eigvalsh(second_moment(Z[a], Z[b], Z[c])[0])
    return float(values[0] / values[-1]) if values[-1] > 0 else -np.inf


def group_labels(labels: Labels, group: NDArray[np.intp]) -> Floats:
    """Z (3, n, K): per group and task the sum of label vectors over the number of the group's workers."""
    shape = (3, labels.n_rows, labels.n_classes)
    cell = (group[labels.workers] * shape[1] + labels.task_of()) * shape[2] + labels.given
    counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    return np.asarray(counts / np.bincount(group, minlength=3)[:, None, None])


def second_moment(Za: Floats, Zb: Floats, Zc: Floats) -> tuple[Floats, Floats, Floats]:
    """M₂ (K, K) of group c, and Z'_a and Z'_b (n, K): the other groups' labels carried over to c."""
    n = len(Zc)
    ab, ca, cb = Za.T @ Zb / n, Zc.T @ Za / n, Zc.T @ Zb / n
    carried_a = Za @ (cb @ np.linalg.pinv(ab, rcond=RANGE)).T  # Z'_a = E[Z_c ⊗ Z_b] E[Z_a ⊗ Z_b]⁻¹ Z_a
    carried_b = Zb @ (ca @ np.linalg.pinv(ab.T, rcond=RANGE)).T  # Z'_b = E[Z_c ⊗ Z_a] E[Z_b ⊗ Z_a]⁻¹ Z_b
    M2 = carried_a.T @ carried_b / n
    return (M2 + M2.T) / 2, carried_a, carried_b


def whitened_moments(Za: Floats, Zb: Floats, Zc: Floats) -> tuple[Floats, Floats]:
    """T = M₃(Q̂, Q̂, Q̂) (K, K, K) and Q̂ (K, K) of group c."""
    n = len(Zc)
    M2, carried_a, carried_b = second_moment(Za, Zb, Zc)
    whitener = whiten(M2)
    x, y, z = carried_a @ whitener, carried_b @ whitener, Zc @ whitener  # project first: n rows of K numbers
    T = np.stack([(x[:, [f]] * y).T @ z / n for f in range(x.shape[1])])
    return symmetrised(T), whitener


def whiten(M2: Floats) -> Floats:
    """Q̂ with Q̂ᵀ M₂ Q̂ = I where M₂ is positive; elsewhere as if the direction had the smallest kept size."""
    values, vectors = np.linalg.eigh(M2)
    top = values.max(initial=0.0)
    return np.asarray(vectors / np.sqrt(np.maximum(values, RANGE * top if top > 0 else 1.0)))


def group_confusion(T: Floats, whitener: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """C_c⋄ (K, K) in label order and Ŵ (K,), by unwhitening the eigenpairs of T."""
    size = len(T)
    columns, W = np.zeros((size, size)), np.zeros(size)
    unwhiten = np.linalg.inv(whitener.T)
    for h in range(size):
        value, vector = robust_eigenpair(T, rng)
        T = T - value * np.einsum("i,j,k->ijk", vector, vector, vector)  # deflation
        value = max(value, 1.0)  # w = 1/α² is a probability, so α ≥ 1
        W[h] = value**-2  # ŵ_h = α̂_h⁻²
        columns[:, h] = value * (unwhiten @ vector)  # μ̂_h = (Q̂ᵀ)⁻¹ α̂_h v̂_h
    proportions = np.maximum(columns, 0) / np.maximum(np.abs(columns).sum(axis=0), np.finfo(float).tiny)
    order = match_classes(proportions)
    return columns[:, order], W[order]


def robust_eigenpair(T: Floats, rng: np.random.Generator) -> tuple[float, Floats]:
    """The largest eigenvalue T(v, v, v) reached from random initial vectors by v ← T(I, v, v) / ‖T(I, v, v)‖."""
    size = len(T)
    initial = rng.standard_normal((POWER_INITS, size))
    vectors = initial / np.linalg.norm(initial, axis=1, keepdims=True)
    flat = T.reshape(size, size * size).T
    for _ in range(POWER_STEPS):
        moved = (vectors[:, :, None] * vectors[:, None, :]).reshape(POWER_INITS, -1) @ flat
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        vectors = np.where(length > 0, moved / np.where(length > 0, length, 1), vectors)
    values = np.einsum("ijk,si,sj,sk->s", T, vectors, vectors, vectors, optimize=True)
    best = int(values.argmax())
    return float(values[best]), vectors[best]


def worker_confusions(labels: Labels, group: NDArray[np.intp], Z: Floats, groups: Floats, W: Floats) -> Floats:
    """C_i ∝ {1/n Σ_j z_ij ⊗ Z_aj} {Ŵ C_a⋄ᵀ}⁻¹ with a the two groups i is not in, columns scaled to one."""
    n_workers, size = labels.n_workers, labels.n_classes
    cells = label_matrix(labels)
    A = np.empty((n_workers, size, size))
    for g in range(3):
        cross = (cells.T @ (Z.sum(axis=0) - Z[g])).reshape(n_workers, size, size)[group == g]
        others = [c for c in range(3) if c != g]
        A[group == g] = cross @ np.linalg.pinv(sum(W[c][:, None] * groups[c].T for c in others), rcond=RANGE)
    A = np.maximum(A, 0)
    answers = np.bincount(labels.cell_of(), minlength=n_workers * size).reshape(n_workers, size) + 1.0
    mass = A.sum(axis=1, keepdims=True)
    neutral = (answers / answers.sum(axis=1, keepdims=True))[:, :, None]  # where nothing was learned
    return np.where(mass > 0, A / np.where(mass > 0, mass, 1), neutral)
