"""The rows of the crowd tables: which start, polished by which EM.

Two forms of the paper's own methods are run. *As described*: a random square root, the paper's own pair
weights, every worker's classes sorted by themselves, and plain EM until the log-likelihood stands still to
1e-6; the authors' own code was not run. *Latentfit*: what `DawidSkene(method=…)` does by default; *Latentfit, one
order*: the same with one order of classes for all workers. Baselines are run as their own papers have them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from latentfit.core.assign import align_to_labels
from latentfit.core.em import em
from latentfit.core.errors import IdentifiabilityWarning
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, stack_confusions
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import Labels
from latentfit.labels.em import SMOOTHING, crowd_steps
from latentfit.labels.estimator.dawid_skene import DawidSkene
from latentfit.labels.init import METHODS, Initialisation, Method, Settings, init_robust
from latentfit.labels.init.designated import LEAST_RATIO, impute_designated, square_root
from latentfit.labels.init.robust import PairWeight, fit_robust_root
from latentfit.labels.init.symnmf import mixture_from_factor, rotate_from_several
from latentfit.labels.moments import count_label_pairs, vote_proportions

Codes = NDArray[np.int32]

DESCRIBED, TACIT, PUBLISHED = "as described", "Latentfit", "as published"
ONE_ORDER = "Latentfit, one order"


@dataclass(frozen=True)
class Polish:
    """How EM goes on from a start."""

    smoothing: float
    tol: float  # nats per label
    max_iter: int


PLAIN_EM = Polish(smoothing=0.0, tol=1e-6, max_iter=500)
"""Maximum likelihood until the cost changes by less than 1e-6 of itself, as the paper stops; a label's share
of the log-likelihood is about one nat."""
LATENTFIT_EM = Polish(SMOOTHING, DawidSkene().tol, DawidSkene().max_iter)


@dataclass(frozen=True)
class Recipe:
    """One row: a start of `METHODS` or one of ours below, and its polish; no start is ``method="auto"``."""

    method: str
    variant: str
    start: Method | None
    polish: Polish | None = None
    random: bool = False
    two_classes: bool = False
    slow: bool = False

    def can(self, n_classes: int) -> bool:
        return n_classes == 2 or not self.two_classes


@dataclass(frozen=True)
class Answer:
    """What a recipe makes of labels."""

    posterior: Floats  # (n, K)
    mixture: Mixture | None
    seconds: float


def solve(labels: Labels, recipe: Recipe, seed: int) -> Answer:
    """Run a recipe; seconds count pairs, start and EM, not the examination of the result."""
    begin = time.perf_counter()
    if recipe.start is None:
        model = _fit_auto(labels, seed)
        mixture = stack_confusions(model.prior_, model.confusion_)
        return Answer(model.probabilities_, mixture, time.perf_counter() - begin)
    with one_blas_thread():
        posterior, kept = _fit_recipe(labels, recipe.start, recipe.polish, seed)
    return Answer(posterior, kept, time.perf_counter() - begin)


def _fit_recipe(labels: Labels, method: Method, polish: Polish | None, seed: int) -> tuple[Floats, Mixture | None]:
    """The walk of `DawidSkene.fit` with a start and an EM of our choice."""
    engine = MemoryEngine(labels)
    start = method(labels, Settings(np.random.default_rng(seed)))
    if polish is None:
        return start.task_posterior(labels, engine), start.mixture
    sums = start.statistics(labels, engine)
    steps = crowd_steps(labels, sums, polish.smoothing, engine)
    found = em(steps, steps.m_step(sums), max_iter=polish.max_iter, tol=polish.tol)
    mixture = align_to_labels(found.params, np.bincount(labels.workers, minlength=labels.n_workers))
    return posterior_of(engine, mixture)[0], mixture


def _fit_auto(labels: Labels, seed: int) -> DawidSkene:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", IdentifiabilityWarning)  # the table judges, not the verdict
        return DawidSkene(random_state=seed).fit(labels)


def error_percent(posterior: Floats, truth: Codes) -> float:
    """Share of known tasks whose likeliest class is wrong; equal classes share the credit."""
    known = truth >= 0
    beliefs = posterior[known]
    leading = beliefs >= beliefs.max(axis=1, keepdims=True) - 1e-12
    right = leading[np.arange(len(beliefs)), truth[known]] / leading.sum(axis=1)
    return float(100 * (1 - right.mean()))


# ------------------------------------------------------------------ starts as the paper has them


def released_robust(pair_weight: PairWeight) -> Method:
    """Robust imputation from a random square root, each worker's classes sorted by themselves."""

    def start(labels: Labels, settings: Settings) -> Initialisation:
        return init_robust(labels, settings, pair_weight=pair_weight, init="random")

    return start


def robust_root(pairs: PairCounts, n_classes: int, rng: np.random.Generator) -> Floats:
    """The stacked square root (M·K, K) by robust imputation, from a random one."""
    shape = (pairs.n_columns * n_classes, n_classes)
    return fit_robust_root(pairs, rng.random(shape) / n_classes, pair_weight="robust")[0]


def designated_root(pairs: PairCounts, n_classes: int, least_ratio: float = LEAST_RATIO) -> Floats:
    """The same by designated workers (7)–(8)."""
    return square_root(impute_designated(pairs, least_ratio=least_ratio).X, n_classes)


def one_order(root: Floats, pairs: PairCounts, counts: Floats, rng: np.random.Generator) -> Mixture:
    """Rotation (13) of a root with one order of classes for all: for crowds whose workers may mislead."""
    rotation = rotate_from_several(root, 4, rng)
    return mixture_from_factor(rotation.factor, pairs.column_offsets, counts)


def global_robust(labels: Labels, settings: Settings) -> Initialisation:
    """RobSymNMF from a random root, one order of classes."""
    return _globally(labels, settings, lambda pairs: robust_root(pairs, labels.n_classes, settings.rng))


def global_designated(labels: Labels, settings: Settings) -> Initialisation:
    """DesSymNMF, one order of classes."""
    return _globally(labels, settings, lambda pairs: designated_root(pairs, labels.n_classes))


def _globally(labels: Labels, settings: Settings, root_of: Callable[[PairCounts], Floats]) -> Initialisation:
    pairs = count_label_pairs(labels)
    counts = np.bincount(labels.workers, minlength=labels.n_workers)
    mixture = one_order(root_of(pairs), pairs, counts.astype(float), settings.rng)
    return Initialisation(align_to_labels(mixture, counts))


def majority(labels: Labels, settings: Settings) -> Initialisation:
    """The votes themselves."""
    return Initialisation(posterior=vote_proportions(labels))


# ------------------------------------------------------------------------------------------- rows

OWN = [
    Recipe("RobSymNMF", DESCRIBED, released_robust("robust"), random=True),
    Recipe("RobSymNMF", TACIT, METHODS["robust"]),
    Recipe("RobSymNMF-EM", DESCRIBED, released_robust("robust"), PLAIN_EM, random=True),
    Recipe("RobSymNMF-EM", TACIT, METHODS["robust"], LATENTFIT_EM),
    Recipe("RobSymNMF (w = 1)", DESCRIBED, released_robust("uniform"), random=True),
    Recipe("RobSymNMF-EM (w = 1)", DESCRIBED, released_robust("uniform"), PLAIN_EM, random=True),
    Recipe("DesSymNMF", TACIT, METHODS["designated"], random=True),
    Recipe("DesSymNMF-EM", "plain EM", METHODS["designated"], PLAIN_EM, random=True),
    Recipe("DesSymNMF-EM", TACIT, METHODS["designated"], LATENTFIT_EM, random=True),
    Recipe("SymNMF (no imputation)", TACIT, METHODS["symnmf"], random=True),
]
"""The paper's own methods."""

MODEL_BASELINES = [
    Recipe("MultiSPA", PUBLISHED, METHODS["multispa"]),
    Recipe("CNMF", PUBLISHED, METHODS["cnmf"]),
    Recipe("TensorADMM", PUBLISHED, METHODS["tensor"], random=True, slow=True),
    Recipe("Spectral-D&S", PUBLISHED, METHODS["spectral"], PLAIN_EM, random=True),
    Recipe("Spectral-D&S", "first stage", METHODS["spectral"], random=True),
    Recipe("MV-EM", PUBLISHED, METHODS["majority-em"], PLAIN_EM),
    Recipe("MV-EM", TACIT, METHODS["majority-em"], LATENTFIT_EM),
]
"""Baselines that learn the model, so that Table 7 can compare parameters."""

BASELINES = [
    *MODEL_BASELINES,
    Recipe("MinimaxEntropy", PUBLISHED, METHODS["minimax-entropy"]),
    Recipe("KOS", PUBLISHED, METHODS["kos"]),
    Recipe("GhoshSVD", PUBLISHED, METHODS["ghosh"], two_classes=True),
    Recipe("EigenRatio", PUBLISHED, METHODS["eigenratio"], two_classes=True),
    Recipe("Majority Voting", PUBLISHED, majority),
]
AUTO = Recipe("auto", TACIT, None)


def first_of_each(recipes: Sequence[Recipe]) -> list[Recipe]:
    """One recipe per method: the one nearest to the paper comes first in the lists above."""
    return list({recipe.method: recipe for recipe in reversed(recipes)}.values())[::-1]
