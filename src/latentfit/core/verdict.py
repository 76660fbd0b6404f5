"""Verdict of a fit with its reasons and quantities, and confidence intervals of proportions."""

from __future__ import annotations

from dataclasses import dataclass, field
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

Verdict = Literal["trusted", "caution", "not identifiable"]
FEWEST = 10
"""Rows, documents or steps below which nothing is trusted."""
_ORDER: tuple[Verdict, ...] = ("trusted", "caution", "not identifiable")


@dataclass(frozen=True)
class Examination:
    """Outcome of the diagnostics: reasons are full sentences, the verdict is the worst of their levels."""

    verdict: Verdict
    reasons: list[str]
    quantities: dict[str, Any]


@dataclass
class Examiner:
    """Collects the findings of the diagnostics."""

    quantities: dict[str, Any] = field(default_factory=dict)
    found: list[tuple[Verdict, str]] = field(default_factory=list)

    def doubt(self, level: Verdict, sentence: str) -> None:
        """Add a finding."""
        self.found.append((level, sentence))

    def doubt_few(self, number: float, things: str) -> None:
        """Add a finding if the sample is smaller than `FEWEST`."""
        if number < FEWEST:
            self.doubt("caution", f"{number:g} {things} are too few for any conclusion; at least {FEWEST} are needed.")

    def doubt_stopped(self, converged: bool, climb: str = "EM", what: str = "the figures") -> None:
        """Add a finding if the algorithm stopped at its limit of iterations."""
        if not converged:
            message = f"{climb} stopped before it converged, so {what} may still change"
            self.doubt("caution", f"{message}; raise max_iter (--max-iter).")

    def conclude(self) -> Examination:
        worst = max((_ORDER.index(level) for level, _ in self.found), default=0)
        ranked = sorted(self.found, key=lambda item: -_ORDER.index(item[0]))
        return Examination(_ORDER[worst], [sentence for _, sentence in ranked], dict(self.quantities))


@dataclass(frozen=True)
class FitReport:
    """Report of a fit: what `report_` holds.

    Attributes
    ----------
    verdict : {"trusted", "caution", "not identifiable"}
        The worst level among the findings.
    reasons : list of str
        One sentence per finding, the worst first; each ends with a suggestion.
    quantities : dict
        The numbers behind the verdict, by name.
    notes : list of str
        How the data were read and the model was fitted.
    seconds : dict of str to float
        Wall-clock seconds per stage of the fit.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> report = LatentClass(2).fit([["grey", "rain"], ["blue", "sun"], ["blue", "rain"]] * 20).report_
    >>> report.verdict in ("trusted", "caution", "not identifiable"), type(report.reasons).__name__
    (True, 'list')
    """

    verdict: Verdict
    reasons: list[str]
    quantities: dict[str, Any] = field(repr=False)
    notes: list[str]
    seconds: dict[str, float] = field(repr=False)

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}"]
        lines += [f"  - {reason}" for reason in self.reasons]
        lines += [f"note: {note}" for note in self.notes]
        lines.append("seconds: " + ", ".join(f"{stage} {value:.3f}" for stage, value in self.seconds.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as HTML, for notebooks."""
        colour = {"trusted": "#1a7f37", "caution": "#9a6700", "not identifiable": "#cf222e"}[self.verdict]
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        seconds = ", ".join(f"{escape(stage)} {value:.3f}" for stage, value in self.seconds.items())
        return (
            f'<div><b style="color:{colour}">verdict: {self.verdict}</b><ul>{reasons}</ul>'
            f"<details><summary>how it was fitted</summary><ul>{notes}</ul>seconds: {seconds}</details></div>"
        )


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
    return FitReport(examination.verdict, examination.reasons, examination.quantities, notes, dict(clock.seconds))
