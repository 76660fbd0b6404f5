"""What the model file of clusters holds beside the mixture: columns set aside, the path, the certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.frames import build_frame
from tacit.models.file_parts import Arrays, check_numbers, plain, typed
from tacit.models.table_file import restore_table, table_state
from tacit.refine.choose_clusters import PathNumbers
from tacit.refine.near_copies import NearCopy

if TYPE_CHECKING:
    from tacit.models.bernoulli_mixture import BernoulliMixture


def cluster_state(model: BernoulliMixture) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of fitted clusters."""
    arrays, metadata = table_state(model)
    purity = model._purity if model._purity is not None else model._certificates.columns()
    return arrays | {"frequencies": model.frequencies_}, metadata | {
        "names": list(model._names),
        "aside": np.flatnonzero(model._aside).tolist(),
        "copies": [[copy.column, copy.copies, copy.correlation, copy.n_clusters] for copy in model._copies],
        "path": plain(model._numbers.columns),
        "chosen": plain(model._numbers.chosen),
        "purity": plain(purity),
    }


def restore_clusters(model: BernoulliMixture, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `cluster_state` described; what does not fit together raises ValueError."""
    restore_table(model, arrays, metadata)
    if any(column.size != 2 for column in model._columns):
        raise ValueError("a column has other than two categories")
    names, aside = typed(metadata, "names", list), np.array(typed(metadata, "aside", list), np.intp)
    check_numbers(arrays, {"frequencies": (model.n_components_, len(names))})
    gone = np.zeros(len(names), bool)
    gone[aside] = True
    if [names[n] for n in np.flatnonzero(~gone)] != [column.name for column in model._columns]:
        raise ValueError("the columns are not those of names without the ones set aside")
    if (arrays["frequencies"] > 1).any():
        raise ValueError("a frequency is above one")
    path, chosen = typed(metadata, "path", dict), typed(metadata, "chosen", dict)
    lengths = {len(values) for values in path.values()}
    if len(lengths) != 1 or not {"n_components", "log_likelihood"} <= set(path) or not {"practical"} <= set(chosen):
        raise ValueError("the path is not a table")
    model._names, model._aside, model.frequencies_ = tuple(names), gone, arrays["frequencies"]
    model._copies = tuple(NearCopy(int(n), int(m), float(r), int(k)) for n, m, r, k in metadata["copies"])
    if any(not 0 <= n < len(names) for copy in model._copies for n in (copy.column, copy.copies)):
        raise ValueError("a copy names a column that is not there")
    model._numbers = PathNumbers({name: _numbers(values) for name, values in path.items()}, chosen)
    model._purity = {name: _numbers(values) for name, values in typed(metadata, "purity", dict).items()}
    if any(len(values) != model.n_components_ for values in model._purity.values()):
        raise ValueError("purity has other than one row per cluster")
    model.purity_ = build_frame({name: np.asarray(values) for name, values in model._purity.items()}, "pyarrow")


def _numbers(values: list[Any]) -> list[Any]:
    """What JSON could not hold as a number is not a number again."""
    return [float("nan") if value is None else value for value in values]
