"""What is expected to be wrong in a consensus: what the model sees, and what experience with public crowds adds.

Workers err together on hard tasks, and what all of them get wrong no model of the labels alone can see: on public
crowds with known truth the error of the consensus was two to three times what the model expected. Two things are done
about it.

*What can be seen.* In Dawid and Skene's model the errors of two workers are independent given the class. With
e_m the residual of worker m's label, a vector over the labels, given class k,

.. math:: x_i = \\sum_k p_{ik} \\sum_{m<j} e_{mk} \\cdot e_{jk}

has mean zero on every task if the model is true, p being the posterior. Its sum, divided by what it would be if errors
were perfectly correlated, is the *correlation of errors*; (Σ x²)^½ gives its standard error.

*What cannot.* Public crowds with truth set three things, once (`Experience`): the exponent below one that makes the
probabilities of their consensus predict the truth best (a temperature), the spread of their actual error about the
expected one, and the distribution of their correlations of errors. By Bayes' rule the correlation of a new crowd says
how probable it is that the crowd is like them; with that `weight` experience counts, and the model with the rest. Where
the model is true and the labels are enough to see it, the weight goes to zero and the model's own figure stays.

Paper     Guo et al. 2017 for the temperature; nothing published for the rest
Needs     tasks with two labels or more
Promises  the stated 80 % interval held the actual error of 22 of 28 public crowds, each left out in turn with those
          that share its tasks; of 139 of 150 simulated crowds, where the model is true
Differs   truth labels set constants here, and nowhere else in the package

Symbols   here           shape        meaning
          correlation    –            correlation of the errors of two workers on one task
          weight         –            probability that errors are correlated as in public crowds
          beta           –            exponent of the model's probabilities that predicts left-out labels best
          exponent       –            exponent of the reported probabilities: beta · temperature^weight
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import bdtr, expit, logit, xlog1py, xlogy

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.verdict import Expectation
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.data.stored import sample_fraction

BlockPosterior = Callable[[int, Labels], Floats]
"""From the index of a block's first task, and the block, to the posterior of its tasks (n, K)."""


@dataclass(frozen=True)
class Experience:
    """Constants learned from public crowds with known truth; ``benchmarks/labels_experience.py`` prints them.

    The crowds (28, in 22 groups that share no tasks; each group counts once): aircrowd6, adult, bluebird, bm, CF,
    CF_amt, dog, dog52, face, fact, fej2013, labelme, leaves, music, product, relevance, reuters, rte, SP, SP_amt, temp,
    trec, tweets, valence5, web, wsd, ZenCrowd_in, ZenCrowd_us. Where they come from: docs/guide/labels/verdict.md.
    """

    # Exponent, in addition to beta, of the probabilities: the geometric mean of the one with the least log-loss (0.45)
    # and the one whose expected error is right on average (0.55).
    temperature: float = 0.5
    # Standard deviation of logit(actual error) about logit(expected error under that exponent).
    spread: float = 0.71
    # Mean and standard deviation of log(correlation of errors).
    log_correlation: tuple[float, float] = (-3.3, 0.62)
    # 10 %, 50 % and 90 % quantiles of actual error / error that the model expects.
    ratios: tuple[float, float, float] = (1.1, 2.4, 4.7)
    # Probability, before the labels are seen, that errors are correlated: true of nearly all public crowds, of no
    # simulated one. Not estimated.
    prior: float = 0.8


@dataclass(frozen=True)
class Tuning:
    """Constants that no truth has set, each with its reason."""

    # Coverage of the interval of the expected error.
    coverage: float = 0.8
    # Labels · K² looked at for the correlation of errors; larger crowds are sampled by the content of their tasks.
    work: int = 20_000_000
    # Errors are compared on the logit scale; below this expected error all are alike.
    least_error: float = 5e-4
    # Where the model is true: how much less than expected errors may be for every unit of log-odds by which beta raises
    # the model's own expectation beyond the first, and their spread without and per such unit (simulated crowds).
    overstated: float = 0.3
    model_spread: float = 0.5
    spread_by_rise: float = 0.2


EXPERIENCE = Experience()
TUNING = Tuning()
LOG_ODDS: Floats = np.linspace(-9.0, 6.0, 601)
"""Log-odds of the error at which its distribution is computed."""
CORRELATIONS: Floats = np.geomspace(1e-3, 1.0, 200)
"""Correlations of errors over which public crowds are averaged."""


@dataclass(frozen=True)
class Calibration:
    """What is known about the errors of a crowd without truth.

    `beta` is the model's own exponent, `correlation` that of the errors of two workers on one task, with its
    `standard_error` (infinite where no task has two labels).
    """

    beta: float = 1.0
    correlation: float = 0.0
    standard_error: float = float("inf")
    experience: Experience = EXPERIENCE

    @cached_property
    def weight(self) -> float:
        """Probability that errors are correlated as in public crowds."""
        return experience_weight(self.correlation, self.standard_error, self.experience)

    @property
    def exponent(self) -> float:
        """The exponent of the reported probabilities."""
        return float(self.beta * self.experience.temperature**self.weight)

    @property
    def experienced(self) -> float:
        """The exponent if errors are correlated as in public crowds."""
        return self.beta * self.experience.temperature


def calibrate(labels: CodedLabels, mixture: Mixture, beta: float) -> Calibration:
    """The calibration of a fitted crowd with the model's own exponent `beta`."""
    return Calibration(beta, *error_correlation(labels, mixture))


# -----------------------------------------------------------------------------
# Correlation of errors


def error_correlation(labels: CodedLabels, mixture: Mixture) -> tuple[float, float]:
    """Correlation of the errors of two workers on one task, and its standard error; (0, inf) where no two can err."""
    K = labels.n_classes
    fraction = TUNING.work / max(labels.n_labels * K * K, 1)
    sample = labels.task_slice(0, labels.n_rows) if fraction >= 1 else sample_fraction(labels, fraction, 0)
    sample = sample.without_gold()
    products, scale = residual_products(sample, mixture)
    if not scale > 0:
        return 0.0, float("inf")
    return float(products.sum()) / scale, float(np.sqrt(np.square(products).sum())) / scale


def residual_products(labels: Labels, mixture: Mixture) -> tuple[Floats, float]:
    """x of every task, and what the sum of all would be if errors were perfectly correlated.

    Of repeated answers of a worker to a task only the first counts: only different workers are multiplied.
    """
    n, K = labels.n_rows, labels.n_classes
    posterior, _ = posterior_of(MemoryEngine(labels), mixture)
    confusions = unstack_confusions(mixture)
    task, worker, given = labels.task_of(), labels.workers, labels.given
    answer = labels.answer_of()
    if answer is not None:
        first = np.diff(answer, prepend=-1) > 0
        task, worker, given = task[first], worker[first], given[first]
    design = sp.csr_array((np.ones(len(task)), (task, worker)), (n, labels.n_workers))
    said = sp.csr_array((np.ones(len(task)), (task, given)), (n, K)).toarray()
    x, scale = np.zeros(n), 0.0
    for k in range(K):
        usual = np.ascontiguousarray(confusions[:, k])  # (worker, given)
        residual = said - design @ usual
        own_squares = 1 - 2 * usual[worker, given] + np.square(usual).sum(axis=1)[worker]
        squares = np.bincount(task, own_squares, n)
        x += posterior[:, k] * (np.square(residual).sum(axis=1) - squares) / 2
        variance = usual * (1 - usual)
        perfect = np.square(design @ np.sqrt(variance)).sum(axis=1) - design @ variance.sum(axis=1)
        scale += float(posterior[:, k] @ perfect) / 2
    return x, scale


def experience_weight(correlation: float, standard_error: float, experience: Experience = EXPERIENCE) -> float:
    """Probability that errors are correlated as in public crowds, given the estimate; a negative one counts as zero."""
    if not np.isfinite(standard_error):
        return experience.prior
    estimate, error = max(correlation, 0.0), max(standard_error, 1e-6)
    mean, deviation = experience.log_correlation
    density = np.exp(-0.5 * ((np.log(CORRELATIONS) - mean) / deviation) ** 2)
    # The ratio of two normal likelihoods by the difference of their exponents, which does not underflow.
    exponent = CORRELATIONS * (estimate - CORRELATIONS / 2) / error / error  # no squares, which can overflow
    top = float(exponent.max())
    likelihood = np.log((density * np.exp(exponent - top)).sum() / density.sum()) + top
    return float(expit(likelihood + logit(experience.prior)))


# -----------------------------------------------------------------------------
# Expected error and its interval


@dataclass(frozen=True)
class ExpectedErrors:
    """Expected error of the consensus over tasks that have labels and no known answer (`n_tasks`).

    By the model's own posterior (`own`), with the exponent beta (`model`), as in public crowds (`experienced`), and as
    `stated`. Of `n_known` tasks with a known answer the labels alone get `n_wrong` wrong, where `stated_known` of them
    would have been stated.
    """

    n_tasks: int
    own: float
    model: float
    experienced: float
    stated: float
    n_known: int = 0
    n_wrong: int = 0
    stated_known: float = 0.0


def temper(posterior: Floats, exponent: float) -> Floats:
    """The posterior (n, K) to a power, normalised."""
    tempered = posterior**exponent
    return np.asarray(tempered / tempered.sum(axis=1, keepdims=True))


def expected_errors(
    labels: CodedLabels, mixture: Mixture, calibration: Calibration, consensus: BlockPosterior | None = None
) -> ExpectedErrors:
    """The expected errors of a fitted crowd, block by block; `consensus` answers where the mixture does not."""
    exponents = (1.0, calibration.beta, calibration.experienced, calibration.exponent)
    sums: Floats = np.zeros(len(exponents))
    begin = n_tasks = n_known = n_wrong = 0
    stated_known = 0.0
    for block in labels.blocks():
        posterior, _ = posterior_of(MemoryEngine(block.without_gold()), mixture)
        answer = (posterior if consensus is None else consensus(begin, block)).argmax(axis=1)
        counted = np.diff(block.offsets) > 0
        if block.gold is not None:
            known = counted & (block.gold >= 0)
            n_known += int(known.sum())
            n_wrong += int((posterior[known].argmax(axis=1) != block.gold[known]).sum())
            tempered = temper(posterior[known], calibration.exponent)
            stated_known += float((1 - tempered.max(axis=1, initial=0.0)).sum())
            counted &= ~known
        rows, answer = np.arange(int(counted.sum())), answer[counted]
        sums += [float((1 - temper(posterior[counted], power)[rows, answer]).sum()) for power in exponents]
        begin, n_tasks = begin + block.n_rows, n_tasks + len(rows)
    own, model, experienced, stated = (sums / max(n_tasks, 1)).tolist()
    return ExpectedErrors(n_tasks, own, model, experienced, stated, n_known, n_wrong, stated_known / max(n_known, 1))


def error_distribution(errors: ExpectedErrors, calibration: Calibration) -> Floats:
    """Probability of each of `LOG_ODDS` of the actual error, before known answers are looked at.

    With the probability `calibration.weight` the actual error lies about the one under the experienced exponent, as in
    public crowds; else about the model's own, from which it differs the more the more beta has changed it.
    """
    own, model, experienced = (
        float(logit(np.clip(error, TUNING.least_error, 1 - TUNING.least_error)))
        for error in (errors.own, errors.model, errors.experienced)
    )
    rise = max(model - own, 0.0)
    centre = model - TUNING.overstated * max(rise - 1, 0.0)
    parts = (
        (calibration.weight, experienced, calibration.experience.spread),
        (1 - calibration.weight, centre, TUNING.model_spread + TUNING.spread_by_rise * rise),
    )
    density = np.zeros(len(LOG_ODDS))
    for probability, middle, deviation in parts:
        part = np.exp(-0.5 * ((LOG_ODDS - middle) / deviation) ** 2)
        density += probability * part / part.sum()
    return np.asarray(density)


def after_known_answers(density: Floats, n_known: int, n_wrong: int) -> Floats:
    """The distribution once `n_wrong` of `n_known` known answers differ from the consensus of the labels."""
    error = expit(LOG_ODDS)
    log_likelihood = xlogy(n_wrong, error) + xlog1py(n_known - n_wrong, -error)
    updated = density * np.exp(log_likelihood - log_likelihood.max())
    return np.asarray(updated / updated.sum())


def median(density: Floats) -> float:
    """The median of the log-odds."""
    return float(np.interp(0.5, np.cumsum(density), LOG_ODDS))


def error_interval(density: Floats, n_tasks: int, coverage: float) -> tuple[float, float]:
    """Interval of the proportion of errors among `n_tasks` tasks: quantiles of their number, over that."""
    error = expit(LOG_ODDS)

    def quantile(level: float) -> float:
        low, high = -1, n_tasks  # P(at most low errors) < level <= P(at most high)
        while high - low > 1:
            middle = (low + high) // 2
            if float(density @ bdtr(middle, n_tasks, error)) < level:
                low = middle
            else:
                high = middle
        return high / n_tasks

    tail = (1 - coverage) / 2
    return quantile(tail), quantile(1 - tail)


def expectation_of(errors: ExpectedErrors, calibration: Calibration, n_classes: int) -> Expectation:
    """Expected error of the consensus with its interval, and the sentence that explains it."""
    quantity = "error of the consensus"
    if n_classes < 2 or errors.n_tasks == 0:
        sentence = (
            "The labels hold one class only, so no error can be expected or excluded."
            if n_classes < 2
            else "Every labelled task has a known answer, so no error of the consensus is expected."
        )
        return Expectation(quantity, 0.0, coverage=TUNING.coverage, sentence=sentence)
    prior = error_distribution(errors, calibration)
    density, value = prior, errors.stated
    if errors.n_known:
        density = after_known_answers(prior, errors.n_known, errors.n_wrong)
        least = TUNING.least_error
        moved = logit(np.clip(value, least, 1 - least)) + median(density) - median(prior)
        value = float(expit(moved))
    low, high = error_interval(density, errors.n_tasks, TUNING.coverage)
    low, high = min(low, value), max(high, value)
    return Expectation(quantity, value, low, high, TUNING.coverage, _sentence(errors, calibration, value, low, high))


def _sentence(errors: ExpectedErrors, calibration: Calibration, value: float, low: float, high: float) -> str:
    least, typical, most = calibration.experience.ratios
    model = f"The model expects {_percent(errors.model)} of the consensus to be wrong"
    expect = f"expect {_percent(value)}, between {_percent(low)} and {_percent(high)} ({TUNING.coverage:.0%} interval)"
    if errors.n_known:
        return (
            f"{model}; of {errors.n_known:,} known answers the labels alone get {errors.n_wrong:,} wrong, so {expect}."
        )
    if calibration.weight < 0.5:
        return (
            f"{model}, and workers err independently as far as the labels show (correlation of errors "
            f"{calibration.correlation:.3f}, standard error {calibration.standard_error:.3f}), so {expect}; ten known "
            "answers per class (--gold) would tell."
        )
    return (
        f"{model}; on public crowds the actual error was {least:.1f} to {most:.1f} times what the model expected "
        f"(median {typical:.1f}), so {expect}; ten known answers per class (--gold) would tell."
    )


def _percent(proportion: float) -> str:
    """A proportion in percent with two significant digits where it is small."""
    return (
        f"{proportion:.2%}"
        if proportion < 0.00995
        else f"{proportion:.1%}"
        if proportion < 0.0995
        else f"{proportion:.0%}"
    )
