"""Can ancestry proportions be trusted? The verdict, with the numbers behind it."""

from __future__ import annotations

import numpy as np

from tacit.diagnose.report import Examination, Examiner
from tacit.engine.mixture import Floats


def examine_ancestry(shares: Floats, frequencies: Floats, *, n_calls: int, converged: bool) -> Examination:
    """Diagnose a fitted admixture model; `frequencies` are those that proportions were fitted with."""
    examiner = Examiner()
    examiner.quantities |= {"n_people": len(shares), "n_snps": len(frequencies), "n_calls": n_calls}
    if not converged:
        examiner.doubt("caution", "The climb stopped before it stood still, so figures may still move; raise max_iter.")
    return examiner.conclude()
