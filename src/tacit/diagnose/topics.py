"""Can topics be trusted? The verdict, with the numbers behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.documents import Documents
from tacit.diagnose.report import Examination, Examiner
from tacit.refine.choose_topics import TopicNumber

Floats = NDArray[np.float64]


def examine_topics(
    documents: Documents,
    topics: Floats,
    shares: Floats,
    weights: Floats,
    *,
    prior: tuple[float, float],
    number: TopicNumber | None,
    converged: bool,
    seed: int,
    n_jobs: int | None,
) -> Examination:
    """Diagnose fitted topics."""
    examiner = Examiner()
    if not converged:
        examiner.doubt("caution", "EM stopped before its gain fell below tol, so topics may still move; raise max_iter.")
    return examiner.conclude()
