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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from latentfit import __version__
from latentfit.core.errors import ModelFileError, reason_of
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
    """Write a model file, whole or not at all; equal models give equal bytes."""
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


def _refuse_non_finite(array: NDArray[Any], where: str, cure: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"{where} holds a number that is not finite; {cure}")


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
