"""Confusion matrices from first, second and third moments of the annotators, fitted together.

    minimise  ½ Σ_m ‖μ_m − Γ_m π‖² + ½ Σ_{m<j} ‖S_mj − Γ_m D Γ_jᵀ‖² + ½ Σ_{m<j<l} ‖Ψ_mjl − ⟦Γ_m D, Γ_j, Γ_l⟧‖²
    subject to every column of Γ_m, and π, lying on the probability simplex

One Γ_m at a time, then π: each subproblem is a small quadratic on simplices, solved by a few ADMM steps.

Paper     Traganitis, Pagès-Zamora & Giannakis, "Blind multiclass ensemble classification", IEEE Trans. Signal
          Processing 66 (2018): the constrained moment fit and its alternating ADMM algorithm
Needs     annotators independent given the class, of rank K, at least three; most of them better than chance,
          which names the classes
Promises  third moments make Γ and π unique up to one order of classes; the objective never rises; the limit
          is a stationary point
Differs   the number of triples is cubic, so at most MAX_TRIPLE_CELLS / K³ enter, those with most co-labels
          (ties drawn by `rng`), counted on at most MAX_LOOKS co-labelled triples of cells (tasks with very
          many labels contribute a random subset of them); an ADMM result that would raise the objective is dropped,
          in place of the proximal term; the step ρ is trace(G)/K. Initial columns are random with their largest
          entry on the diagonal, the paper's "better than random" initialisation: on sparse crowds an even draw ends
          higher in the objective, with groups of annotators that disagree on the order of classes

Symbols   paper      here       shape             meaning
          μ_m        mean       (M, K)            how annotator m answers
          S_mj       R          (P, K, K)         co-occurrences of the observed pairs m < j
          Ψ_mjl      Psi        (T, K, K, K)      co-occurrences of the chosen triples m < j < l
          Γ_m        A          (M, K, K)         P(m says k | class f), axes (m, k, f)
          π, D       weights    (K,)              P(class f), D = Diag(π)
          Φ, Δ       point, dual                  ADMM's projected copy and scaled multiplier
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from latentfit.core.assign import match_classes
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.simplex import project_to_simplex
from latentfit.labels.data import Labels
from latentfit.labels.init.multispa import Indices, check_labels_are_classes, floored_mixture
from latentfit.labels.moments import count_label_pairs

MAX_TRIPLE_CELLS = 2**21
"""Cells of all chosen triples together: every sweep reads each three times; this is 50 MB, and all triples
of 52 annotators with four labels."""
MAX_LOOKS = 2_000_000
"""Label triples of single tasks that are counted: a second and 50 MB."""
ADMM_STEPS = 10
"""Inner steps of a subproblem, as in the released code; the next round goes on from their dual."""


@dataclass(frozen=True)
class Side:
    """What the subproblem of one annotator m needs: partners and their moments with m's axis first."""

    partners: Indices  # (p,)
    R: Floats  # (K, p·K)
    first: Indices  # (t,)
    second: Indices  # (t,)
    Psi: Floats  # (K, t·K·K)


@dataclass(frozen=True)
class Moments:
    """First, second and third annotator moments, and the same sorted by annotator."""

    mean: Floats
    left: Indices
    right: Indices
    R: Floats
    triples: Indices  # (T, 3)
    Psi: Floats

    @cached_property
    def half_squares(self) -> float:
        """The constant of the objective."""
        return sum(float((moment**2).sum()) for moment in (self.mean, self.R, self.Psi)) / 2

    def sides(self) -> list[Side]:
        size = self.mean.shape[1]
        pairs = [(self.left, self.right, self.R), (self.right, self.left, self.R.transpose(0, 2, 1))]
        m, j, R = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
        turns = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
        who = np.concatenate([self.triples[:, list(turn)] for turn in turns])
        Psi = np.concatenate([self.Psi.transpose(0, *(axis + 1 for axis in turn)) for turn in turns])
        pair_order, triple_order = np.argsort(m, kind="stable"), np.argsort(who[:, 0], kind="stable")
        ends = np.arange(1, len(self.mean))
        pair_cuts = np.split(pair_order, np.searchsorted(m[pair_order], ends))
        triple_cuts = np.split(triple_order, np.searchsorted(who[triple_order, 0], ends))
        return [
            Side(
                j[p],
                np.ascontiguousarray(R[p].transpose(1, 0, 2)).reshape(size, -1),
                who[t, 1],
                who[t, 2],
                np.ascontiguousarray(Psi[t].transpose(1, 0, 2, 3)).reshape(size, -1),
            )
            for p, t in zip(pair_cuts, triple_cuts, strict=True)
        ]


def factor_tensor(
    labels: Labels,
    n_classes: int,
    *,
    rng: np.random.Generator,
    max_iter: int = 100,
    tol: float = 1e-6,
    memory: int | None = None,
) -> Mixture:
    """The Dawid–Skene model nearest to moments of order one to three in least squares; class k is label k.

    Refuses when the list of worker pairs would not fit `memory` bytes.
    """
    check_labels_are_classes(labels.column_offsets, n_classes)
    if labels.n_workers < 3:
        raise NotIdentifiableError(
            f"{labels.n_workers} workers have no third moments; the tensor method needs at least three"
        )
    moments = annotator_moments(labels, rng, memory=memory)
    A, weights = random_init(labels.n_workers, n_classes, rng)
    A, weights, _ = fit(moments, A, weights, max_iter=max_iter, tol=tol)
    alone = np.setdiff1d(np.arange(labels.n_workers), np.r_[moments.left, moments.right])
    A[alone] = moments.mean[alone][:, :, None]  # no common task with anybody: only the label proportions are known
    n_labels = np.bincount(labels.workers, minlength=labels.n_workers)
    order = match_classes(np.tensordot(n_labels, A, 1))
    return floored_mixture(weights[order], A[:, :, order])


def fit(
    moments: Moments, A: Floats, weights: Floats, *, max_iter: int, tol: float
) -> tuple[Floats, Floats, list[float]]:
    """Rounds of all Γ_m, then π, from initial values; also the objective there and after every round."""
    A, sides = A.copy(), moments.sides()
    inner = A.transpose(0, 2, 1) @ A  # Γ_mᵀ Γ_m
    duals, dual = np.zeros_like(A), np.zeros_like(weights)
    path = [objective(moments, A, weights)]
    for _ in range(max_iter):
        for m, side in enumerate(sides):
            G, B = confusion_quadratic(moments.mean[m], side, A, inner, weights)
            moved, duals[m] = simplex_step(G, B, A[m].T, duals[m])
            A[m] = moved.T
            inner[m] = A[m].T @ A[m]
        H, h = weight_quadratic(moments, A)
        weights, dual = simplex_step(H, h, weights, dual)
        path.append(quadratic(H, h, weights) + moments.half_squares)
        if path[-2] - path[-1] <= tol * path[-2]:
            break
    return A, weights, path


def confusion_quadratic(mean: Floats, side: Side, A: Floats, inner: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """G (K, K) and B (K, K): in Γ_m the objective is ½ tr(Γ_m G Γ_mᵀ) − tr(Γ_m B) plus a constant."""
    size = len(weights)
    G = inner[side.partners].sum(axis=0) + (inner[side.first] * inner[side.second]).sum(axis=0)
    G = np.outer(weights, weights) * (1 + G)  # ππᵀ + D (Σ_j Γ_jᵀΓ_j + Σ_jl Γ_jᵀΓ_j ∘ Γ_lᵀΓ_l) D
    B = side.R @ A[side.partners].reshape(-1, size)  # Σ_j S_mj Γ_j
    B = B + side.Psi @ khatri_rao(A[side.first], A[side.second]).reshape(-1, size)  # Σ_jl Ψ₍ₘ₎ (Γ_j ⊙ Γ_l)
    return G, ((mean[:, None] + B) * weights).T


def khatri_rao(left: Floats, right: Floats) -> Floats:
    """Γ_j ⊙ Γ_l of many pairs: (t, K·K, F)."""
    size, n_classes = left.shape[1:]
    return (left[:, :, None, :] * right[:, None, :, :]).reshape(len(left), size * size, n_classes)


def weight_quadratic(moments: Moments, A: Floats) -> tuple[Floats, Floats]:
    """H (K, K) and h (K,): in π the objective is ½ πᵀHπ − hᵀπ plus a constant."""
    inner = A.transpose(0, 2, 1) @ A
    i, j, l = moments.triples.T
    H = inner.sum(axis=0) + (inner[moments.left] * inner[moments.right]).sum(axis=0)
    H = H + (inner[i] * inner[j] * inner[l]).sum(axis=0)
    h = (moments.mean[:, :, None] * A).sum(axis=(0, 1))
    h = h + (A[moments.left] * (moments.R @ A[moments.right])).sum(axis=(0, 1))
    Psi = moments.Psi.reshape(len(i), A.shape[1], A.shape[1] ** 2)
    return H, h + (A[i] * (Psi @ khatri_rao(A[j], A[l]))).sum(axis=(0, 1))


def objective(moments: Moments, A: Floats, weights: Floats) -> float:
    """Half the squared misfit of all moments, from the quadratic in π."""
    return quadratic(*weight_quadratic(moments, A), weights) + moments.half_squares


def simplex_step(G: Floats, B: Floats, X: Floats, dual: Floats) -> tuple[Floats, Floats]:
    """ADMM on ½ tr(Xᵀ G X) − tr(Xᵀ B), X on simplices along its last axis; X itself if that is no better."""
    size = len(G)
    rho = max(float(np.trace(G)) / size, np.finfo(float).tiny)
    solve = np.linalg.inv(G + rho * np.eye(size))
    point = X
    for _ in range(ADMM_STEPS):
        free = solve @ (B + rho * (point + dual))  # Φ ← argmin of the quadratic near the projected copy
        point = project_to_simplex(free - dual)  # Γ ← P(Φ − Δ)
        dual = dual + point - free  # Δ ← Δ + Γ − Φ
    worse = quadratic(G, B, point) > quadratic(G, B, X)
    return (X if worse else point), dual


def quadratic(G: Floats, B: Floats, X: Floats) -> float:
    return float(np.vdot(X, G @ X / 2 - B))


def random_init(n_workers: int, n_classes: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Random columns, each with its largest entry on the diagonal, and even weights."""
    A = rng.random((n_workers, n_classes, n_classes))
    largest, diagonal = A.argmax(axis=1)[:, None, :], np.arange(n_classes)[None, None, :]
    high, swapped = np.take_along_axis(A, largest, 1), np.take_along_axis(A, diagonal, 1)
    np.put_along_axis(A, largest, swapped, 1)
    np.put_along_axis(A, diagonal, high, 1)
    return A / A.sum(axis=1, keepdims=True), np.full(n_classes, 1 / n_classes)


def annotator_moments(labels: Labels, rng: np.random.Generator, *, memory: int | None = None) -> Moments:
    """Frequencies of labels, of observed pairs, and of the chosen triples of annotators."""
    pairs = count_label_pairs(labels, memory=memory)
    left, right, _ = pairs.observed
    counts = pairs.singles.reshape(labels.n_workers, -1)
    mean = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    triples, Psi = count_triples(labels, rng)
    return Moments(mean, left, right, pairs.frequencies(), triples, Psi)


def count_triples(labels: Labels, rng: np.random.Generator) -> tuple[Indices, Floats]:
    """The triples m < j < l with most co-labels (T, 3), and their co-occurrences Ψ (T, K, K, K)."""
    M, K = labels.n_workers, labels.n_classes
    labels = thinned(labels, rng)
    per_task = np.diff(labels.offsets)
    keys, cells = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(per_task[per_task >= 3]):
        picks = np.array(list(combinations(range(size), 3)))
        at = labels.offsets[:-1][per_task == size][:, None, None] + picks  # (tasks, picks, 3)
        worker, given = labels.workers[at].astype(np.int64), labels.given[at].astype(np.int64)
        three = (np.diff(worker, axis=2) > 0).all(axis=2)  # not the repeated answers of one annotator
        worker, given = worker[three], given[three]
        keys.append(((worker[..., 0] * M + worker[..., 1]) * M + worker[..., 2]).ravel())
        cells.append(((given[..., 0] * K + given[..., 1]) * K + given[..., 2]).ravel())
    triple_keys, which, seen = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    most = np.lexsort((rng.random(len(triple_keys)), -seen))[: max(MAX_TRIPLE_CELLS // K**3, 1)]
    most.sort()
    rank = np.full(len(triple_keys), -1)
    rank[most] = np.arange(len(most))
    counted = rank[which] >= 0
    counts = np.bincount(rank[which][counted] * K**3 + np.concatenate(cells)[counted], minlength=len(most) * K**3)
    triples = np.stack([triple_keys[most] // M**2, triple_keys[most] // M % M, triple_keys[most] % M], axis=1)
    return triples.astype(np.intp), counts.reshape(-1, K, K, K) / seen[most][:, None, None, None]


def thinned(labels: Labels, rng: np.random.Generator) -> Labels:
    """The labels with so many of each task, drawn at random, that their triples are at most MAX_LOOKS."""
    per_task = np.diff(labels.offsets)
    limits = np.arange(3, max(int(per_task.max(initial=3)), 3) + 1)
    size, tasks = np.unique(per_task, return_counts=True)
    counted = np.minimum(size, limits[:, None]).astype(np.float64)
    looks = (tasks * counted * (counted - 1) * (counted - 2) / 6).sum(axis=1)
    limit = limits[max(int((looks <= MAX_LOOKS).sum()) - 1, 0)]
    if limit == limits[-1]:
        return labels
    task = labels.task_of()
    order = np.lexsort((rng.random(labels.n_labels), task))
    drawn = np.zeros(labels.n_labels, bool)
    drawn[order] = np.arange(labels.n_labels) - labels.offsets[task] < limit
    return labels.subset(drawn)
