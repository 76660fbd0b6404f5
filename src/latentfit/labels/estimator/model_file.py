"""What the model file of a crowd holds: the workers' tables, their quality, and what is expected of an unknown one.

It holds a `FittedCrowd`, not the estimator around it, because the command line writes it without scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.core.file_parts import (
    ROUNDING,
    Arrays,
    check_numbers,
    mixture_over,
    name_array,
    plain,
    plain_names,
    read_names,
    read_path,
    read_report,
    typed,
)
from latentfit.labels.diagnostics.workers import WorkerQuality
from latentfit.labels.estimator.crowd import FittedCrowd

QUALITY = ("accuracy", "accuracy_low", "accuracy_high")
"""Arrays of the model file that hold worker quality, beside `n_labels`."""


def crowd_state(crowd: FittedCrowd) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted crowd."""
    quality = crowd.quality
    arrays = {
        "weights": crowd.mixture.weights,
        "table": crowd.mixture.table,
        "pooled": crowd.pooled,
        "n_labels": np.asarray(quality.n_labels, np.int64),
        "accuracy": quality.accuracy,
        "accuracy_low": quality.low,
        "accuracy_high": quality.high,
        "objective_path": crowd.path,
    }
    metadata = {
        "classes": plain_names(crowd.class_names.tolist()),
        "workers": plain_names(crowd.worker_names.tolist()),
        "flags": [str(flag) for flag in quality.flag],
        "confidence": float(crowd.beta),
        "votes": crowd.votes,
        "n_iter": int(crowd.n_iter),
        "converged": bool(crowd.converged),
        "log_likelihood": float(crowd.log_likelihood),
        "objective": float(crowd.objective),
        "verdict": crowd.report.verdict,
        "reasons": crowd.report.reasons,
        "notes": crowd.report.notes,
        "quantities": plain(crowd.report.quantities),
    }
    return arrays, metadata


def restore_crowd(arrays: Arrays, metadata: dict[str, Any]) -> FittedCrowd:
    """The fitted crowd that `crowd_state` described; ValueError or KeyError when its parts do not fit together."""
    classes, workers = (name_array(read_names(metadata, what), what) for what in ("classes", "workers"))
    k, m = len(classes), len(workers)
    check_numbers(arrays, {"weights": (k,), "table": (m * k, k), "pooled": (k, k), **dict.fromkeys(QUALITY, (m,))})
    n_labels, flags = arrays["n_labels"], typed(metadata, "flags", list)
    if n_labels.shape != (m,) or n_labels.dtype != np.int64 or (n_labels < 0).any() or len(flags) != m:
        raise ValueError(f"n_labels or flags are not those of {m} workers")
    if (np.abs(arrays["pooled"].sum(axis=0) - 1) > ROUNDING).any():
        raise ValueError("pooled holds probabilities that do not sum to one")
    beta = typed(metadata, "confidence", float)
    if not 0 < beta <= 1 or typed(metadata, "n_iter", int) < 0:
        raise ValueError("confidence or n_iter cannot be")
    if "votes" not in metadata:  # the first files of 0.1.0 say it by their method alone
        metadata = {"votes": metadata.get("parameters", {}).get("method") == "majority", **metadata}
    fitted = FittedCrowd(
        classes,
        workers,
        mixture_over(arrays, np.arange(0, (m + 1) * k, k, dtype=np.int32)),
        arrays["pooled"],
        beta,
        metadata["n_iter"],
        typed(metadata, "converged", bool),
        typed(metadata, "log_likelihood", float),
        typed(metadata, "objective", float),
        read_path(arrays),
        typed(metadata, "votes", bool),
    )
    accuracy, low, high = (arrays[name] for name in QUALITY)
    fitted.quality = WorkerQuality(n_labels, accuracy, low, high, np.array([str(flag) for flag in flags], object))
    fitted.report = read_report(metadata)
    return fitted
