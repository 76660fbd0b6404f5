"""Verdict of a fit: named checks with their values and limits, what the model expects to be wrong, and intervals.

A family's diagnostics put their checks to an `Examiner`. The verdict is the worst level among the checks that failed;
`ok` says no more than that no check found a problem, so what the model itself expects to be wrong stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

import numpy as np
from scipy.special import betaincinv, ndtri

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.progress import StageClock

WORST_CONDITION = 1e15
"""Condition number of a singular matrix, as far as double precision can tell."""
LARGEST_LOG = 700.0
"""Logarithm of the largest number written out; beyond it, infinity."""
FEWEST = 10
"""Rows, documents or steps below which no conclusion is drawn."""

Verdict = Literal["ok", "caution", "not identifiable"]
VERDICTS: tuple[Verdict, ...] = ("ok", "caution", "not identifiable")
"""From good to bad."""
_COLOURS = {"ok": "#1a7f37", "caution": "#9a6700", "not identifiable": "#cf222e"}


@dataclass(frozen=True)
class Check:
    """One diagnostic check of a fit.

    Attributes
    ----------
    name : str
        Identifier, such as ``"residual_dependence"``; the same in every fit of a family.
    title : str
        What is checked, as a noun phrase.
    passed : bool
        Whether the check found no problem.
    value, limit : float or None
        What was measured, and the limit it was compared with; None where the check is yes or no.
    p_value : float or None
        Probability of such a value if there were no problem, where the null distribution is known.
    level : {"caution", "not identifiable"}
        What the verdict becomes when the check fails.
    reason : str
        If it failed, one sentence: what was found, the limit, why it matters, what to do.
    """

    name: str
    title: str
    passed: bool
    value: float | None = None
    limit: float | None = None
    p_value: float | None = None
    level: Verdict = "caution"
    reason: str = ""


@dataclass(frozen=True)
class Expectation:
    """What the model itself expects to be wrong in its answer.

    Attributes
    ----------
    quantity : str
        What is expected, such as ``"error of the consensus"``.
    value : float
        The expected value.
    low, high : float or None
        Interval of the value, where one is known.
    coverage : float
        Stated coverage of the interval.
    sentence : str
        The same as a sentence for pages and messages.
    """

    quantity: str
    value: float
    low: float | None = None
    high: float | None = None
    coverage: float = 0.8
    sentence: str = ""


@dataclass(frozen=True)
class Examination:
    """Outcome of the diagnostics."""

    checks: list[Check]
    quantities: dict[str, Any]
    expected: Expectation | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst level among the failed checks."""
        return max((check.level for check in self.checks if not check.passed), key=VERDICTS.index, default="ok")

    @property
    def reasons(self) -> list[str]:
        """Sentences of the failed checks, the worst first."""
        failed = [check for check in self.checks if not check.passed]
        return [check.reason for check in sorted(failed, key=lambda check: -VERDICTS.index(check.level))]


@dataclass
class Examiner:
    """Collects the checks of a fit and the quantities behind them."""

    quantities: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    expected: Expectation | None = None

    def check(
        self, name: str, title: str, passed: bool | np.bool_, reason: str, *, value: float | None = None,
        limit: float | None = None, p_value: float | None = None, level: Verdict = "caution",
    ) -> bool:  # fmt: skip
        """Add a check, and return whether it passed; `reason` is the sentence for the case that it failed."""
        measured, bound, tail = (None if number is None else float(number) for number in (value, limit, p_value))
        said = "" if passed else reason
        self.checks.append(Check(name, title, bool(passed), measured, bound, tail, level, said))
        return bool(passed)

    def check_size(self, number: float, things: str) -> bool:
        """Check that the sample is not smaller than `FEWEST`."""
        return self.check(
            "sample_size", f"At least {FEWEST} {things}", number >= FEWEST,
            f"{number:g} {things} are too few for any conclusion; at least {FEWEST} are needed, so bring more.",
            value=number, limit=FEWEST,
        )  # fmt: skip

    def check_converged(self, converged: bool, algorithm: str = "EM", what: str = "the figures") -> bool:
        """Check that the algorithm did not stop at its limit of iterations."""
        return self.check(
            "converged", f"{algorithm} converged", converged,
            f"{algorithm} stopped before it converged, so {what} may still change; raise max_iter (--max-iter).",
        )  # fmt: skip

    @property
    def failed(self) -> list[Check]:
        """The checks that failed so far."""
        return [check for check in self.checks if not check.passed]

    def conclude(self) -> Examination:
        """The outcome."""
        return Examination(list(self.checks), dict(self.quantities), self.expected)


_skipped: ContextVar[bool] = ContextVar("checks_skipped", default=False)


@contextmanager
def skipped_checks() -> Iterator[None]:
    """Within it, reports of fits are made without any check (``--no-checks``)."""
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def checks_are_skipped() -> bool:
    """Whether ``--no-checks`` was given."""
    return _skipped.get()


def unchecked() -> Examination:
    """The outcome where the checks were skipped: nothing is known, which is not `ok`."""
    examiner = Examiner()
    examiner.check(
        "checks_made", "Checks were made", False,
        "The checks were skipped (--no-checks), so nothing is known about this fit; fit again without --no-checks for "
        "a verdict.",
    )  # fmt: skip
    return examiner.conclude()


@dataclass(frozen=True)
class FitReport:
    """Report of a fit: what `report_` holds.

    Attributes
    ----------
    verdict : {"ok", "caution", "not identifiable"}
        The worst level among the failed checks. `ok` means that no check found a problem; it is no promise.
    reasons : list of str
        One sentence per failed check, the worst first; each ends with a suggestion.
    quantities : dict
        The numbers behind the verdict, by name.
    notes : list of str
        How the data were read and the model was fitted.
    seconds : dict of str to float
        Wall-clock seconds per stage of the fit.
    checks : list of Check
        Every check that was made, passed or not. Empty for models that were saved by version 0.1.0.
    expected : Expectation or None
        What the model itself expects to be wrong.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> report = LatentClass(2).fit([["grey", "rain"], ["blue", "sun"], ["blue", "rain"]] * 20).report_
    >>> report.verdict in ("ok", "caution", "not identifiable"), type(report.reasons).__name__
    (True, 'list')
    >>> [check.passed for check in report.checks if check.name == "converged"]
    [True]
    """

    verdict: Verdict
    reasons: list[str]
    quantities: dict[str, Any] = field(repr=False)
    notes: list[str]
    seconds: dict[str, float] = field(repr=False)
    checks: list[Check] = field(default_factory=list, repr=False)
    expected: Expectation | None = None

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        return headline(self.verdict, len(self.checks))

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}. {self.headline}"]
        lines += [f"  - {reason}" for reason in self.reasons]
        lines += [f"expected: {self.expected.sentence}"] if self.expected is not None else []
        lines += [f"note: {note}" for note in self.notes]
        lines.append("seconds: " + ", ".join(f"{stage} {value:.3f}" for stage, value in self.seconds.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as HTML, for notebooks."""
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        expected = f"<p>{escape(self.expected.sentence)}</p>" if self.expected is not None else ""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        seconds = ", ".join(f"{escape(stage)} {value:.3f}" for stage, value in self.seconds.items())
        return (
            f'<div><b style="color:{_COLOURS[self.verdict]}">verdict: {self.verdict}</b> {escape(self.headline)}'
            f"<ul>{reasons}</ul>{expected}"
            f"<details><summary>how it was fitted</summary><ul>{notes}</ul>seconds: {seconds}</details></div>"
        )


def headline(verdict: str, n_checks: int = 0) -> str:
    """A verdict as a sentence: a statement about checks, not a promise."""
    if verdict == "ok":
        made = f" by {n_checks} checks" if n_checks else ""
        return f"No problem found{made}."
    return "Use this result with caution." if verdict == "caution" else "The data do not determine this result."


def state_of(report: FitReport) -> dict[str, Any]:
    """A report as a model file holds it, quantities and notes apart."""
    return {
        "verdict": report.verdict,
        "reasons": list(report.reasons),
        "checks": [asdict(check) for check in report.checks],
        "expected": None if report.expected is None else asdict(report.expected),
    }


def summary_of(report: FitReport) -> dict[str, Any]:
    """What summary.json says of a report."""
    return {**state_of(report), "headline": report.headline}


# -----------------------------------------------------------------------------
# Confidence intervals of a proportion; the number of rows may be an effective one.
#
# Paper     Wilson 1927; Brown, Cai & DasGupta 2001 for Jeffreys' interval
# Needs     a proportion, and the (effective) number of rows it is estimated from
# Promises  intervals inside [0, 1] that cover at its ends, where the Wald interval does not
# Differs   the number of rows need not be whole
#
# Symbols   here     shape   meaning
#           p, n     any     proportion, rows
#           z        —       standard errors: 1.96 for 95 %

NO_ROW = 0.5
"""Fewer rows than this round to none: nothing was observed, and the interval reaches the end."""


def standard_errors_of(level: float) -> float:
    """z such that a normal variable lies within z standard errors with probability `level`."""
    if not 0 < level < 1:
        raise DataError(f"level must be a number between 0 and 1, such as 0.95, got {level!r}")
    return float(ndtri((1 + level) / 2))


def wilson(p: Floats, n: Floats, z: float) -> tuple[Floats, Floats]:
    """Wilson's score interval for a proportion p of n rows."""
    scale = 1 + z**2 / n
    centre = (p + z**2 / (2 * n)) / scale
    half = z / scale * np.sqrt(p * (1 - p) / n + z**2 / (4 * np.square(n)))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def reach_ends(yes: Floats, no: Floats, interval: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The interval extended to 0 where no row says yes and to 1 where none says no, in spite of pseudo-counts."""
    low, high = interval
    return np.where(yes < NO_ROW, 0.0, low), np.where(no < NO_ROW, 1.0, high)


def reach_bounds(p: Floats, se: Floats, interval: tuple[Floats, Floats], z: float) -> tuple[Floats, Floats]:
    """The interval extended to 0 or 1 where z standard errors reach it."""
    low, high = interval
    return np.where(p - z * se <= 0, 0.0, low), np.where(p + z * se >= 1, 1.0, high)


def jeffreys(proportion: Floats, trials: Floats, coverage: float) -> tuple[Floats, Floats]:
    """Jeffreys' interval at (successes + ½) / (trials + 1) = proportion.

    As Brown, Cai & DasGupta advise, it reaches 0 when nothing succeeded and 1 when everything did.
    """
    alpha, beta = proportion * (trials + 1), (1 - proportion) * (trials + 1)
    tail = (1 - coverage) / 2
    low = np.where(alpha < 1, 0.0, betaincinv(alpha, beta, tail))
    high = np.where(beta < 1, 1.0, betaincinv(alpha, beta, 1 - tail))
    return np.minimum(low, proportion), np.maximum(high, proportion)


def make_report(examination: Examination, notes: list[str], clock: StageClock) -> FitReport:
    """The public report of a fit."""
    return FitReport(
        examination.verdict, examination.reasons, examination.quantities, notes, dict(clock.seconds),
        examination.checks, examination.expected,
    )  # fmt: skip
