"""Limits of the checks of switches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DiagnosticLimits:
    """Limits of the checks, and how much they look at."""

    # Fraction of the squares that must change from row to row: below it float64 sums of squares hold mostly
    # rounding.
    resolved: float = 1e-10
    examined: int = 12  # Conditions on P(h) are looked at up to so many switches.
    test_rows: int = 20_000  # Rows that rivals and halves are tested on, at most.
    always: float = 0.98  # A switch on in more rows than this is a baseline.
    # A switch this near to being on in half of the rows, and this little correlated with the others, has no
    # third moment of its own: condition (II) fails.
    even: float = 0.03
    apart: float = 0.05
    unstable: float = 0.4  # Relative change of a switch's weights between all rows and half of them.
    # The same of a switch that is on in half of the rows, whatever the others do: no moment confirms it.
    unstable_even: float = 0.2
    # √n Δ_n of a fitted switch beyond chance (true ones pass 1.95 once in a thousand), and the Δ_n that
    # matters.
    ks_limit: float = 2.2
    ks_effect: float = 0.02
    # EM iterations over half of the rows at most. Fits begin at the answer, and in one half, since the search takes
    # as long as that of the fit itself, from its own moments too.
    half_iterations: int = 60
    most_rejected: int = 200  # Scores of rejected candidates that are reported, the best first: a plot shows no more.
    # Features up to which unequal noise is looked for, and those among which noise is compared in pairs: it takes
    # some tens of decompositions.
    most_features: int = 200
    unequal: float = 1.5  # Ratio of the largest to the smallest noise of a feature that is reported.
    dependent: float = 0.2  # Correlation of the noise of two features that is reported.
    level: float = 0.001  # Level of the tests of residuals, over all features or pairs of them.
    # Fraction of the rows that lie beyond this quantile of χ² by chance, and the fraction that is reported.
    row_tail: float = 0.001
    outlying: float = 0.01
    repeated: float = 0.05  # Fraction of the rows that may repeat another one where there is noise.
    near: float = 1.02  # A further eigenvalue this much above its noise threshold means one switch more.
    # Level at which the observed cells are tested for a further switch where values are missing, which may hide
    # it: among trusted fits of a few hundred rows it found half of those with too few switches, and one in
    # twelve of the others.
    observed_alpha: float = 0.05
    most_missing: float = 0.3  # Fraction of missing cells up to which the checks on completed rows say something.
    # Rows that a weight needs: they show its feature while its switch is on, apart from the other switches.
    fewest_cells: float = 5.0
    fewest_rows: float = 20.0  # Rows in which two switches, or two groups of features, should be seen together.
    # Fraction of a switch's squared weights that a row must show to say whether it is on, beside small ones
    # elsewhere.
    seen: float = 0.5
    most_listed: int = 5  # Names a sentence lists at most.


LIMITS = DiagnosticLimits()
