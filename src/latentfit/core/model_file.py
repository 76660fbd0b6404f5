"""The model file: named arrays and plain JSON in one safetensors file. Loading runs no code.

Layout. A safetensors file with one metadata entry, `latentfit` (`tacit` in files of 0.1.0), whose text is JSON::

    {"sha256": …, "estimator": …, "format_version": 1, "metadata": {…}, "provenance": {…}}

One entry, because safetensors writes several in random order and equal models should be equal files.

Hash. `sha256` is the SHA-256 of the whole file with the 64 hash digits themselves set to `0`. So it covers
what a hash of the decoded content would not: the length, the padding and the spelling of the header, and
every byte after it. The other way to cover them, writing the content again and comparing, would refuse good
old files as soon as safetensors changed its padding. The hash finds damage; it is no signature.

Trust. A file with a right hash can still be made by hand, so sizes are checked before anything is read or
allocated, then types, shapes and finite numbers. This module knows names, arrays and metadata only; what they
mean is known to the models.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from latentfit import __version__
from latentfit.core.errors import DataError, ModelFileError, reason_of
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.names import Names
from latentfit.core.table.table import Column
from latentfit.core.verdict import VERDICTS, Check, Expectation, FitReport, state_of
from latentfit.io.source import probe
from latentfit.io.write import atomic_path

FORMAT_VERSION = 1
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
LONGEST_HEADER = 100_000_000
"""Bytes; safetensors' own limit."""

Arrays = dict[str, NDArray[Any]]

_ENTRY = "latentfit"
_ENTRIES = (_ENTRY, "tacit")
"""Names of the entry: ours, and that of files written by 0.1.0, when the project was called Tacit."""
_FIELDS = {"sha256", "estimator", "format_version", "metadata", "provenance"}
_BLANK = b"0" * 64
# Quotes inside any text or name are escaped in the header, so these bytes occur at one place only.
_HASH = re.compile(rb'"(?:latentfit|tacit)":"\{\\"sha256\\":\\"([0-9a-f]{64})\\"')
_AGAIN = "save the model again"


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds: the estimator's name, its arrays, its JSON, and what wrote it."""

    name: str
    arrays: Arrays
    metadata: dict[str, Any]
    provenance: dict[str, str] = field(default_factory=dict)


def write_model(
    path: str | os.PathLike[str], name: str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]
) -> None:
    """Write a model file atomically; equal models give equal bytes."""
    data = serialise_model(name, arrays, metadata)
    with atomic_path(path) as part:
        part.write_bytes(data)


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file; anything but the bytes that were written is a ModelFileError."""
    source = os.fspath(path)
    probe(source)
    if not os.path.isfile(source):
        raise ModelFileError(f"{source} is not a regular file; name a model file")
    with open(source, "rb") as stream:
        return _parse(stream, os.fstat(stream.fileno()).st_size, source)


def serialise_model(name: str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> bytes:
    """The bytes of a model file."""
    content = {
        "estimator": name,
        "format_version": FORMAT_VERSION,
        "metadata": dict(metadata),
        "provenance": {"latentfit": __version__, "numpy": np.__version__},
    }
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the metadata of {name} is not JSON ({reason_of(error)}); store plain values") from None
    if json.loads(text) != content:
        raise ModelFileError(f"the metadata of {name} changes as JSON; use text keys, lists and plain values")
    plain = {key: _storable(key, array) for key, array in arrays.items()}
    entry = f'{{"sha256":"{_BLANK.decode()}",{text[1:]}'
    data = bytearray(safetensors.numpy.save(plain, {_ENTRY: entry}))
    start, end = _find_hash(bytes(data[: 8 + int.from_bytes(data[:8], "little")]), name)
    data[start:end] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


def _storable(key: str, array: NDArray[Any]) -> NDArray[Any]:
    if not key.isascii() or not key.isprintable() or key == "__metadata__":
        raise ModelFileError(f"{key!r} cannot name an array; use plain letters and digits")
    little = array.dtype.newbyteorder("<")
    if little not in DTYPES.values():
        raise ModelFileError(f"array {key!r} is {array.dtype}; use float64, int64, int32 or uint8")
    _refuse_non_finite(array, f"array {key!r}", "give finite numbers")
    return np.asarray(array, little, order="C")


def _refuse_non_finite(array: NDArray[Any], where: str, suggestion: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"{where} holds a number that is not finite; {suggestion}")


# Reading: sizes first, then the header, then the bytes -------------------------------------------------


def _parse(stream: BinaryIO, size: int, source: str) -> ModelFile:
    head, described = _read_head(stream, size, source)
    content = _content(described, source)
    _check_size(described, size - len(head), source)
    data = head + stream.read(size - len(head))
    start, end = _find_hash(head, source)
    digest = hashlib.sha256(data[:start])
    digest.update(_BLANK)
    digest.update(memoryview(data)[end:])
    if digest.hexdigest().encode() != data[start:end]:
        raise ModelFileError(f"{source} is damaged: its content does not match its SHA-256; {_AGAIN}")
    return ModelFile(content["estimator"], _arrays(data, source), content["metadata"], content["provenance"])


def _read_head(stream: BinaryIO, size: int, source: str) -> tuple[bytes, dict[str, Any]]:
    """The length and header as bytes, and the header decoded."""
    prefix = stream.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or not 2 <= length <= min(size - 8, LONGEST_HEADER):
        raise ModelFileError(f"{source} is no model file or is cut short ({size:,} bytes); {_AGAIN}")
    raw = stream.read(length)
    header = _json(raw, "header", source)
    if not isinstance(header.get("__metadata__"), dict) or not set(_ENTRIES) & set(header["__metadata__"]):
        raise ModelFileError(f"{source} is a safetensors file but no Latentfit model; use one that Latentfit saved")
    return prefix + raw, header


def _content(header: dict[str, Any], source: str) -> dict[str, Any]:
    """The JSON of the one metadata entry, each field of its type."""
    entry = next(header["__metadata__"][name] for name in _ENTRIES if name in header["__metadata__"])
    content = _json(entry.encode(errors="replace") if isinstance(entry, str) else b"", "metadata", source)
    version = content.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise ModelFileError(
            f"{source} was written by a newer Latentfit (format {version}, this one reads {FORMAT_VERSION}); "
            "update Latentfit"
        )
    provenance = content.get("provenance")
    whole = (
        set(content) == _FIELDS
        and len(header["__metadata__"]) == 1
        and type(version) is int
        and version == FORMAT_VERSION
        and isinstance(content["estimator"], str)
        and isinstance(content["metadata"], dict)
        and isinstance(provenance, dict)
        and all(isinstance(value, str) for value in provenance.values())
    )
    if not whole:
        raise ModelFileError(f"{source} is damaged: its metadata lacks a field or has one too many; {_AGAIN}")
    return content


def _check_size(header: dict[str, Any], there: int, source: str) -> None:
    """Before the arrays are read: do they fill the rest of the file? safetensors checks each one later."""
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        described = max(ends, default=0)
    except (TypeError, LookupError):
        described = None
    if type(described) is not int or described != there:
        raise ModelFileError(f"{source} is damaged: its arrays and its size do not agree; {_AGAIN}")


def _find_hash(head: bytes, source: str) -> tuple[int, int]:
    places = [match.span(1) for match in _HASH.finditer(head)]
    if len(places) != 1:
        raise ModelFileError(f"{source} is damaged: it has no SHA-256 in its place; {_AGAIN}")
    return places[0]


def _arrays(data: bytes, source: str) -> Arrays:
    arrays: Arrays = {}
    try:
        for name, entry in sorted(safetensors.deserialize(data)):  # type: ignore[no-untyped-call]
            dtype = DTYPES.get(str(entry["dtype"]))
            if dtype is None:
                raise ModelFileError(f"{source} holds array {name!r} of type {entry['dtype']}; {_AGAIN}")
            flat = np.frombuffer(entry["data"], dtype)
            arrays[name] = flat.reshape(entry["shape"]).astype(dtype.newbyteorder("="))
            _refuse_non_finite(arrays[name], f"{source}, array {name!r}", _AGAIN)
    except (safetensors.SafetensorError, ValueError, OverflowError, MemoryError):
        raise ModelFileError(f"{source} is damaged: its arrays cannot be read; {_AGAIN}") from None
    return arrays


def _json(raw: bytes, what: str, source: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(word)  # NaN and Infinity are not JSON

    try:
        value = json.loads(raw.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ModelFileError(f"{source} is no model file or is damaged: its {what} is not JSON; {_AGAIN}")
    return value


# -----------------------------------------------------------------------------
# Parts that model files share: names, columns with typed categories, the mixture, the fit history.

KINDS: dict[str, tuple[type, Any]] = {
    "text": (str, object),
    "integer": (int, np.int64),
    "decimal": (float, np.float64),
    "boolean": (bool, np.bool_),
}
"""Types of categories: as JSON holds them, and as arrays."""
NAMED = tuple(kind for kind, _ in KINDS.values())
"""Types of names."""
ROUNDING = 1e-6
"""How far from one the probabilities of a stored distribution may sum."""


# ------------------------------------------------------ names and columns


def plain_names(names: Iterable[Any]) -> list[Any]:
    """Names as JSON holds them, in their own type."""
    listed = [name.item() if isinstance(name, np.generic) else name for name in names]
    for name in listed:
        if type(name) not in NAMED:
            raise DataError(f"a model file holds texts and numbers as names, not {name!r}; rename it, and fit again")
    return listed


def read_names(metadata: dict[str, Any], what: str) -> list[Any]:
    """The names that stand under `what`, none twice."""
    names: list[Any] = typed(metadata, what, list)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{what} is empty, or holds a name twice")
    if not all(type(name) in NAMED for name in names):
        raise ValueError(f"{what} holds a name that is neither text nor a number")
    return names


def name_array(names: list[Any], what: str) -> Names:
    """Names of one kind as an array."""
    kinds = {type(name) for name in names}
    if len(kinds) != 1 or not kinds <= set(NAMED):
        raise ValueError(f"{what} holds names that are neither all texts nor all numbers of one kind")
    return np.array(names, dict(KINDS.values())[kinds.pop()])


def describe_column(column: Column) -> dict[str, Any]:
    """A column as JSON holds it."""
    kind = {"i": "integer", "u": "integer", "f": "decimal", "b": "boolean"}.get(column.categories.dtype.kind, "text")
    described: dict[str, Any] = {"name": plain_names([column.name])[0], "kind": kind}
    described["categories"] = column.categories.tolist()
    if column.edges is not None:
        described |= {"edges": column.edges.tolist()}
    if column.centres is not None:
        described |= {"centres": column.centres.tolist()}
    return described


def read_column(described: dict[str, Any]) -> Column:
    """The column that `describe_column` described."""
    name, values = described["name"], described["categories"]
    if type(name) not in NAMED:
        raise ValueError("a column has a name that is neither text nor a number")
    wanted, dtype = KINDS[described["kind"]]
    if not values or not all(type(value) is wanted for value in values):
        raise ValueError(f"column {name!r} has categories that are not {described['kind']}")
    if len(set(values)) < len(values) or (wanted is float and not np.isfinite(values).all()):
        raise ValueError(f"column {name!r} has a category twice, or one that is not finite")
    categories: Names = np.array(values, dtype)
    edges, centres = described.get("edges"), described.get("centres")
    if edges is None and centres is None:
        return Column(name, categories)
    inner, means = np.array(edges, np.float64), np.array(centres, np.float64)
    if inner.shape != (len(values) - 1,) or means.shape != (len(values),):
        raise ValueError(f"column {name!r} has {inner.size} bin edges for {len(values)} intervals")
    if not np.isfinite([*inner, *means]).all() or (np.diff(inner) <= 0).any():
        raise ValueError(f"column {name!r} has bin edges that do not rise, or are not finite")
    return Column(name, categories, inner, means)


def read_columns(described: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """All columns, no name twice."""
    columns = tuple(read_column(one) for one in described)
    if not columns or len({column.name for column in columns}) < len(columns):
        raise ValueError("it has no columns, or a column's name twice")
    return columns


# ----------------------------------------------------------------- schema


@dataclass(frozen=True)
class Array:
    """Shape, range and type of an array; sizes are names, such as ``("K", "M")``, equal ones equal in all arrays."""

    shape: tuple[str, ...]
    low: float = 0.0
    high: float = np.inf
    sums_to_one: bool = False
    """Along the last axis."""
    dtype: type = np.float64


@dataclass(frozen=True)
class Schema:
    """What the model file of a family holds beside the fit history, as data: arrays, lists of names, single values."""

    arrays: Mapping[str, Array]
    names: Mapping[str, str] = field(default_factory=dict)
    """Lists of names, and the size that is their number."""
    values: Mapping[str, tuple[type, float]] = field(default_factory=dict)
    """Types of single values, and the least that they may be."""

    def check(self, arrays: Arrays, metadata: dict[str, Any], **sizes: int) -> dict[str, int]:
        """All sizes by name; ValueError or KeyError for a file that does not hold what the schema says."""
        sizes |= {size: len(read_names(metadata, what)) for what, size in self.names.items()}
        for what, (kind, least) in self.values.items():
            if typed(metadata, what, kind) < least:
                raise ValueError(f"{what} is {metadata[what]}, less than {least}")
        for name, spec in self.arrays.items():
            array = arrays[name]
            if array.ndim == len(spec.shape):
                sizes = dict(zip(spec.shape, array.shape, strict=True)) | sizes
            shape = tuple(sizes.get(size) for size in spec.shape)
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, its names ask for {shape}")
            if array.dtype != spec.dtype or (array < spec.low).any() or (array > spec.high).any():
                span = "above zero" if spec.low == POSITIVE else f"from {spec.low:g} to {spec.high:g}"
                raise ValueError(f"{name} must hold {spec.dtype.__name__} {span}, got others")
            if spec.sums_to_one and (np.abs(array.sum(axis=-1) - 1) > ROUNDING).any():
                raise ValueError(f"{name} holds probabilities that do not sum to one")
        return sizes


POSITIVE = float(np.finfo(np.float64).tiny)
"""Least value of what must be above zero."""
MIXTURE = Schema({"weights": Array(("F",), sums_to_one=True), "table": Array(("C", "F"))})
"""Class weights and conditional tables."""


def read_mixture(arrays: Arrays, columns: Sequence[Column]) -> Mixture:
    """Class weights and tables, each a distribution."""
    return mixture_over(arrays, np.concatenate([[0], np.cumsum([column.size for column in columns])]).astype(np.int32))


def mixture_over(arrays: Arrays, offsets: NDArray[np.int32]) -> Mixture:
    """The same where column n of the tables owns the rows from ``column_offsets[n]`` on."""
    MIXTURE.check(arrays, {}, C=int(offsets[-1]))
    if (np.abs(np.add.reduceat(arrays["table"], offsets[:-1], axis=0) - 1) > ROUNDING).any():
        raise ValueError("table holds probabilities that do not sum to one")
    return Mixture(arrays["weights"], arrays["table"], offsets)


# -------------------------------------------------------- the fit history


def with_fit_history(model: Any, arrays: Arrays, metadata: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """A model's own arrays and metadata with the fit history that every model stores: numbers, input, verdict."""
    report = model.report_
    return arrays | {"objective_path": model.objective_path_}, metadata | {
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "log_likelihood": float(model.log_likelihood_),
        "objective": float(model.objective_),
        **features_of(model),
        "selection": plain(model.selection_),
        **report_state(report),
    }


def restore_fit_history(model: Any, arrays: Arrays, metadata: dict[str, Any], names: Sequence[Any] = ()) -> None:
    """Restore on `model` what `with_fit_history` stored; `names` as for `restore_features`."""
    model.objective_path_, model._backend = read_path(arrays), "pyarrow"
    model.n_iter_, model.converged_ = typed(metadata, "n_iter", int), typed(metadata, "converged", bool)
    if model.n_iter_ < 0:
        raise ValueError(f"n_iter is {model.n_iter_}")
    model.log_likelihood_, model.objective_ = (typed(metadata, name, float) for name in ("log_likelihood", "objective"))
    restore_features(model, metadata, names)
    model.selection_ = None if metadata["selection"] is None else typed(metadata, "selection", dict)
    report = read_report(metadata)
    if model.selection_ is not None:
        report.quantities["selection"] = model.selection_
    model.report_ = report


def read_path(arrays: Arrays) -> Floats:
    """The objective per iteration."""
    path = arrays["objective_path"]
    if path.ndim != 1 or not path.size or path.dtype != np.float64:
        raise ValueError("objective_path is not a list of numbers")
    return path


def report_state(report: FitReport) -> dict[str, Any]:
    """A report as a model file holds it: verdict, checks, expectation, notes, quantities."""
    quantities = {name: value for name, value in report.quantities.items() if name != "selection"}
    state: dict[str, Any] = plain({**state_of(report), "notes": list(report.notes), "quantities": quantities})
    return state


def read_report(metadata: dict[str, Any]) -> FitReport:
    """The report of a fit as `report_state` wrote it, or as version 0.1.0 did, which stored no checks."""
    verdict, reasons, notes = (metadata[name] for name in ("verdict", "reasons", "notes"))
    _words(reasons, "reasons")
    _words(notes, "notes")
    verdict = "ok" if verdict == "trusted" else verdict  # the word of 0.1.0
    if verdict not in VERDICTS:
        raise ValueError(f"{verdict!r} is no verdict")
    quantities = typed(metadata, "quantities", dict) if "quantities" in metadata else {}
    checks = [Check(**check) for check in typed(metadata, "checks", list)] if "checks" in metadata else []
    expected = None if metadata.get("expected") is None else Expectation(**typed(metadata, "expected", dict))
    return FitReport(verdict, list(reasons), dict(quantities), list(notes), {}, checks, expected)


def features_of(model: Any) -> dict[str, Any]:
    """Number and names of the features of the fit; None where it has none."""
    number, names = getattr(model, "n_features_in_", None), getattr(model, "feature_names_in_", None)
    return {
        "n_features_in": None if number is None else int(number),
        "feature_names_in": None if names is None else [str(name) for name in names],
    }


def restore_features(model: Any, metadata: dict[str, Any], names: Sequence[Any] = ()) -> None:
    """Restore on `model` what `features_of` stored; `names` are the columns it uses, where its features are columns."""
    model.n_features_in_ = typed(metadata, "n_features_in", int)
    features = metadata["feature_names_in"]
    if features is not None:
        _words(features, "feature_names_in")
        if len(features) != model.n_features_in_ or not set(names) <= set(features):
            raise ValueError("feature_names_in does not match n_features_in or the columns")
        model.feature_names_in_ = np.array(features, object)
    elif len(names) > model.n_features_in_:
        raise ValueError(f"it has {len(names)} columns of {model.n_features_in_} features")


def typed(metadata: dict[str, Any], name: str, wanted: type) -> Any:
    """An entry of that very type, finite if it is a number."""
    value = metadata[name]
    if type(value) is not wanted or (isinstance(value, float) and not np.isfinite(value)):
        raise ValueError(f"{name} is not {wanted.__name__}")
    return value


def _words(values: Any, name: str) -> None:
    if type(values) is not list or not all(type(value) is str for value in values):
        raise ValueError(f"{name} is not a list of texts")


def plain(value: Any) -> Any:
    """Numbers, text, lists and mappings as JSON holds them; a number that is not finite becomes None."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
