"""What the model file of clusters holds beside the mixture: columns set aside, the path, the certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.select.criteria import CRITERIA, PathNumbers
from latentfit.clusters.select.near_duplicates import NearDuplicate
from latentfit.core.frames import build_frame
from latentfit.core.kernels import Floats
from latentfit.core.mixture.model import restore_table, table_state
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.model_file import Arrays, check_numbers, plain, plain_names, read_names, typed

if TYPE_CHECKING:
    from latentfit.clusters.estimator.bernoulli_mixture import BernoulliMixture

SUSPECTS = ("suspect_pair", "suspect_columns")
"""Columns of the certificates that hold words."""


@dataclass(frozen=True)
class Decided:
    """What was decided before the final EM run: the number and how it was found, the columns kept, the start."""

    number: int
    numbers: PathNumbers
    used_columns: NDArray[np.bool_]  # (L,) of the user's columns
    copies: tuple[NearDuplicate, ...]
    screened: bool
    init_name: str
    noninformative: NDArray[np.bool_]  # of the columns kept, those that all clusters share
    init: Mixture | None  # None: the EM run goes on from a checkpoint
    dependent: tuple[NearDuplicate, ...] = ()  # columns that were left out of the choice of the number
    limit: int = 0  # clusters at which the path had to end; 0: the rows allowed no more

    def state(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {
            "number": self.number,
            "path": [list(pair) for pair in plain(self.numbers.columns).items()],  # a file sorts the keys of a mapping
            "chosen": [list(pair) for pair in plain(self.numbers.chosen).items()],
            "kept": self.used_columns.tolist(),
            "copies": _listed(self.copies),
            "screened": self.screened,
            "start": self.init_name,
            "silent": self.noninformative.tolist(),
            "dependent": _listed(self.dependent),
            "limit": self.limit,
        }

    @classmethod
    def read(cls, state: dict[str, Any]) -> Decided:
        """What `state` described."""
        used_columns = np.array(state["kept"], bool)
        copies = tuple(_read_duplicate(copy, len(used_columns)) for copy in state["copies"])
        numbers = _read_numbers(dict(state["path"]), dict(state["chosen"]))
        noninformative = np.array(state["silent"], bool)
        dependent = tuple(_read_duplicate(copy, len(used_columns)) for copy in state["dependent"])
        return cls(
            state["number"], numbers, used_columns, copies, state["screened"], state["start"], noninformative, None,
            dependent, state["limit"],
        )  # fmt: skip


def _listed(copies: tuple[NearDuplicate, ...]) -> list[list[Any]]:
    return [[copy.column, copy.copies, copy.correlation, copy.n_clusters, copy.residual, copy.held] for copy in copies]


def cluster_state(model: BernoulliMixture) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of fitted clusters."""
    arrays, metadata = table_state(model)
    purity = model._purity if model._purity is not None else model._certificates.columns()
    return arrays | {"frequencies": model.frequencies_}, metadata | {
        "names": plain_names(model._names),
        "aside": np.flatnonzero(model._aside).tolist(),
        "copies": _listed(model._copies),
        "dependent": _listed(model._dependent),
        "silent": np.flatnonzero(model._noninformative).tolist(),
        "n_unseen": float(model.n_unseen_),
        "limit": int(model._limit),
        "path": plain(model._numbers.columns),
        "chosen": plain(model._numbers.chosen),
        "purity": plain(purity),
    }


def restore_clusters(model: BernoulliMixture, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `cluster_state` described; what does not fit together raises ValueError."""
    restore_table(model, arrays, metadata)
    if any(column.size != 2 for column in model._columns):
        raise ValueError("a column has other than two categories")
    names, aside = read_names(metadata, "names"), typed(metadata, "aside", list)
    if len(names) > model.n_features_in_:
        raise ValueError("there are more names than features")
    _check_places(aside, len(names), "aside")
    gone = np.zeros(len(names), bool)
    gone[aside] = True
    if [names[n] for n in np.flatnonzero(~gone)] != [column.name for column in model._columns]:
        raise ValueError("the columns are not those of names without the ones set aside")
    check_numbers(arrays, {"frequencies": (model.n_components_, len(names))})
    given = arrays["frequencies"]
    if (given > 1).any() or not np.array_equal(given[:, ~gone], arrays["table"][1::2].T):
        raise ValueError("a frequency is above one, or not that of the table")
    model._names, model._aside, model.frequencies_ = tuple(names), gone, given
    model._copies = tuple(_read_duplicate(copy, len(names)) for copy in typed(metadata, "copies", list))
    if {copy.column for copy in model._copies} != set(aside):
        raise ValueError("copies are not the columns set aside")
    dependent, noninformative = (
        metadata.get("dependent", []),
        metadata.get("silent", _tied(given, gone)),
    )  # not in 0.1.0
    model._dependent = tuple(_read_duplicate(copy, len(names)) for copy in dependent)
    _check_places(noninformative, len(names), "silent")
    model._noninformative = np.zeros(len(names), bool)
    model._noninformative[noninformative] = True
    if not (given[:, noninformative] == given[:1, noninformative]).all() or (model._noninformative & gone).any():
        raise ValueError("a noninformative column has more than one frequency, or was set aside")
    model.n_unseen_, model._limit = float(metadata.get("n_unseen", 0.0)), metadata.get("limit", 0)
    if not np.isfinite(model.n_unseen_) or model.n_unseen_ < 0 or type(model._limit) is not int:
        raise ValueError("n_unseen or limit is no number")
    model._numbers = _read_numbers(typed(metadata, "path", dict), typed(metadata, "chosen", dict))
    model._purity = _read_purity(typed(metadata, "purity", dict), model.n_components_)
    model.purity_ = build_frame(model._purity, "pyarrow")


def _check_places(places: list[Any], length: int, what: str) -> None:
    if not all(type(place) is int and 0 <= place < length for place in places):
        raise ValueError(f"{what} names a column that does not exist")


def _read_duplicate(copy: list[Any], n_columns: int) -> NearDuplicate:
    column, source, correlation, n_clusters, residual, held = copy if len(copy) > 4 else (*copy, copy[2], True)
    _check_places([column, source], n_columns, "a copy")
    if {type(correlation), type(residual)} != {float} or type(n_clusters) is not int or type(held) is not bool:
        raise ValueError("a copy's correlation or number of clusters is no number")
    return NearDuplicate(column, source, correlation, residual, n_clusters, held)


def _tied(frequencies: Floats, gone: NDArray[np.bool_]) -> list[int]:
    """Noninformative columns of a file that does not list them: one and the same frequency in all of several
    clusters."""
    same = (frequencies == frequencies[:1]).all(axis=0) & (frequencies[0] > 0) & (frequencies[0] < 1)
    return np.flatnonzero(same & ~gone & (len(frequencies) > 1)).tolist()


def _read_numbers(path: dict[str, Any], chosen: dict[str, Any]) -> PathNumbers:
    """Every criterion along K = 1, 2, …, and what each chooses."""
    if not {"n_components", "log_likelihood", "step", *CRITERIA} <= set(path):
        raise ValueError("the path lacks a criterion")
    length = len(path["n_components"])
    if path["n_components"] != list(range(1, length + 1)) or not length:
        raise ValueError("the path does not count from one")
    columns = {name: _numbers(values, length, name) for name, values in path.items()}
    if set(chosen) != {*CRITERIA, "practical"}:
        raise ValueError("chosen lacks a criterion")
    if not all(type(number) is int and 1 <= number <= length for number in chosen.values()):
        raise ValueError("chosen names a number of clusters that is not on the path")
    return PathNumbers(columns, chosen)


def _read_purity(purity: dict[str, Any], n_clusters: int) -> dict[str, Any]:
    """One entry per cluster in every column: words, yes or no, or numbers."""
    wanted = {"cluster", "p_value", "flagged", "impurity", "certified_impurity", *SUSPECTS}
    if not wanted <= set(purity):
        raise ValueError("purity lacks a column")
    out: dict[str, Any] = {}
    for name, values in purity.items():
        kind = str if name in SUSPECTS else bool if name == "flagged" else None
        if kind is None:
            out[name] = _numbers(values, n_clusters, name)
        elif type(values) is list and len(values) == n_clusters and all(type(value) is kind for value in values):
            out[name] = values
        else:
            raise ValueError(f"{name} of purity does not hold one entry per cluster")
    return out


def _numbers(values: Any, length: int, name: str) -> list[Any]:
    """So many numbers; what JSON could not hold as a number is not a number again."""
    if type(values) is not list or len(values) != length:
        raise ValueError(f"{name} does not hold {length} numbers")
    if not all(value is None or type(value) in (int, float) for value in values):
        raise ValueError(f"{name} holds something that is no number")
    return [float("nan") if value is None else value for value in values]
