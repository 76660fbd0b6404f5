"""The last stretch of a mixture's climb by a quasi-Newton method, where EM needs thousands of steps.

EM is slow where classes are hard to tell apart, and then says little about how far it still has to go. The statistics
of one pass hold the gradient too: with p = x² / Σ x² in every column of every class (and for the weights), where a
probability of zero is an ordinary point, ∂ objective / ∂x = 2 (n_k − n p_k) / x_k, n the expected counts with their
pseudo-counts. L-BFGS on x ends after some hundred passes where SQUAREM takes three thousand (docs/models/tables.md).

Paper     Liu & Nocedal 1989 (L-BFGS; SciPy's); gradient from the E-step: Louis 1982
Needs     a point that EM has brought near an optimum, and rows in memory
Promises  no result below the one it was given; whether it has converged is for EM to say, which goes on from there
Differs   roots in place of probabilities, so that no bounds are needed

Symbols   here    shape       meaning
          roots   (1+C, F)    x: the first row for the weights, then the stacked tables
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.optimize import minimize

from latentfit.core.em import Refined
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import TableSteps
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import Sums

MEMORY = 50
"""Steps that L-BFGS remembers; 20 need half as many passes again."""


class _SpentError(Exception):
    """The passes are spent."""


def quasi_newton(
    steps: TableSteps, refined: Refined[Mixture, Sums], max_iter: int, gain: float
) -> Refined[Mixture, Sums]:
    """Climb on until a step gains less than `gain` nats, in at most `max_iter` passes in all.

    `n_iter` counts passes; `path` has every rise. What comes back has not `converged`: EM confirms that.
    """
    first, sizes = refined.params.first, np.diff(refined.params.first)
    shape = (len(refined.params.table) + 1, refined.params.n_classes)
    best, n_iter, path = refined, refined.n_iter, list(refined.path)

    def value(flat: Floats) -> tuple[float, Floats]:
        nonlocal best, n_iter
        if n_iter >= max_iter:
            raise _SpentError
        roots = flat.reshape(shape)
        squares = np.square(roots)
        table = squares[1:] / np.repeat(np.add.reduceat(squares[1:], first[:-1], axis=0), sizes, axis=0)
        params = Mixture(squares[0] / squares[0].sum(), table, first)
        sums = steps.expect(params)
        objective = steps.objective(params, sums)
        n_iter += 1
        if objective > best.objective:
            path.append(objective)
            best = Refined(params, sums, objective, steps.log_likelihood(sums), n_iter, False, path)
        totals, counts = sums.totals + steps.prior.weights, sums.table + steps.prior.table
        rows = np.repeat(np.add.reduceat(counts, first[:-1], axis=0), sizes, axis=0)
        slope = np.vstack([(totals - totals.sum() * params.weights)[None], counts - rows * table])
        away = np.divide(2 * slope, roots, out=np.zeros(shape), where=roots != 0)
        return -objective, -away.ravel()

    roots = np.sqrt(np.vstack([refined.params.weights[None], refined.params.table])).ravel()
    enough = gain / max(abs(refined.objective), 1.0)  # SciPy's is relative
    options = {"maxcor": MEMORY, "ftol": enough, "gtol": 1e-9, "maxiter": max_iter, "maxfun": max_iter}
    with suppress(_SpentError):
        minimize(value, roots, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return Refined(best.params, best.sums, best.objective, best.log_likelihood, n_iter, False, path)
