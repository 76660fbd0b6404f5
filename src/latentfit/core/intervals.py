"""Intervals of a share that rests on so many rows, which may be an effective number.

Paper     Wilson 1927; Brown, Cai & DasGupta 2001 for Jeffreys' interval
Needs     a share, and how many rows would know it as well
Promises  intervals inside [0, 1] that hold at its ends, where a share plus or minus its error does not
Differs   the number of rows need not be whole

Symbols   here     shape   meaning
          p, n     any     share, rows
          z        —       standard errors: 1.96 for 95 %
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, ndtri

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

NO_ROW = 0.5
"""Fewer rows than this round to none: nothing was seen, and the interval reaches the end."""


def standard_errors_of(level: float) -> float:
    """z: a normal variable lies within so many standard errors with probability `level`."""
    if not 0 < level < 1:
        raise DataError(f"level={level} is no probability; give a number between 0 and 1, such as 0.95")
    return float(ndtri((1 + level) / 2))


def wilson(p: Floats, n: Floats, z: float) -> tuple[Floats, Floats]:
    """Wilson's score interval for a share p of n rows."""
    scale = 1 + z**2 / n
    centre = (p + z**2 / (2 * n)) / scale
    half = z / scale * np.sqrt(p * (1 - p) / n + z**2 / (4 * np.square(n)))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def reach_ends(yes: Floats, no: Floats, interval: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The interval, drawn out to 0 where no row says yes and to 1 where none says no: pseudo-counts hold it off."""
    low, high = interval
    return np.where(yes < NO_ROW, 0.0, low), np.where(no < NO_ROW, 1.0, high)


def reach_bounds(p: Floats, se: Floats, interval: tuple[Floats, Floats], z: float) -> tuple[Floats, Floats]:
    """The interval, drawn out to 0 or 1 where z standard errors reach it."""
    low, high = interval
    return np.where(p - z * se <= 0, 0.0, low), np.where(p + z * se >= 1, 1.0, high)


def jeffreys(share: Floats, trials: Floats, coverage: float) -> tuple[Floats, Floats]:
    """Jeffreys' interval at (successes + ½) / (trials + 1) = share.

    As Brown, Cai & DasGupta advise, it reaches 0 when nothing succeeded and 1 when everything did.
    """
    alpha, beta = share * (trials + 1), (1 - share) * (trials + 1)
    tail = (1 - coverage) / 2
    low = np.where(alpha < 1, 0.0, betaincinv(alpha, beta, tail))
    high = np.where(beta < 1, 1.0, betaincinv(alpha, beta, 1 - tail))
    return np.minimum(low, share), np.maximum(high, share)
