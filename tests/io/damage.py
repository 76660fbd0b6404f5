"""Damaged files: seeded ways to spoil bytes, one good file per reader, and what a reader may answer.

A reader may refuse (one of our errors, or the system's about files) or give what an independent, slower reading of the
same bytes gives, where there is one. Anything else, a crash, a hang or another error, is a fault.

python tests/io/damage.py csv 10000      # one reader, so many files; prints the counts
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from latentfit.core.errors import LatentfitError

MOST_SECONDS = 20
"""A reading that takes longer than this hangs: good files take milliseconds."""
HUGE = 300_000
"""Bytes of a huge field."""
NASTY = (
    *(bytes([one]) for one in b"\"',\t;\n\r\0\xff\xc3{}[]\\%#"),
    *(b"\r\n", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\x1f\x8b", b"PAR1", b'""'),
    *(b"[" * 2000, b'{"a":' * 2000, b"nan", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"true", b"null"),
    *(b"99999999999999999999999", b"-99999999999", b"1" * 5000),
    *("é".encode("latin-1"), "日本".encode("shift_jis"), "😀".encode(), "\u2028".encode(), b"\xc2\x85", b"\x1c"),
)


def spoil(good: bytes, rng: np.random.Generator) -> bytes:
    """One to three kinds of damage."""
    data = good
    for _ in range((1, 1, 1, 2, 3)[int(rng.integers(0, 5))]):
        data = _spoil_once(data, rng)
    return data


def _spoil_once(data: bytes, rng: np.random.Generator) -> bytes:
    size = len(data)
    at = int(rng.integers(0, size + 1))
    to = min(size, at + int(rng.integers(1, 64)))
    kind = int(rng.integers(0, 11))
    if kind == 0 and size:  # some bytes anew
        spoilt = bytearray(data)
        for place in rng.integers(0, size, int(rng.integers(1, 9))):
            spoilt[place] = int(rng.integers(0, 256))
        return bytes(spoilt)
    if kind == 1 and size:  # one bit
        spoilt = bytearray(data)
        spoilt[min(at, size - 1)] ^= 1 << int(rng.integers(0, 8))
        return bytes(spoilt)
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[to:]
    if kind == 4:
        return data[:to] + data[at:to] * int(rng.integers(1, 50)) + data[to:]
    if kind == 5:
        return data[:at] + bytes(rng.integers(0, 256, int(rng.integers(1, 40)), dtype=np.uint8)) + data[at:]
    if kind == 6:
        filling = (b"x", b"7", b" ", b'"', b"\0", b"ab,", b"\n")[int(rng.integers(0, 7))]
        return data[:at] + (filling * HUGE)[:HUGE] + data[at:]
    if kind == 7:
        return data[:at] + NASTY[int(rng.integers(0, len(NASTY)))] + data[to if rng.random() < 0.5 else at :]
    if kind == 8:  # the same text in another encoding
        with contextlib.suppress(UnicodeError):
            return data.decode().encode(
                ("utf-16", "utf-16-le", "latin-1", "utf-32", "utf-8-sig")[int(rng.integers(0, 5))]
            )
        return data[::-1]
    if kind == 9:  # two stretches change places
        other = int(rng.integers(0, size + 1))
        first, last = sorted((at, other))
        return data[last:] + data[first:last] + data[:first]
    return data[at:]


@dataclass(frozen=True)
class Reader:
    """A good file (or set of files, one of which is damaged), how it is read, and what it holds read another way."""

    good: dict[str, bytes]  # name → bytes; the first is the one that is named
    read: Callable[[Path], Any]
    twin: Callable[[dict[str, bytes]], Any] | None = None
    same: Callable[[Any, Any], bool] = lambda ours, theirs: bool(ours == theirs)
    command: tuple[str, ...] = ()  # a command line that reads it


@dataclass
class Fault:
    """A damaged file that was not dealt with."""

    what: str
    files: dict[str, bytes] = field(repr=False)


@contextlib.contextmanager
def in_time(seconds: int) -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)  # of CPU: a busy machine is no fault of the reader
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(reader: Reader, files: dict[str, bytes], folder: Path) -> str | Fault:
    """ "refused", "read", or the fault."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    try:
        with warnings.catch_warnings(), in_time(MOST_SECONDS):
            warnings.simplefilter("ignore")
            answer = reader.read(folder / next(iter(files)))
    except TimeoutError as error:
        return Fault(f"hangs: {error}", files)
    except (LatentfitError, OSError) as error:
        text = str(error)
        wrong = len(text) > 1500 or "\n" in text or not text.isprintable()
        return Fault(f"no clear sentence: {text[:300]!r}", files) if wrong else "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return Fault(f"{type(error).__name__}: {error}"[:300], files)
    if reader.twin is not None:
        try:
            wanted = reader.twin(files)
        except Exception as error:
            return Fault(f"read what the twin refuses ({type(error).__name__}: {error})"[:300], files)
        if not reader.same(answer, wanted):
            return Fault(f"read {str(answer)[:150]} instead of {str(wanted)[:150]}", files)
    return "read"


def damaged(reader: Reader, seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng([seed, 41])
    files = dict(reader.good)
    name = list(files)[int(rng.integers(0, len(files)))]
    files[name] = spoil(files[name], rng)
    return files


def run(reader: Reader, seeds: range, folder: Path) -> tuple[Counter[str], list[Fault]]:
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    for seed in seeds:
        found = judge(reader, damaged(reader, seed), folder)
        if isinstance(found, Fault):
            found.what = f"[{seed}] {found.what}"
            faults.append(found)
        counts[found if isinstance(found, str) else "fault"] += 1
    return counts, faults


# The good files and their readers ----------------------------------------------------------------------

ROWS = [
    ("task é", 1, "yes"),
    ("b,c", 22, ""),
    ('say "no"', 333, "no"),
    ("d", 4, "line\nbreak"),
    ("😀", 5, "x"),
    ("f", 6, "y"),
]


def _csv_text() -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([("task", "worker", "label"), *ROWS])
    return out.getvalue().encode()


def _columns(path: Path) -> Any:
    """The columns of a table, and whatever each kind of data makes of them."""
    from latentfit.clusters.data import read_binary
    from latentfit.core.table.input import read_table
    from latentfit.io.read import read_columns
    from latentfit.labels.data.input import read_labels

    table = read_columns(path)
    for use in (read_labels, read_table, read_binary):
        with contextlib.suppress(LatentfitError):
            use(table)
    return table


def decoded(data: bytes) -> str:
    """Text in UTF-8, or in Windows-1252 if nothing in it is UTF-8 beyond ASCII and no byte is a control's or 0xff."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        letters = [ord(letter) for letter in data.decode("utf-8", "surrogateescape")]
        controls = any(byte < 9 or 13 < byte < 32 or byte == 255 for byte in data)
        if controls or any(letter > 127 and not 0xDC80 <= letter <= 0xDCFF for letter in letters):
            raise
    undefined = set(data) & {0x81, 0x8D, 0x8F, 0x90, 0x9D}
    return data.decode("latin-1" if undefined else "cp1252")


def _csv_rows(data: bytes) -> list[list[str]]:
    text = io.StringIO(decoded(data), newline="")
    limit = csv.field_size_limit(10 * HUGE)
    try:
        return [row for row in csv.reader(text, strict=False) if row]
    finally:
        csv.field_size_limit(limit)  # of the whole process, which has other tests


def _csv_twin(files: dict[str, bytes]) -> Any:
    header, *rows = _csv_rows(next(iter(files.values())))
    return header, rows


def _same_csv(ours: Any, theirs: Any) -> bool:
    header, rows = theirs
    cells = [[None if value is None else str(value) for value in column.to_pylist()] for column in ours.columns]
    wanted = [[cell or None for cell in row] for row in rows]
    return ours.column_names == header and [list(row) for row in zip(*cells, strict=True)] == wanted


def _gzip_twin(files: dict[str, bytes]) -> Any:
    return _csv_twin({"plain": gzip.decompress(next(iter(files.values())))})


def _json_lines() -> bytes:
    rows = [{"task": task, "worker": worker, "label": label, "share": worker / 7} for task, worker, label in ROWS]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _json_twin(files: dict[str, bytes]) -> Any:
    lines = next(iter(files.values())).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = partial(json.loads, parse_int=lambda digits: int(digits) if len(digits) < 4_000 else float(digits))
    return [whole(line) for line in lines if line.strip()]


def _same_json(ours: Any, theirs: list[dict[str, Any]]) -> bool:
    found = ours.to_pylist()

    def like(value: Any, wanted: Any) -> bool:
        if isinstance(wanted, dict) and isinstance(value, dict):
            return all(like(value.get(key), wanted.get(key)) for key in {*value, *wanted})
        if isinstance(wanted, list) and isinstance(value, list):
            return len(wanted) == len(value) and all(map(like, value, wanted))
        return bool(value == wanted) or (
            isinstance(value, float) and isinstance(wanted, int) and value == float(wanted)
        )

    return len(found) == len(theirs) and all(map(like, found, theirs))


def _parquet() -> bytes:
    out = io.BytesIO()
    tasks, workers, labels = zip(*ROWS, strict=True)
    columns = {"task": tasks * 40, "worker": pa.array(workers * 40).dictionary_encode(), "label": labels * 40}
    pq.write_table(pa.table({**columns, "share": np.linspace(0, 1, 240)}), out)
    return out.getvalue()


def _label_studio() -> bytes:
    def said(who: int, word: str) -> dict[str, Any]:
        result = [{"from_name": "kind", "type": "choices", "value": {"choices": [word]}}]
        return {"completed_by": who, "was_cancelled": False, "ground_truth": False, "result": result}

    tasks = [{"id": n, "annotations": [said(1, "cat"), said(2, "dög" if n % 3 else "cat")]} for n in range(6)]
    return json.dumps(tasks, indent=1, ensure_ascii=False).encode()


def _read_studio(path: Path) -> Any:
    from latentfit.io.label_studio import read_label_studio
    from latentfit.labels.data.input import read_labels

    export = read_label_studio(path)
    with contextlib.suppress(LatentfitError):
        read_labels(export.labels, gold=export.gold)
    return export


def _plink() -> dict[str, bytes]:
    rng = np.random.default_rng(5)
    people, snps = 11, 9
    bed = b"\x6c\x1b\x01" + bytes(
        rng.integers(0, 256, snps * 3, dtype=np.uint8) & np.tile([255, 255, 63], snps).astype(np.uint8)
    )
    bim = "".join(f"1\trs{n}\t0\t{100 * n}\tA\tC\n" for n in range(snps)).encode()
    fam = "".join(f"f{n} p{n} 0 0 0 -9\n" for n in range(people)).encode()
    return {"set.bed": bed, "set.bim": bim, "set.fam": fam}


def _read_bed(path: Path) -> Any:
    from latentfit.admixture.data.genotypes import read_bed

    return read_bed(path).calls


def _plink_twin(files: dict[str, bytes]) -> Any:
    people = len(files["set.fam"].splitlines())
    packed = np.frombuffer(files["set.bed"][3:], np.uint8).reshape(-1, -(-people // 4))
    bits = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    return np.array([2, 3, 1, 0], np.uint8)[bits.reshape(len(packed), -1)[:, :people]]


def _matrix_market() -> bytes:
    lines = ["%%MatrixMarket matrix coordinate integer general", "% documents, words", "6 5 9"]
    return "\n".join([*lines, *(f"{1 + n % 6} {1 + n * 2 % 5} {1 + n % 4}" for n in range(9))]).encode() + b"\n"


def _read_market(path: Path) -> Any:
    from latentfit.io.matrix_market import read_matrix_market
    from latentfit.topics.data.input import read_documents

    matrix = read_matrix_market(path)
    with contextlib.suppress(LatentfitError):
        read_documents(matrix)
    return matrix


def _read_text(path: Path) -> Any:
    from latentfit.hmm.data import lines_to_sequences
    from latentfit.io.scan import scan
    from latentfit.io.text_lines import stream_lines
    from latentfit.topics.data.input import read_documents

    lines = [line for batch in stream_lines(path) for line in batch]
    for letters in (False, True):
        with contextlib.suppress(LatentfitError):
            lines_to_sequences([lines], letters=letters)
    with contextlib.suppress(LatentfitError):
        read_documents(scan(path))
    return lines


def _text_twin(files: dict[str, bytes]) -> list[str]:
    return decoded(next(iter(files.values()))).splitlines()


def _read_edges(path: Path) -> Any:
    from latentfit.communities.data import read_graph
    from latentfit.io.scan import scan
    from latentfit.io.text_lines import edge_batches

    edges = next(edge_batches(scan(path).lines()), None)
    if edges is None or edges["target"].null_count == len(edges["target"]):
        return read_graph(scan(path))  # refuses it
    with contextlib.suppress(LatentfitError):
        read_graph(scan(path))
    return [[None if value is None else str(value) for value in column.to_pylist()] for column in edges.values()]


def _edge_twin(files: dict[str, bytes]) -> Any:
    lines = [line.replace(",", " ") for line in _text_twin(files)]
    rows = [line.split() for line in lines if line.strip() and line.lstrip()[0] not in "#%"]
    widest = max(map(len, rows))
    return [[row[at] if at < len(row) else None for row in rows] for at in range(widest)]


def _read_model(path: Path) -> Any:
    from latentfit.core.registry import load

    load(path)
    return path.read_bytes()


def _model() -> bytes:
    return (Path(__file__).parents[1] / "system" / "models" / "LatentClass-0.1.0.tacit").read_bytes()


def readers() -> dict[str, Reader]:
    """Name → reader."""
    text = "the cat sat\non the mat\n\nünd the dog 😀\n" * 3
    edges = "# friends\n" + "".join(f"n{n} n{n * 7 % 11}{' 2' if n % 4 else ''}\n" for n in range(20))
    model = _model()
    return {
        "csv": Reader({"x.csv": _csv_text()}, _columns, _csv_twin, _same_csv, ("labels",)),
        "gz": Reader(
            {"x.csv.gz": gzip.compress(_csv_text() * 4, mtime=0)}, _columns, _gzip_twin, _same_csv, ("labels",)
        ),
        "jsonl": Reader({"x.jsonl": _json_lines()}, _columns, _json_twin, _same_json, ("table", "--components", "2")),
        "parquet": Reader({"x.parquet": _parquet()}, _columns, command=("table", "--components", "2")),
        "label studio": Reader({"x.json": _label_studio()}, _read_studio, command=("labels",)),
        "plink": Reader(
            _plink(), _read_bed, _plink_twin, lambda a, b: np.array_equal(a, b), ("admixture", "--populations", "2")
        ),
        "matrix market": Reader({"x.mtx": _matrix_market()}, _read_market, command=("topics", "--topics", "2")),
        "text": Reader({"x.txt": text.encode()}, _read_text, _text_twin, command=("hmm", "--states", "2")),
        "edges": Reader({"x.txt": edges.encode()}, _read_edges, _edge_twin, command=("communities", "--blocks", "2")),
        "model": Reader({"x.latent": model}, _read_model, lambda files: model, command=("sample", "-n", "3")),
    }


if __name__ == "__main__":
    import faulthandler

    faulthandler.enable()
    many = int(sys.argv[2])
    for name in sys.argv[1].split(",") if sys.argv[1] != "all" else readers():
        with tempfile.TemporaryDirectory() as scratch:
            begin = time.perf_counter()
            counts, faults = run(readers()[name], range(many), Path(scratch))
            print(f"{name}: {dict(counts)} in {time.perf_counter() - begin:.0f} s", flush=True)
            for fault in faults[:8]:
                print("   ", fault.what, {key: value[:120] for key, value in fault.files.items()})
