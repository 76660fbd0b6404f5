"""Long reproductions go on where they were interrupted, one command runs every key, and no file covers another."""

from __future__ import annotations

import pyarrow.csv as pc
import pytest

from tacit.cli.main import main
from tacit.reproduce import KEYS, keys_of
from tacit.reproduce.table import Curves, Outcome, Progress, Row, Run


def test_a_piece_is_made_once_and_found_again(tmp_path):
    path, made = tmp_path / "folder" / "progress.jsonl", []

    def make(value):
        return lambda: made.append(value) or [value, True, None]

    run = Run(seed=3, progress=Progress(path))
    assert run.piece("a", make(1)) == run.piece("a", make(2)) == [1, True, None]
    assert Run(seed=3, progress=Progress(path)).piece("a", make(3)) == [1, True, None]
    assert Run(seed=4, progress=Progress(path)).piece("a", make(4)) == [4, True, None]  # another seed, another piece
    assert Run(seed=3).piece("a", make(5)) == [5, True, None]
    assert made == [1, 4, 5]


def test_a_quick_piece_is_no_full_one(tmp_path):
    """The quick run of `pairs:communities` has smaller graphs under the same name."""
    path = tmp_path / "progress.jsonl"
    assert Run(quick=True, progress=Progress(path)).piece("a", lambda: 600) == 600
    assert Run(progress=Progress(path)).piece("a", lambda: 3_000) == 3_000
    assert Run(quick=True, progress=Progress(path)).piece("a", lambda: 1) == 600


def test_a_line_cut_off_or_of_another_version_is_no_piece(tmp_path):
    path = tmp_path / "progress.jsonl"
    Progress(path).piece("a", lambda: 1)
    Progress(path).piece("b", lambda: 2)
    text = path.read_text()
    path.write_text(text[:-9])
    assert Progress(path).piece("a", lambda: 10) == 1
    assert Progress(path).piece("b", lambda: 20) == 20
    path.write_text(text.replace('"version": "', '"version": "0.'))
    assert Progress(path).piece("a", lambda: 30) == 30


def brief(key, ran):
    """A stand-in for an experiment: one row, and a figure whose numbers are its own."""

    def run_it(run):
        value = run.piece(key, lambda: ran.append(key) or len(ran))
        curves = Curves({"value": [value]}, lambda columns, path: path.write_text(key))
        return Outcome(key, [Row("data", "method", ours=float(value), repeats=1)], curves=curves)

    return run_it


def test_all_runs_every_key_and_overwrites_nothing(tmp_path, monkeypatch, capsys):
    ran = []
    for key in KEYS:
        monkeypatch.setitem(KEYS, key, brief(key, ran))
    for _ in range(2):  # the second time every piece is found again
        assert main(["reproduce", "all", "--quiet", "--out", str(tmp_path)]) == 0
    assert keys_of("all") == list(KEYS) == ran
    printed = capsys.readouterr().out
    assert all(f"{key}  {key}" in printed for key in KEYS)
    rows = {row["key"]: row["ours"] for row in pc.read_csv(tmp_path / "results.csv").to_pylist()}
    assert list(rows) == ran
    for key in KEYS:  # crowd and switches both have figures 2 and 4
        stem = key.replace(":", "_")
        assert pc.read_csv(tmp_path / f"{stem}.csv")["value"].to_pylist() == [rows[key]]
        assert (tmp_path / f"{stem}.png").read_text() == key
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) == len(KEYS)


def test_a_run_that_breaks_off_leaves_its_rows(tmp_path, monkeypatch):
    keys = keys_of("switches")
    for key in keys:
        monkeypatch.setitem(KEYS, key, brief(key, []))

    def interrupted(run):
        raise KeyboardInterrupt

    monkeypatch.setitem(KEYS, keys[2], interrupted)
    assert main(["reproduce", "switches", "--quiet", "--out", str(tmp_path)]) == 130
    assert pc.read_csv(tmp_path / "results.csv")["key"].to_pylist() == keys[:2]
    assert (tmp_path / "figure2.csv").exists()  # the keys of one paper go by their own names


@pytest.mark.parametrize("key", ["al", "every"])
def test_all_is_offered_where_a_key_is_not_known(key, capsys):
    assert main(["reproduce", key]) == 2
    assert "all" in capsys.readouterr().err
