"""Mixtures of parts: first profiles, and the fractions that known profiles leave.

    x_s = Σ_k w_sk h_k + noise,    w_s on the simplex,    0 ≤ h_k ≤ 1

With known profiles Σ_k w_sk may also be at most one (a part of the sample is in no profile), or anything (w_s ≥ 0).

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018, Appendix N: methylation x_s of a blood sample s is a mixture of
          the methylation h_k of its cell types, in fractions w_s. Known profiles make it one least-squares problem per
          sample (Houseman et al. 2012).
Needs     values and profiles in [0, 1]; more features than parts; blind: at least as many samples as parts
Promises  known profiles: the one minimum. Blind: initial profiles, no more
Differs   the paper takes h in {0, 1} and its tensor eigenpairs. Real profiles lie between, and on its own data set
          fractions by its procedure are about twice as far off (.067) as blind ones from profiles in [0, 1] (.035)

Symbols   paper  here                 shape   meaning
          X      values, observed     (n, m)  samples × features (the paper: features × samples); which cells are there
          W      fractions            (n, K)
          H      profiles             (K, m)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.simplex import box_least_squares, gram_of, products_of, simplex_least_squares

Bools = NDArray[np.bool_]
Constraint = Literal["sum_to_one", "sum_at_most_one", "nonnegative"]
"""What holds of a sample's fractions, beside that none is below zero."""


@dataclass(frozen=True)
class UnitValues:
    """Values in [0, 1] (sample, feature), zero where missing; `observed` is None where nothing is missing."""

    values: Floats
    observed: Bools | None

    @classmethod
    def of(cls, values: Floats) -> UnitValues:
        """From values with NaN where missing."""
        missing = np.isnan(values)
        return cls(np.where(missing, 0.0, values), ~missing) if missing.any() else cls(values, None)

    @property
    def n_cells(self) -> int:
        return self.values.size if self.observed is None else int(self.observed.sum())

    @property
    def transposed(self) -> UnitValues:
        turned = None if self.observed is None else np.ascontiguousarray(self.observed.T)
        return UnitValues(np.ascontiguousarray(self.values.T), turned)

    def filled(self) -> Floats:
        """Missing values replaced by the mean of their feature: for initialisation only."""
        if self.observed is None:
            return self.values
        mean = self.values.sum(axis=0) / np.maximum(self.observed.sum(axis=0), 1)
        return np.where(self.observed, self.values, mean)


def fractions_of(data: UnitValues, profiles: Floats, constraint: Constraint = "sum_to_one") -> Floats:
    """Fractions (n, K) of samples under known profiles; a sample's result does not depend on the other samples."""
    K = len(profiles)
    if constraint == "sum_at_most_one":  # what is in no profile is a part whose profile is zero
        profiles = np.concatenate([profiles, np.zeros((1, profiles.shape[1]))])
    out = np.empty((len(data.values), len(profiles)))
    complete = np.ones(len(out), bool) if data.observed is None else data.observed.all(axis=1)
    for rows, observed in ((complete, None), (~complete, None if data.observed is None else data.observed[~complete])):
        if rows.any():
            gram, product = gram_of(profiles, observed), products_of(data.values[rows], profiles)
            if constraint == "nonnegative":
                out[rows] = box_least_squares(gram, product, 0.0, np.inf, np.full_like(product, 1 / K))
            else:
                out[rows] = simplex_least_squares(gram, product)
    return out[:, :K]


def profiles_of(turned: UnitValues, fractions: Floats, initial: Floats | None = None) -> Floats:
    """Profiles (K, m) under known fractions; `turned` is the data feature by feature."""
    gram = gram_of(np.ascontiguousarray(fractions.T), turned.observed)
    initial = None if initial is None else np.ascontiguousarray(initial.T)
    return np.ascontiguousarray(box_least_squares(gram, turned.values @ fractions, start=initial).T)


def extreme_samples(data: UnitValues, n_parts: int) -> Floats:
    """The samples furthest apart as profiles: successive projection (Araújo et al. 2001), the mean taken away first."""
    filled = data.filled()
    rest = filled - filled.mean(axis=0)
    chosen: list[int] = []
    for _ in range(n_parts):
        length = (rest**2).sum(axis=1)
        length[chosen] = -1.0
        chosen.append(int(length.argmax()))
        direction = rest[chosen[-1]]
        rest = rest - np.outer(rest @ direction / max(float(direction @ direction), 1e-300), direction)
    return filled[chosen]


def random_profiles(turned: UnitValues, n_parts: int, rng: np.random.Generator) -> Floats:
    """Profiles of fractions drawn evenly from the simplex."""
    return profiles_of(turned, rng.dirichlet(np.ones(n_parts), size=turned.values.shape[1]))
