"""What a fit says about itself: a verdict in words, the reasons, the numbers behind them, what was chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

WORST_CONDITION = 1e15
"""Condition number of a singular matrix, as far as double precision can tell."""
LARGEST_LOG = 700.0
"""Logarithm of the largest number written out: what is beyond is as good as infinite."""

Verdict = Literal["trusted", "caution", "not identifiable"]
FEWEST = 10
"""Rows, documents or steps below which nothing is trusted."""
_ORDER: tuple[Verdict, ...] = ("trusted", "caution", "not identifiable")


@dataclass(frozen=True)
class Examination:
    """The outcome of a diagnosis: reasons are full sentences, the verdict is the worst of their levels."""

    verdict: Verdict
    reasons: list[str]
    quantities: dict[str, Any]


@dataclass
class Examiner:
    """Collects findings while a diagnosis runs."""

    quantities: dict[str, Any] = field(default_factory=dict)
    found: list[tuple[Verdict, str]] = field(default_factory=list)

    def doubt(self, level: Verdict, sentence: str) -> None:
        self.found.append((level, sentence))

    def doubt_few(self, number: float, things: str) -> None:
        """A handful of rows fits any model: nothing about it can be trusted."""
        if number < FEWEST:
            self.doubt("caution", f"{number:g} {things} show too little for any answer; bring {FEWEST} at the least.")

    def doubt_stopped(self, converged: bool, climb: str = "EM", what: str = "the figures") -> None:
        """A climb that was cut short may not have arrived."""
        if not converged:
            still = f"{climb} stopped before it stood still, so {what} may still move"
            self.doubt("caution", f"{still}; raise max_iter (--max-iter).")

    def conclude(self) -> Examination:
        worst = max((_ORDER.index(level) for level, _ in self.found), default=0)
        ranked = sorted(self.found, key=lambda item: -_ORDER.index(item[0]))
        return Examination(_ORDER[worst], [sentence for _, sentence in ranked], dict(self.quantities))


@dataclass(frozen=True)
class FitReport:
    """What `report_` holds.

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
        """The same for notebooks."""
        colour = {"trusted": "#1a7f37", "caution": "#9a6700", "not identifiable": "#cf222e"}[self.verdict]
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        seconds = ", ".join(f"{escape(stage)} {value:.3f}" for stage, value in self.seconds.items())
        return (
            f'<div><b style="color:{colour}">verdict: {self.verdict}</b><ul>{reasons}</ul>'
            f"<details><summary>how it was fitted</summary><ul>{notes}</ul>seconds: {seconds}</details></div>"
        )
