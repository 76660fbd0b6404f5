"""Long reproductions go on where they were interrupted, one command runs every key, and no file covers another."""

from __future__ import annotations

import pyarrow.csv as pc
import pytest

from reproduction import KEYS, draw, keys_of, switches_admixture
from reproduction.__main__ import main
from reproduction.table import Curves, Outcome, Progress, Row, Run, absent, lacked, write_curves, write_rows


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
    assert Progress(path).piece("b", lambda: 200) == 20  # the line after a cut one is its own
    path.write_text(text.replace('"version": "', '"version": "0.'))
    assert Progress(path).piece("a", lambda: 30) == 30


@pytest.fixture
def brief(monkeypatch):
    """Every key a stand-in: one row, a figure whose numbers are its own, and its name in the list of what ran."""
    ran = []

    def stand_in(key):
        def run_it(run):
            ran.append(key)
            curves = Curves({"key": [key], "value": [float(len(ran))]}, draw.draw_brief)
            return Outcome(key, [Row("data", "method", ours=float(len(ran)), repeats=1)], ["a note"], curves)

        return run_it

    def draw_brief(columns, path):
        path.write_text(columns["key"][0])

    monkeypatch.setattr(draw, "draw_brief", draw_brief, raising=False)
    for key in KEYS:
        monkeypatch.setitem(KEYS, key, stand_in(key))
    return ran


def test_all_runs_every_key_once_and_overwrites_nothing(tmp_path, brief, capsys):
    printed = set()
    for _ in range(2):  # the second time every key is found again
        assert main(["all", "--quiet", "--out", str(tmp_path)]) == 0
        printed.add(capsys.readouterr().out)
        assert keys_of("all") == list(KEYS) == brief
        rows = {row["key"]: row["ours"] for row in pc.read_csv(tmp_path / "results.csv").to_pylist()}
        assert rows == {key: at + 1 for at, key in enumerate(KEYS)}
        for key in KEYS:  # crowd and switches both have figures 2 and 4
            stem = key.replace(":", "_")
            assert pc.read_csv(tmp_path / f"{stem}.csv")["value"].to_pylist() == [rows[key]]
            assert (tmp_path / f"{stem}.png").read_text() == key
            (tmp_path / f"{stem}.png").unlink()
    (text,) = printed
    assert all(f"{key}  {key}" in text for key in KEYS)


def test_a_run_that_breaks_off_leaves_its_rows_and_goes_on_with_the_first_unfinished_key(
    tmp_path, monkeypatch, brief, capsys
):
    keys = keys_of("switches")
    whole = KEYS[keys[2]]

    def interrupted(run):
        raise KeyboardInterrupt

    monkeypatch.setitem(KEYS, keys[2], interrupted)
    assert main(["switches", "--quiet", "--out", str(tmp_path)]) == 130
    assert pc.read_csv(tmp_path / "results.csv")["key"].to_pylist() == keys[:2]
    assert (tmp_path / "figure2.csv").exists()  # the keys of one paper go by their own names
    monkeypatch.setitem(KEYS, keys[2], whole)
    capsys.readouterr()
    assert main(["switches", "--out", str(tmp_path)]) == 0
    assert brief == keys
    assert pc.read_csv(tmp_path / "results.csv")["key"].to_pylist() == keys
    assert f"{keys[0]} stands in {tmp_path / 'progress.jsonl'}: to run it again" in capsys.readouterr().err


@pytest.mark.parametrize("other", [{"seed": 1}, {"quick": True}, {"repeats": 2}])
def test_a_key_is_run_again_with_another_seed_or_other_repeats(tmp_path, brief, other):
    for _ in range(2):
        for options in ({}, other):
            Run(**options, progress=Progress(tmp_path / "progress.jsonl")).outcome("crowd:table1", KEYS["crowd:table1"])
    assert len(brief) == 2


def test_a_key_is_run_again_when_data_that_it_lacked_has_come(tmp_path):
    def experiment(run):
        missing = run.find("tables/car.csv") is None
        return Outcome("", [Row("car", "method", note=absent("tables/car.csv") if missing else "")])

    def note(data):
        run = Run(data=data, progress=Progress(tmp_path / "progress.jsonl"))
        return run.outcome("key", experiment).rows[0].note

    assert note(None) == note(tmp_path) == "skipped: no tables/car.csv"
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "car.csv").touch()
    assert note(tmp_path) == note(None) == ""


def test_a_program_that_is_not_here_is_no_data(monkeypatch):
    """The command says where data is looked for when rows lack some, and only then."""
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(switches_admixture, "METHODS", {"ADMIXTURE": switches_admixture.METHODS["ADMIXTURE"]})
    monkeypatch.setattr(switches_admixture, "ALPHAS", (1.0,))
    outcome = KEYS["switches:figure4"](Run(quick=True))
    assert [row.note.startswith("skipped: ") for row in outcome.rows] == [True, True]
    assert lacked(outcome.rows) == ["genetics/sim_admix_d3_m50_alpha1.0.npz"]


def test_a_figure_found_again_is_the_same_to_the_last_digit(tmp_path):
    said = []
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        run = Run(repeats=1, say=said.append, progress=Progress(tmp_path / "progress.jsonl"))
        outcome = run.outcome("crowd:figure3", KEYS["crowd:figure3"])
        write_rows({"crowd:figure3": outcome}, folder)
        write_curves(outcome.curves, folder / "figure3")
    assert "crowd:figure3 stands in" in said[-1]
    for name in ("results.csv", "figure3.csv", "figure3.png"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize("key", ["al", "every"])
def test_all_is_offered_where_a_key_is_not_known(key, capsys):
    assert main([key]) == 2
    assert "all" in capsys.readouterr().err
