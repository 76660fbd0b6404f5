"""The model file: what was written comes back, and nothing else is ever accepted."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from latentfit.core.errors import ModelFileError
from latentfit.core.model_file import ModelFile, _parse, read_model, serialise_model, write_model

ARRAYS = {
    "weights": np.array([0.25, 0.75]),
    "counts": np.arange(6, dtype=np.int64).reshape(2, 3),
    "codes": np.array([1, -1], np.int32),
    "bytes": np.array([0, 255], np.uint8),
}
METADATA: dict[str, Any] = {"names": ["ann", "böb", '"'], "parameters": {"tol": 1e-6, "n_classes": None}}
GOOD = serialise_model("DawidSkene", ARRAYS, METADATA)
SHIFTED = {name: array + np.ones((), array.dtype) for name, array in ARRAYS.items()}
OTHER = serialise_model("DawidSkene", SHIFTED, METADATA)
FOREIGN = serialise_model("LatentClass", SHIFTED, {**METADATA, "names": ["ann", "bob", "eve"]})


def parse_model(data: bytes, source: str) -> ModelFile:
    """What reading a file with these bytes gives, without the file."""
    return _parse(io.BytesIO(data), len(data), source)


def refusal(data: bytes) -> str:
    with pytest.raises(ModelFileError) as caught:
        parse_model(data, "m.latent")
    return str(caught.value)


def assert_same(model: ModelFile, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
    assert model.metadata == metadata
    assert set(model.arrays) == set(arrays)
    for name, array in arrays.items():
        assert model.arrays[name].dtype == array.dtype.newbyteorder("=")
        assert model.arrays[name].shape == array.shape
        assert model.arrays[name].flags.writeable
        np.testing.assert_array_equal(model.arrays[name], array)


# What was written comes back ---------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.latent"
    write_model(path, "DawidSkene", ARRAYS, METADATA)
    model = read_model(path)
    assert model.name == "DawidSkene"
    assert_same(model, ARRAYS, METADATA)
    assert set(model.provenance) == {"latentfit", "numpy"}
    assert os.listdir(tmp_path) == ["model.latent"]


def test_round_trip_of_odd_arrays_and_words() -> None:
    arrays = {
        "empty": np.zeros((0, 5), np.int32),
        "scalar": np.array(3.0),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big end": np.arange(3).astype(">i8"),
        "slice": np.arange(10.0)[::3],
        "latentfit": np.zeros(1),
        "sha256": np.zeros(1),
        '"latentfit":"{\\"sha256\\":\\"': np.zeros(1),
    }
    zeros = "0" * 64
    metadata = {
        "sha256": zeros,
        "latentfit": {"sha256": zeros},
        "text": f'"latentfit":"{{\\"sha256\\":\\"{zeros}\\"',
        "emoji": "🐈\ud800\x00\n",
        "long": "x" * 1_000_000,
    }
    data = serialise_model("X", arrays, metadata)
    assert_same(parse_model(data, "m"), arrays, metadata)


def test_a_model_without_arrays_or_metadata() -> None:
    assert_same(parse_model(serialise_model("Empty", {}, {}), "m"), {}, {})


def test_equal_models_are_equal_files() -> None:
    backwards = {name: ARRAYS[name] for name in reversed(ARRAYS)}
    assert serialise_model("DawidSkene", backwards, dict(reversed(METADATA.items()))) == GOOD
    assert hashlib.sha256(GOOD).digest() != hashlib.sha256(OTHER).digest()


def test_any_safetensors_reader_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD)
    with safetensors.safe_open(path, "numpy") as file:
        assert set(file.keys()) == set(ARRAYS)
        np.testing.assert_array_equal(file.get_tensor("weights"), ARRAYS["weights"])
        content = json.loads(file.metadata()["latentfit"])
    assert content["estimator"] == "DawidSkene"
    blank = GOOD.replace(content["sha256"].encode(), b"0" * 64)
    assert hashlib.sha256(blank).hexdigest() == content["sha256"]


# What cannot be written --------------------------------------------------------------------------------

NO_NAME = "cannot name an array; use plain letters and digits"


@pytest.mark.parametrize(
    ("arrays", "metadata", "sentence"),
    [
        ({"w": np.zeros(1, np.float32)}, {}, "array 'w' is float32; use float64, int64, int32 or uint8"),
        ({"w": np.array(["a"], object)}, {}, "array 'w' is object; use float64, int64, int32 or uint8"),
        ({"w": np.array([True])}, {}, "array 'w' is bool; use float64, int64, int32 or uint8"),
        ({"w": np.array([np.nan])}, {}, "array 'w' holds a number that is not finite; give finite numbers"),
        (
            {"__metadata__": np.zeros(1)},
            {},
            "'__metadata__' cannot name an array; use plain letters and digits",
        ),
        ({"\ud800": np.zeros(1)}, {}, f"'\\ud800' {NO_NAME}"),
        (
            {},
            {"x": np.float64},
            "the metadata of X is not JSON (Object of type type is not JSON serializable); store plain values",
        ),
        ({}, {"x": (1, 2)}, "the metadata of X changes as JSON; use text keys, lists and plain values"),
        ({}, {"x": {1: 2}}, "the metadata of X changes as JSON; use text keys, lists and plain values"),
    ],
)
def test_what_cannot_be_written(
    arrays: dict[str, Any], metadata: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError) as caught:
        write_model(tmp_path / "m.latent", "X", arrays, metadata)
    assert str(caught.value) == sentence
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_metadata_must_be_finite(value: float) -> None:
    with pytest.raises(ModelFileError, match=r"the metadata of X is not JSON \(Out of range float values"):
        serialise_model("X", {}, {"x": value})


# Files by hand, with a right hash ----------------------------------------------------------------------


def forge(
    content: Any = None,
    arrays: Any = None,
    body: bytes = b"\0" * 8,
    *,
    metadata: Any = None,
    more: bytes = b"",
) -> bytes:
    """A file with a right SHA-256 and whatever else."""
    if content is None:
        content = {"estimator": "X", "format_version": 1, "metadata": {}, "provenance": {}}
    text = json.dumps({"sha256": "0" * 64, **content}, separators=(",", ":")) if isinstance(content, dict) else content
    if arrays is None:
        arrays = {"w": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}
    header = {"__metadata__": {"latentfit": text} if metadata is None else metadata, **arrays}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    data = struct.pack("<Q", len(raw)) + raw + body + more
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


def array(dtype: Any = "F64", shape: Any = (1,), offsets: Any = (0, 8), name: str = "w") -> dict[str, Any]:
    return {name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


DAMAGED = "m.latent is damaged: "
AGAIN = "; save the model again"
SIZE = f"{DAMAGED}its arrays and its size do not agree{AGAIN}"
CANNOT = f"{DAMAGED}its arrays cannot be read{AGAIN}"
FIELDS = f"{DAMAGED}its metadata lacks a field or has one too many{AGAIN}"
BASE = {"estimator": "X", "format_version": 1, "metadata": {}, "provenance": {}}
INF = struct.pack("<d", float("inf"))


def test_the_forger_can_make_a_good_file() -> None:
    assert parse_model(forge(), "m").arrays["w"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", f"m.latent is no model file or is cut short (0 bytes){AGAIN}"),
        (b"\x02\0\0", f"m.latent is no model file or is cut short (3 bytes){AGAIN}"),
        (b"\xff" * 8 + b"{}", f"m.latent is no model file or is cut short (10 bytes){AGAIN}"),
        (b"task,label\n1,2\n", f"m.latent is no model file or is cut short (15 bytes){AGAIN}"),
        (b"\x02\0\0\0\0\0\0\0[]", f"m.latent is no model file or is damaged: its header is not JSON{AGAIN}"),
        (
            b"\x02\0\0\0\0\0\0\0\xff\xfe",
            f"m.latent is no model file or is damaged: its header is not JSON{AGAIN}",
        ),
        (
            struct.pack("<Q", 200_000) + b"[" * 200_000,
            f"m.latent is no model file or is damaged: its header is not JSON{AGAIN}",
        ),
        (
            b"\x02\0\0\0\0\0\0\0{}",
            "m.latent is a safetensors file but no Latentfit model; use one that Latentfit saved",
        ),
        (
            forge(metadata={"pt": "1"}),
            "m.latent is a safetensors file but no Latentfit model; use one that Latentfit saved",
        ),
        (forge("no json"), f"m.latent is no model file or is damaged: its metadata is not JSON{AGAIN}"),
        (forge('{"a":NaN}'), f"m.latent is no model file or is damaged: its metadata is not JSON{AGAIN}"),
        (
            forge(metadata={"latentfit": 3}),
            f"m.latent is no model file or is damaged: its metadata is not JSON{AGAIN}",
        ),
        (
            forge({**BASE, "format_version": 2, "extra": 1}),
            "m.latent was written by a newer Latentfit (format 2, this one reads 1); update Latentfit",
        ),
        (forge({**BASE, "format_version": 0}), FIELDS),
        (forge({**BASE, "format_version": True}), FIELDS),
        (forge({**BASE, "format_version": "1"}), FIELDS),
        (forge({**BASE, "extra": 1}), FIELDS),
        (forge({**BASE, "estimator": None}), FIELDS),
        (forge({**BASE, "metadata": []}), FIELDS),
        (forge({**BASE, "provenance": {"latentfit": 1}}), FIELDS),
        (forge({"estimator": "X"}), FIELDS),
        (forge(json.dumps({**BASE, "sha256": "0" * 64})), f"{DAMAGED}it has no SHA-256 in its place{AGAIN}"),
        (forge({**BASE, "sha256": "A" * 64}), f"{DAMAGED}it has no SHA-256 in its place{AGAIN}"),
        (forge({**BASE, "sha256": "1" * 64}), f"{DAMAGED}its content does not match its SHA-256{AGAIN}"),
        (forge(more=b"x"), SIZE),
        (forge(body=b"\0" * 7), SIZE),
        (forge(arrays=array(offsets=(0, 2**62), shape=(2**59,))), SIZE),
        (forge(arrays=array(offsets=8)), SIZE),
        (forge(arrays=array(offsets=(0, 8.0))), SIZE),
        (forge(arrays={"w": None}), SIZE),
        (forge(arrays={}), SIZE),
        (forge(arrays=array(shape=(2,))), CANNOT),
        (forge(arrays=array(shape=(-1,))), CANNOT),
        (forge(arrays=array(offsets=(4, 8), dtype="U8", shape=(4,))), CANNOT),
        (forge(arrays=array() | array(name="v")), CANNOT),
        (forge(arrays=array() | array(name="v", shape=(0, 2**63), offsets=(8, 8))), CANNOT),
        (forge(arrays=array(dtype="OBJECT")), CANNOT),
        (forge(arrays=array(dtype="F32", shape=(2,))), f"m.latent holds array 'w' of type F32{AGAIN}"),
        (forge(body=INF), f"m.latent, array 'w' holds a number that is not finite{AGAIN}"),
    ],
    ids=lambda value: value[8:50] if isinstance(value, str) else "",
)
def test_every_refusal(data: bytes, sentence: str) -> None:
    assert refusal(data) == sentence


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"the file .* does not exist; check the path"):
        read_model(tmp_path / "m.latent")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        read_model(tmp_path)
    with pytest.raises(ModelFileError, match="/dev/zero is not a regular file; name a model file"):
        read_model("/dev/zero")


def test_a_huge_file_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "m.latent"
    with open(path, "wb") as file:
        file.write(GOOD)
        file.truncate(1 << 40)  # a terabyte of nothing, takes no disk
    with pytest.raises(ModelFileError) as caught:
        read_model(path)
    assert str(caught.value) == f"{path} is damaged: its arrays and its size do not agree; save the model again"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 1 << 39))
        file.truncate(1 << 40)
    with pytest.raises(ModelFileError, match=r"is cut short \(1,099,511,627,776 bytes\)"):
        read_model(path)


# Ten thousand damaged files ----------------------------------------------------------------------------


def header_of(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def damaged() -> Iterator[bytes]:
    """Every bit flipped, every cut, and seeded damage of all kinds up to ten thousand and more."""
    rng = random.Random(0)
    for place in range(len(GOOD)):
        for bit in range(8):
            yield GOOD[:place] + bytes([GOOD[place] ^ (1 << bit)]) + GOOD[place + 1 :]
    for cut in range(len(GOOD)):
        yield GOOD[:cut]
        yield GOOD[cut + 1 :]
    for size in range(1, 300):
        yield GOOD + bytes(size)
        yield GOOD + rng.randbytes(size)
        yield GOOD[: header_of(GOOD)] + bytes(size) + GOOD[header_of(GOOD) :]
    for other in (OTHER, FOREIGN):  # swapped between two models
        ours, theirs = header_of(GOOD), header_of(other)
        yield GOOD[:ours] + other[theirs:]
        yield other[:theirs] + GOOD[ours:]
        for start in range(ours, len(GOOD), 8):
            if GOOD[start : start + 8] != other[theirs + start - ours : theirs + start - ours + 8]:
                yield (GOOD[:start] + other[theirs + start - ours : theirs + start - ours + 8] + GOOD[start + 8 :])
    for old, new in [
        (b"DawidSkene", b"LatentClas"),
        (b"weights", b"weighty"),
        (b"ann", b"bob"),
        (b"F64", b"I64"),
        (b"I64", b"F64"),
        (b"[2,3]", b"[3,2]"),
        (b'"counts"', b'"weights"'),
        (b"1e-06", b"2e-06"),
        (b"  ", b""),
        (b'"codes"', b' "codes"'),
        (b"}  ", b"}\t "),
        (b"}  ", b"} \0"),
    ]:
        if old in GOOD:
            yield GOOD.replace(old, new, 1)
    for _ in range(3000):
        data = bytearray(GOOD)
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield bytes(data)
    for _ in range(1000):
        a, b, c = sorted(rng.sample(range(len(GOOD)), 3))
        yield GOOD[:a] + GOOD[b:c] + GOOD[a:b] + GOOD[c:]
        yield rng.randbytes(rng.randrange(200))


def test_ten_thousand_damaged_files_are_all_refused() -> None:
    tried = 0
    for data in damaged():
        if data == GOOD:
            continue
        tried += 1
        try:
            parse_model(data, "m.latent")
        except ModelFileError as error:
            text = str(error)
            assert text.startswith("m.latent ")
            assert "; " in text
            assert "\n" not in text
        else:
            pytest.fail(f"damaged file number {tried} was accepted")
    assert tried >= 10_000
    assert_same(parse_model(GOOD, "m.latent"), ARRAYS, METADATA)


# Loading runs no code ----------------------------------------------------------------------------------

AUDITED = """
import sys
import latentfit.core.model_file as module
seen = []
watched = {"exec", "compile", "import", "os.system", "os.exec", "os.fork", "os.posix_spawn",
           "subprocess.Popen", "pickle.find_class", "marshal.loads", "marshal.load", "code.__new__",
           "function.__new__", "ctypes.dlopen", "socket.__new__"}
def hook(event, args):
    if event in watched:
        seen.append((event, str(args)[:100]))
sys.addaudithook(hook)
model = module.read_model(sys.argv[1])
for name in sys.argv[2:]:
    try:
        module.read_model(name)
        seen.append(("accepted", name))
    except module.ModelFileError:
        pass
found = list(seen)
exec("0")  # the hook does watch
assert len(seen) > len(found)
assert model.name == "DawidSkene"
print(found)
"""


def test_loading_runs_no_code(tmp_path: Path) -> None:
    good, bad, worse = tmp_path / "good.latent", tmp_path / "bad.latent", tmp_path / "worse.latent"
    good.write_bytes(GOOD)
    bad.write_bytes(GOOD[:-1] + b"x")
    worse.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")  # a pickle that would run a command
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, str(good), str(bad), str(worse)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
