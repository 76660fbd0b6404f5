"""Does the stated error of a consensus hold? Public crowds with known truth, each left out in turn.

    python benchmarks/labels_experience.py crowds              # a folder: crowds/<name>/labels.csv and truth.csv
    python benchmarks/labels_experience.py crowds --shown bluebird dog dog52 labelme rte trec

Prints what the crowds teach (the constants of `latentfit.labels.diagnostics.experience.Experience`), and for every
crowd what was stated when its group was left out: expected error with its 80 % interval beside the actual error,
log-loss and expected calibration error (ECE) of the probabilities, what the 95 % intervals of worker accuracy cover
(workers with at least ten labels on tasks with truth). Crowds that share tasks (the same letters before "_" or in
`GROUPS`) are left out together and count once. At the end the same for simulated crowds, where the model is true.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from harness import data_folder
from scipy.optimize import minimize
from scipy.special import logit

from latentfit.labels.data import Labels
from latentfit.labels.data.input import read_labels
from latentfit.labels.diagnostics.experience import (
    CORRELATIONS,
    EXPERIENCE,
    TUNING,
    Calibration,
    ExpectedErrors,
    Experience,
    calibrate,
    expectation_of,
    temper,
)
from latentfit.labels.diagnostics.workers import own_posterior, worker_quality
from latentfit.labels.estimator import CrowdSettings, fit_crowd
from latentfit.simulate import crowd

GROUPS = {"dog52": "dog", "fej2013": "fact", "relevance": "trec"}
EXPONENTS = np.array([0.2, 0.25, 0.3, 0.35, 0.4, 0.425, 0.45, 0.475, 0.5, 0.525, 0.55, 0.6, 0.65, 0.7, 0.8, 1.0])
LEAST_ERROR = 2e-3
BINS = 10


@dataclass
class Measured:
    """A fitted crowd with what its truth says; arrays by exponent of `EXPONENTS`."""

    name: str
    group: str
    labels: Labels
    fitted: object
    calibration: Calibration
    posterior: np.ndarray  # of tasks with truth, by the model alone
    truth: np.ndarray
    worker_truth: np.ndarray  # actual accuracy of workers, NaN where fewer than ten labels have a truth
    errors: np.ndarray
    log_losses: np.ndarray

    @property
    def actual(self) -> float:
        return float((self.posterior.argmax(axis=1) != self.truth).mean())

    def tempered(self, exponent: float) -> np.ndarray:
        return temper(self.posterior, exponent)

    def expected(self, experience: Experience) -> ExpectedErrors:
        """Expected errors over the tasks with truth."""
        calibration = replace(self.calibration, experience=experience)
        exponents = (1.0, calibration.beta, calibration.experienced, calibration.exponent)
        return ExpectedErrors(len(self.truth), *(error_of(self.tempered(power)) for power in exponents))


def error_of(posterior: np.ndarray) -> float:
    return float((1 - posterior.max(axis=1)).mean())


def log_loss(posterior: np.ndarray, truth: np.ndarray) -> float:
    return float(-np.log(np.maximum(posterior[np.arange(len(truth)), truth], 1e-10)).mean())


def calibration_error(posterior: np.ndarray, truth: np.ndarray) -> float:
    """ECE in ten bins of equal width."""
    stated, right = posterior.max(axis=1), posterior.argmax(axis=1) == truth
    bins = np.minimum((stated * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right, BINS) - np.bincount(bins, stated, BINS)
    return float(np.abs(gaps).sum() / len(truth))


def log_odds(error: np.ndarray | float) -> np.ndarray:
    return logit(np.clip(error, LEAST_ERROR, 1 - LEAST_ERROR))


def measure(name: str, labels: Labels, truth: np.ndarray, accuracy: np.ndarray | None = None) -> Measured:
    """Fit a crowd; `truth` holds a class per task or -1, `accuracy` the workers' where it is known exactly."""
    fitted = fit_crowd(labels, CrowdSettings(n_jobs=1))
    data, beta = fitted.evidence.data, fitted.evidence.calibration.beta
    known = truth >= 0
    posterior = own_posterior(data, fitted.mixture)[known]
    calibration = calibrate(data, fitted.mixture, beta)
    if accuracy is None:
        seen = truth[data.task_of()]
        counted = seen >= 0
        number = np.bincount(data.workers[counted], minlength=data.n_workers)
        right = np.bincount(data.workers[counted], (data.given == seen)[counted], data.n_workers)
        accuracy = np.where(number >= 10, right / np.maximum(number, 1), np.nan)
    by_exponent = [temper(posterior, beta * power) for power in EXPONENTS]
    return Measured(
        name, GROUPS.get(name, name.split("_")[0]), data, fitted, calibration, posterior, truth[known], accuracy,
        np.array([error_of(one) for one in by_exponent]),
        np.array([log_loss(one, truth[known]) for one in by_exponent]),
    )  # fmt: skip


def weights_of(crowds: list[Measured]) -> np.ndarray:
    """Every group counts once."""
    groups = [one.group for one in crowds]
    return np.array([1 / groups.count(group) for group in groups])


def learn(crowds: list[Measured]) -> Experience:
    """What crowds with truth teach."""
    weights = weights_of(crowds)
    actual = np.array([log_odds(one.actual) for one in crowds])
    losses = np.average([one.log_losses for one in crowds], axis=0, weights=weights)
    stated = log_odds(np.stack([one.errors for one in crowds]))
    bias = np.average(actual[:, None] - stated, axis=0, weights=weights)
    temperature = float(np.sqrt(EXPONENTS[losses.argmin()] * np.interp(0.0, bias, EXPONENTS)))
    at = np.array([np.interp(temperature, EXPONENTS, one.errors) for one in crowds])
    squares = np.average((actual - log_odds(at)) ** 2, weights=weights)
    ratio = np.array([one.actual / max(one.errors[-1], LEAST_ERROR) for one in crowds])
    order = np.argsort(ratio)
    cumulated = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, middle, high = np.interp([0.1, 0.5, 0.9], cumulated, ratio[order]).tolist()
    n = weights.sum()
    spread = float(np.sqrt(squares * (1 + 1 / n)))
    return Experience(temperature, spread, correlations(crowds, weights), (low, middle, high), EXPERIENCE.prior)


def correlations(crowds: list[Measured], weights: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the log correlation of errors, by maximum likelihood; one in ten has none."""
    estimate = np.array([one.calibration.correlation for one in crowds])[:, None]
    error = np.array([one.calibration.standard_error for one in crowds])[:, None]

    def loss(parameters: np.ndarray) -> float:
        density = np.exp(-0.5 * ((np.log(CORRELATIONS) - parameters[0]) / np.exp(parameters[1])) ** 2)
        correlated = np.exp(-0.5 * ((estimate - CORRELATIONS) / error) ** 2) @ (density / density.sum())
        none = np.exp(-0.5 * (estimate[:, 0] / error[:, 0]) ** 2)
        return -float(weights @ np.log((0.9 * correlated + 0.1 * none) / error[:, 0] + 1e-12))

    mean, log_deviation = minimize(loss, [-3.0, -0.5], method="Nelder-Mead").x
    return float(mean), float(np.exp(log_deviation))


def row_of(one: Measured, experience: Experience) -> dict[str, float | str]:
    calibration = replace(one.calibration, experience=experience)
    errors = one.expected(experience)
    stated = expectation_of(errors, calibration, one.labels.n_classes)
    before, after = one.tempered(calibration.beta), one.tempered(calibration.exponent)
    quality = worker_quality(one.labels, one.fitted.mixture, calibration=calibration)
    known = ~np.isnan(one.worker_truth)
    inside, by_model = (
        (intervals.low <= one.worker_truth) & (one.worker_truth <= intervals.high)
        for intervals in (quality, worker_quality(one.labels, one.fitted.mixture))
    )
    return {
        "crowd": one.name, "correlation": calibration.correlation, "s.e.": calibration.standard_error,
        "weight": calibration.weight, "model": errors.model, "stated": stated.value, "low": stated.low,
        "high": stated.high, "actual": one.actual, "inside": float(stated.low <= one.actual <= stated.high),
        "log-loss of the model": log_loss(before, one.truth), "log-loss": log_loss(after, one.truth),
        "ECE of the model": calibration_error(before, one.truth), "ECE": calibration_error(after, one.truth),
        "workers": float(known.sum()), "covered": float(inside[known].mean()) if known.any() else np.nan,
        "covered_n": float(inside[known].sum()), "covered_by_model": float(by_model[known].sum()),
    }  # fmt: skip


def conclude(rows: pd.DataFrame, weights: np.ndarray, title: str) -> None:
    def mean(values: pd.Series) -> float:
        used = values.notna().to_numpy()
        return float(np.average(values[used], weights=weights[used]))

    print(
        f"{title}: |stated − actual| {100 * mean((rows.stated - rows.actual).abs()):.1f} points "
        f"(model {100 * mean((rows.model - rows.actual).abs()):.1f}), in the 80 % interval {mean(rows.inside):.0%} "
        f"({rows.inside.sum():.0f} of {len(rows)}), log-loss {mean(rows['log-loss']):.3f} "
        f"(model {mean(rows['log-loss of the model']):.3f}), ECE {mean(rows.ECE):.3f} "
        f"(model {mean(rows['ECE of the model']):.3f}), worker intervals cover {mean(rows.covered):.1%} by crowd, "
        f"{rows.covered_n.sum() / rows.workers.sum():.1%} of {rows.workers.sum():.0f} workers "
        f"(model {rows.covered_by_model.sum() / rows.workers.sum():.1%})"
    )


def read(folder: Path) -> list[Measured]:
    crowds = []
    for place in sorted(path.parent for path in folder.glob("*/truth.csv")):
        labels = read_labels(pd.read_csv(place / "labels.csv", dtype=str))
        answers = pd.read_csv(place / "truth.csv", dtype=str)
        classes = {str(name): code for code, name in enumerate(labels.class_names)}
        answer = {task: classes.get(label, -1) for task, label in zip(answers.task, answers.label, strict=True)}
        truth = np.array([answer.get(str(task), -1) for task in labels.task_names])
        crowds.append(measure(place.name, labels, truth))
    return crowds


def simulated(number: int) -> list[Measured]:
    crowds = []
    for seed in range(number):
        rng = np.random.default_rng([2026, seed])
        n_classes, n_workers = int(rng.choice([2, 2, 3, 4, 6])), int(np.exp(rng.uniform(np.log(6), np.log(150))))
        each, n_tasks = (
            int(rng.integers(3, min(n_workers, 12) + 1)),
            int(np.exp(rng.uniform(np.log(100), np.log(4000)))),
        )
        one = crowd(
            n_tasks, n_workers, n_classes, labels_per_task=each, kind=("skilled", "one-coin", "mixed")[seed % 3],
            skill=(float(rng.uniform(0.5, 0.75)), 0.95), activity=float(rng.choice([0.0, 0.7])), random_state=rng,
        )  # fmt: skip
        labels = one.coded()
        accuracy = np.where(labels.per_worker > 0, one.accuracy, np.nan)
        crowds.append(measure(f"simulated{seed}", labels, np.asarray(one.answers, np.int64), accuracy))
    return crowds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="by default the real crowds of the tests")
    parser.add_argument("--shown", nargs="*", default=["bluebird", "dog", "dog52", "labelme", "rte", "trec"])
    parser.add_argument("--simulated", type=int, default=150)
    asked = parser.parse_args()
    crowds = read(data_folder("crowd") if asked.folder is None else asked.folder)
    print(f"learned from {len(crowds)} crowds: {learn(crowds)}\nin use: {EXPERIENCE}\n")
    rows = pd.DataFrame([row_of(one, learn([other for other in crowds if other.group != one.group])) for one in crowds])
    shown = rows.drop(columns=["covered_n", "covered_by_model"])
    print(f"| {' | '.join(shown)} |\n|{'---|' * shown.shape[1]}")
    for row in shown.itertuples(index=False):
        print("| " + " | ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row) + " |")
    print()
    weights = weights_of(crowds)
    conclude(rows, weights, "left out in turn")
    chosen = rows.crowd.isin(asked.shown).to_numpy()
    if chosen.any():
        conclude(rows[chosen], np.ones(int(chosen.sum())), f"of these {', '.join(rows.crowd[chosen])}")
    if asked.simulated:
        fitted = simulated(asked.simulated)
        rows = pd.DataFrame([row_of(one, EXPERIENCE) for one in fitted])
        conclude(rows, np.ones(len(rows)), f"{len(rows)} simulated crowds, constants in use")
        outside = rows[rows.inside == 0]
        print(f"  outside: {(outside.actual < outside.low).sum()} below, {(outside.actual > outside.high).sum()} above")
        print(f"  mean weight of experience {rows.weight.mean():.2f}; TUNING {TUNING}")


if __name__ == "__main__":
    main()
