"""`latentfit hmm` and `latentfit predict` on its models: files, columns, options, exit codes."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow.csv as pc
import pytest

from latentfit import load
from latentfit.cli.main import main
from latentfit.simulate import hidden_markov


@pytest.fixture(scope="module")
def words():
    made = hidden_markov(3000, n_states=2, n_symbols=8, n_sequences=30, overlap=0.1, random_state=2)
    names = np.array([f"w{n}" for n in range(8)], object)[made.sequences.codes]
    return [list(part) for part in np.split(names, made.sequences.offsets[1:-1])]


@pytest.fixture(scope="module")
def table(words, tmp_path_factory):
    path = tmp_path_factory.mktemp("hmm") / "visits.csv"
    lines = ["sequence,symbol"] + [f"s{n},{word}" for n, one in enumerate(words) for word in one]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_files_and_summary(table, words, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["hmm", str(table), "--states", "2", "--out", str(out), "--json", "--quiet"]) == 0
    summary = json.loads(capsys.readouterr().out)
    wanted = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds",
              "verdict", "reasons", "entropy_rate"}  # fmt: skip
    assert wanted <= set(summary)
    assert summary["n_rows"] == 3000
    assert summary["n_components"] == 2
    states = pc.read_csv(out / "states.csv")
    assert states.column_names == ["sequence", "position", "symbol", "state", "probability"]
    assert states["sequence"][-1].as_py() == "s29"
    assert states["symbol"].to_pylist()[: len(words[0])] == words[0]
    parameters = pc.read_csv(out / "parameters.csv")
    assert parameters.column_names == ["kind", "from", "to", "probability"]
    assert parameters.num_rows == 2 + 4 + 16
    assert (out / "model.latent").exists()
    assert (out / "summary.json").exists()


def test_predict_gives_the_same_states(table, tmp_path, capsys):
    assert main(["hmm", str(table), "--states", "2", "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    model = str(tmp_path / "fit" / "model.latent")
    assert main(["predict", str(table), "--model", model, "--out", str(tmp_path / "new"), "--quiet"]) == 0
    assert (tmp_path / "new" / "states.csv").read_bytes() == (tmp_path / "fit" / "states.csv").read_bytes()
    assert main(["sample", model, "-n", "5", "--out", "-", "--quiet"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "position,symbol,state"
    assert len(rows) == 6
    (tmp_path / "line.txt").write_text("w1 strange w2\n")
    assert main(["predict", str(tmp_path / "line.txt"), "--model", model, "--out", "-"]) == 0
    told = capsys.readouterr()
    assert "not seen ('strange')" in told.err
    assert told.out.splitlines()[2].startswith("1,2,,")


def test_lines_letters_and_missing_symbols(tmp_path, capsys):
    rng = np.random.default_rng(0)
    text = "".join(np.array(list("ACGTN"))[rng.integers(0, 5, 400)])
    with gzip.open(tmp_path / "dna.txt.gz", "wt") as file:
        file.write(text + "\n")
    command = ["hmm", str(tmp_path / "dna.txt.gz"), "--letters", "--gap", "N", "--states", "2", "--out", "-"]
    assert main([*command, "--quiet"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == 400
    assert {row.split(",")[2] for row in rows} == {"A", "C", "G", "T", ""}
    assert main([*command, "--quiet", "--strict"]) == 1


@pytest.mark.parametrize("said", [True, False])
def test_new_lines_are_split_as_those_of_the_fit_were(said, tmp_path):
    """Words of one character are no letters, the blanks between them no gaps; nor where the file does not say."""
    rng = np.random.default_rng(1)
    lines = ["".join(np.array(list("01"))[rng.integers(0, 2, 40)]) for _ in range(5)]
    for name, text in (("words", "\n".join(map(" ".join, lines))), ("letters", "\n".join(lines))):
        (tmp_path / f"{name}.txt").write_text(text + "\n")
        fit, new = tmp_path / f"{name}-fit", tmp_path / f"{name}-new"
        more = ["--letters"] if name == "letters" else []
        line = [str(tmp_path / f"{name}.txt"), "--out"]
        assert main(["hmm", *line, str(fit), *more, "--states", "2", "--quiet"]) == 0
        model = fit / "model.latent"
        if not said:
            made = load(model)
            made._letters = None
            made.save(model)
        assert main(["predict", *line, str(new), "--model", str(model), "--quiet"]) == 0
        assert len((new / "states.csv").read_text().splitlines()) == 201
        assert (new / "states.csv").read_bytes() == (fit / "states.csv").read_bytes()
    (tmp_path / "gapped.txt").write_text(lines[0] + " " + lines[1] + "\n")  # a blank among letters is not observed
    line = ["predict", str(tmp_path / "gapped.txt"), "--model", str(tmp_path / "letters-fit" / "model.latent")]
    assert main([*line, "--out", str(tmp_path / "gapped"), "--quiet"]) == 0
    if said:
        assert len((tmp_path / "gapped" / "states.csv").read_text().splitlines()) == 82


@pytest.mark.parametrize(
    ("content", "name", "more", "code", "words"),
    [
        ("sequence,x,y\n1,a,b\n", "t.csv", [], 3, "no column for the symbol"),
        ("sequence,symbol\n1,a\n2,b\n", "t.csv", ["--states", "2"], 3, "have one observation"),
        ("symbol\na\nb\n", "t.csv", ["--letters"], 3, "--letters is for text files"),
        ("\n \n", "t.txt", [], 3, "holds no line"),
        ("symbol\na\n", "t.csv", ["--init", "svd"], 2, "svd"),
    ],
)
def test_bad_input_gets_a_sentence_and_a_code(content, name, more, code, words, tmp_path, capsys):
    (tmp_path / name).write_text(content)
    assert main(["hmm", str(tmp_path / name), *more, "--out", str(tmp_path / "o")]) == code
    assert words in capsys.readouterr().err


def test_a_missing_file_is_4(tmp_path, capsys):
    assert main(["hmm", str(tmp_path / "none.txt"), "--out", str(tmp_path / "o")]) == 4
    assert "does not exist; check the path" in capsys.readouterr().err


def test_text_that_is_not_utf8_names_the_line(tmp_path, capsys):
    (tmp_path / "t.txt").write_bytes(b"a b\n\xff c\n")
    assert main(["hmm", str(tmp_path / "t.txt"), "--out", str(tmp_path / "o")]) == 3
    assert "line 2" in capsys.readouterr().err


def test_the_limit_and_the_column_of_time_are_options(words, tmp_path, capsys):
    rows = [f"s{n},{at},{word}" for n, one in enumerate(words) for at, word in enumerate(one)]
    order = np.random.default_rng(0).permutation(len(rows))
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["visitor,tick,page", *(rows[at] for at in order)]) + "\n")
    asked = ["--time", "tick", "--symbol", "page", "--max-states", "1"]
    assert main(["hmm", str(path), *asked, "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
    table = pc.read_csv(tmp_path / "out" / "states.csv").to_pylist()
    first = table[0]["sequence"]
    shown = [row["symbol"] for row in table if row["sequence"] == first]
    assert shown == words[int(first[1:])], "sorted by time"
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["n_components"] == 1
    assert any("symbols depend on one another" in reason for reason in summary["reasons"])


def test_a_fold_without_any_pair_is_no_crash_on_the_command_line(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("a b c\n" + "d\n" * 9)
    assert main(["hmm", str(path), "--states", "2", "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
