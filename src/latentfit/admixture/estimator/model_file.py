"""What the model file of an admixture model holds: proportions, frequencies, the SNPs of the fit, and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentfit.admixture.em.steps import Ancestry
from latentfit.admixture.select import NumberPath
from latentfit.core.file_parts import (
    ROUNDING,
    Arrays,
    check_numbers,
    name_array,
    plain,
    plain_names,
    restore_story,
    typed,
    with_story,
)

if TYPE_CHECKING:
    from latentfit.admixture.estimator.admixture import Admixture


def ancestry_state(model: Admixture) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model; frequencies only of SNPs that have any call."""
    seen = ~np.isnan(model.frequencies_[:, 0])
    arrays: Arrays = {
        "ancestry": model.ancestry_,
        "frequencies": np.ascontiguousarray(model.frequencies_[seen]),
        "seen": seen.astype(np.uint8),
        "order": model._order.astype(np.int64),
    }
    metadata = {
        "samples": plain_names(model.samples_.tolist()),
        "alleles": None if model._alleles is None else model._alleles.T.tolist(),
        "likelihood": model._likelihood,
        "cv": None if model._path is None else plain(vars(model._path)),
    }
    return with_story(model, arrays, metadata)


def restore_ancestry(model: Admixture, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `ancestry_state` described; what does not fit together raises ValueError."""
    restore_story(model, arrays, metadata)
    samples, n_snps = typed(metadata, "samples", list), model.n_features_in_
    shares, order = arrays["ancestry"], arrays["order"]
    if shares.ndim != 2 or not shares.shape[1] or arrays["seen"].dtype != np.uint8 or order.dtype != np.int64:
        raise ValueError("ancestry has no populations, or seen or order are of another type")
    K, seen = shares.shape[1], arrays["seen"].astype(bool)
    check_numbers(arrays, {"ancestry": (len(samples), K), "frequencies": (int(seen.sum()), K)})
    if seen.shape != (n_snps,) or order.ndim != 1 or not len(order) or len(np.unique(order)) < len(order):
        raise ValueError(f"seen or order do not fit {n_snps} SNPs")
    if (order < 0).any() or (order >= n_snps).any() or not seen[order].all():
        raise ValueError("order names a SNP that is not there")
    if (np.abs(shares.sum(axis=1) - 1) > ROUNDING).any() or (arrays["frequencies"] > 1).any():
        raise ValueError("proportions do not sum to one, or a frequency is above one")
    model.frequencies_ = np.full((n_snps, K), np.nan)
    model.frequencies_[seen] = arrays["frequencies"]
    model.samples_ = name_array(samples, "samples")
    model.snps_ = getattr(model, "feature_names_in_", np.arange(n_snps))
    fitted = Ancestry(shares, np.ascontiguousarray(model.frequencies_[order]))
    model._publish(fitted, order.astype(np.intp), n_snps)
    model._alleles = _alleles(metadata.get("alleles"), n_snps)  # files of 0.1.0 did not say
    model._likelihood = typed(metadata, "likelihood", bool)
    model._path = None if metadata["cv"] is None else _read_path(typed(metadata, "cv", dict))


def _alleles(columns: Any, n_snps: int) -> NDArray[Any] | None:
    if columns is None:
        return None
    alleles = np.array(columns, object).T
    if alleles.shape != (n_snps, 2) or not all(type(word) is str for word in alleles.ravel()):
        raise ValueError(f"alleles are not two words for each of {n_snps} SNPs")
    return alleles


def _read_path(cv: dict[str, Any]) -> NumberPath:
    columns = {name: typed(cv, name, list) for name in ("n_populations", "error", "gain", "gain_error")}
    length = len(columns["n_populations"])
    if columns["n_populations"] != list(range(1, length + 1)) or not length:
        raise ValueError("cv does not count from one")
    for name in ("error", "gain", "gain_error"):
        if len(columns[name]) != length or not all(type(value) is float for value in columns[name]):
            raise ValueError(f"{name} of cv does not hold {length} numbers")
    chosen = typed(cv, "chosen", int)
    if not 1 <= chosen <= length:
        raise ValueError("cv chose a number that it has not tried")
    return NumberPath(**columns, chosen=chosen)
