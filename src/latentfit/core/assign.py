"""Which latent class is which label, and which class of one fit is which of another: optimal assignment.

The one place where classes are matched. Latent classes come in any order; the user's labels fix it. Rule:
the permutation that makes the crowd's pooled confusion matrix most diagonal, each worker weighted by how
much they said (labels) and by how much their labels tell about the class (`decisiveness`). Workers whose
labels tell nothing have no say, so a crowd of guessers with a few experts follows the experts. If the
decisive workers are, weighted like that, worse than chance, no data could tell: the labels then come out
swapped, and the verdict says what was assumed.

Paper     Kuhn 1955 (the assignment problem); every factorisation leaves the order of its classes open
Needs     how alike the classes of two sides are, or confusion matrices whose labels are the classes
Promises  the matching with the largest total; for labels, the right one where decisive workers beat chance
Differs   one order for each part of the crowd whose workers share tasks (the classes of different parts have nothing
          to do with one another), and known answers are evidence of it. The published figures of Ibrahim & Fu 2022
          sort every worker's classes by themselves (`align_each_worker`), which takes every worker to be better
          than chance

Symbols   here         shape                  meaning
          similarity   (K, L)                 what is summed along the matching, L ≥ K
          confusions   (worker, true, given)
          say          (M,)                   labels given · decisiveness²
          evidence     (label, latent class)  log-probability of the known answers if the class were the label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, stack_confusions, unstack_confusions

CROWD_SAY = 20.0
"""Nats by which a flawless crowd's word on which class is which counts beside known answers: about six of them
overrule it. A crowd whose word is weak is overruled by the first."""


def match_classes(similarity: Floats) -> NDArray[np.intp]:
    """`order` such that column order[k] of `similarity` belongs to row k, the total similarity largest.

    There may be more columns than rows: some then belong to none.
    """
    if len(similarity) == similarity.shape[1] <= 2:  # two classes need no search, and the search is slow to import
        swapped = len(similarity) == 2 and np.trace(similarity) < np.trace(similarity[:, ::-1])
        return np.arange(len(similarity))[:: -1 if swapped else 1]
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(-similarity)[1], np.intp)  # rows come back in their order


def align_classes(moved: Mixture, reference: Mixture) -> Mixture:
    """`moved` with its classes in the order of `reference`: likeness is the sum of √(a b) over all cells."""
    return moved.permuted(match_classes(np.sqrt(reference.table).T @ np.sqrt(moved.table)))


def align_parts(moved: Mixture, reference: Mixture, part: NDArray[np.int32]) -> Mixture:
    """`align_classes` by itself for every part of the crowd (`part` of each worker).

    Where the parts have different orders the proportions of the moved classes are mixed up: the reference's stand in.
    """
    size = moved.n_classes
    ours, theirs = (np.sqrt(mixture.table).reshape(-1, size, size) for mixture in (reference, moved))
    orders = np.empty((len(part), size), np.intp)
    for at in np.unique(part):
        members = part == at
        orders[members] = match_classes(np.einsum("mgk,mgl->kl", ours[members], theirs[members]))
    if (orders == orders[:1]).all():
        return moved.permuted(orders[0])
    return Mixture(reference.weights, reorder_workers(moved.table, orders), moved.column_offsets)


def mean_distance(one: Floats, other: Floats) -> float:
    """Mean |w − w'| of shares (row, class) after the best matching of classes."""
    apart = np.abs(one[:, :, None] - other[:, None, :]).mean(axis=0)
    return float(np.abs(one - other[:, match_classes(-apart)]).mean())


def decisiveness(confusions: Floats) -> Floats:
    """How permutation-like each confusion matrix (worker, true, given) is: 0 a guesser, 1 a permutation.

    |det A|^(1/(K−1)): the volume the rows span, per dimension. A worker who is right with probability
    1/K + r (1 − 1/K) and otherwise guesses evenly has decisiveness r for every K.
    """
    n_classes = confusions.shape[1]
    if n_classes < 2:
        return np.ones(len(confusions))
    return np.asarray(np.abs(np.linalg.det(confusions)) ** (1 / (n_classes - 1)))


def label_order(
    mixture: Mixture, labels_per_worker: NDArray[np.int64], evidence: Floats | None = None
) -> NDArray[np.intp]:
    """Which latent class stands for each label; `evidence` (label, latent class) is what known answers say of it."""
    return _order_of(unstack_confusions(mixture), labels_per_worker, evidence)


def _order_of(confusions: Floats, labels_per_worker: NDArray[np.int64], evidence: Floats | None) -> NDArray[np.intp]:
    say = labels_per_worker * decisiveness(confusions) ** 2
    pooled = np.einsum("m,mkl->kl", say, confusions)  # (latent class, label)
    if evidence is None or not evidence.any():
        return match_classes(pooled.T)
    return match_classes(CROWD_SAY * pooled.T / max(float(say.sum()), 1e-300) + evidence)


def part_orders(
    mixture: Mixture,
    labels_per_worker: NDArray[np.int64],
    part: NDArray[np.int32],
    evidence: Mapping[int, Floats],
    never_given: Sequence[int] = (),
) -> NDArray[np.intp]:
    """`label_order` of every part of the crowd (part, label), given the part of each worker (M,).

    `evidence` has the (label, latent class) of parts with known answers. A part without labels has the order of the
    first that has some. Labels that are `never_given` stay where they are: beside them nobody would be decisive.
    """
    n_parts = int(part.max()) + 1 if len(part) else 0
    given = np.setdiff1d(np.arange(mixture.n_classes), never_given)
    confusions = unstack_confusions(mixture)[:, given[:, None], given]
    orders = np.tile(np.arange(mixture.n_classes), (n_parts, 1))
    spoken = np.bincount(part, labels_per_worker, n_parts) > 0
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part, minlength=n_parts))[:-1])
    for at in np.flatnonzero(spoken):
        known = evidence.get(int(at))
        known = None if known is None else known[given[:, None], given]
        orders[at, given] = given[_order_of(confusions[members[at]], labels_per_worker[members[at]], known)]
    orders[~spoken] = orders[np.argmax(spoken)] if spoken.any() else np.arange(mixture.n_classes)
    return orders


def reorder_workers(table: Floats, orders: NDArray[np.intp]) -> Floats:
    """A stacked table (M·K, K) with the classes of each worker in an order of its own (M, K)."""
    n_workers, n_classes = orders.shape
    cube = table.reshape(n_workers, -1, n_classes)
    return np.take_along_axis(cube, orders[:, None, :], axis=2).reshape(table.shape)


def align_to_labels(mixture: Mixture, labels_per_worker: NDArray[np.int64]) -> Mixture:
    """The same mixture with class k standing for label k."""
    return mixture.permuted(label_order(mixture, labels_per_worker))


def align_each_worker(mixture: Mixture, labels_per_worker: NDArray[np.int64]) -> Mixture:
    """The same, each worker's classes permuted by themselves: assumes that every worker is better than chance.

    Blocks imputed from a handful of co-labels come out with column orders of their own; this is how the
    published figures of the imputation methods were reached. The class weights follow the permutations,
    each worker counted by its labels.
    """
    confusions = unstack_confusions(mixture)
    orders = np.array([match_classes(confusion.T) for confusion in confusions])
    sorted_ = np.take_along_axis(confusions, orders[:, :, None], axis=1)
    weights = labels_per_worker @ mixture.weights[orders]
    return stack_confusions(weights / weights.sum(), sorted_)


def people_order(proportions: Floats, groups: NDArray[Any] | None) -> NDArray[np.intp]:
    """People by group (as the groups first appear), then by their largest population and its share."""
    largest = proportions.argmax(axis=1)
    keys = [-proportions.max(axis=1), largest]
    if groups is not None:
        first = {name: place for place, name in enumerate(dict.fromkeys(groups.tolist()))}
        keys.append(np.array([first[name] for name in groups.tolist()]))
    return np.lexsort(keys)
