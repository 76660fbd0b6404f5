"""The command line as a user meets it: files, exit codes, pipes, sentences."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from latentfit.cli.main import COMMANDS, main
from latentfit.io.write import write_columns
from latentfit.simulate import crowd

CROWD = crowd(80, 8, 3, labels_per_task=5, random_state=3)


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    write_columns(CROWD.labels, path, format="csv")
    write_columns(CROWD.truth, tmp_path / "truth.csv", format="csv")
    return path


def latentfit(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", "from latentfit.cli.main import run; run()", *map(str, arguments)],
        capture_output=True,
        text=True,
        **kwargs,
    )


def test_labels_writes_everything(votes, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["labels", str(votes), "--truth", str(tmp_path / "truth.csv"), "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    summary = json.loads((out / "summary.json").read_text())
    assert printed == summary
    always = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds"}
    assert always | {"verdict", "reasons", "error_rate"} <= set(summary)
    assert summary["n_rows"] == 80
    assert summary["error_rate"] <= summary["majority_error_rate"] + 0.05
    columns = {
        "consensus": ["task", "label", "probability", "n_labels", "margin"],
        "workers": ["worker", "n_labels", "accuracy", "accuracy_low", "accuracy_high", "flag"],
        "confusion": ["worker", "true", "given", "probability"],
    }
    for name, expected in columns.items():
        assert pc.read_csv(out / f"{name}.csv").column_names == expected
    assert pc.read_csv(out / "confusion.csv").num_rows == 8 * 9
    assert sorted(p.name for p in out.iterdir()) == [
        "confusion.csv", "consensus.csv", "model.latent", "report.html", "summary.json", "workers.csv",
    ]  # fmt: skip


def test_saved_model_labels_new_tasks(votes, tmp_path):
    assert main(["labels", str(votes), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    model = str(tmp_path / "out" / "model.latent")
    assert main(["predict", str(votes), "--model", model, "--out", str(tmp_path / "new"), "--quiet"]) == 0
    predicted = pc.read_csv(tmp_path / "new" / "predictions.csv")
    assert predicted.column_names == ["task", "value", "probability"]
    consensus = pc.read_csv(tmp_path / "out" / "consensus.csv")
    assert predicted["value"].to_pylist() == consensus["label"].to_pylist()


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_other_formats_in_and_out(format_, tmp_path):
    source = tmp_path / f"votes.{format_}"
    write_columns(CROWD.labels, source, format=format_)
    assert main(["labels", str(source), "--out", str(tmp_path / "out"), "--format", format_, "--quiet"]) == 0
    result = tmp_path / "out" / f"consensus.{format_}"
    if format_ == "parquet":
        assert pq.read_table(result).num_rows == 80
    else:
        assert len(result.read_text().splitlines()) == 80


def test_pipes(votes):
    done = latentfit("labels", "-", "--out", "-", input=votes.read_text())
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "task,label,probability,n_labels,margin"
    assert len(done.stdout.splitlines()) == 81
    assert "verdict" in done.stderr
    quiet = latentfit("labels", str(votes), "--out", "-", "--quiet")
    assert quiet.stderr == ""


def test_who_reads_no_further_is_no_error(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "x,y\n" * 50_000)
    command = f"{sys.executable} -c 'from latentfit.cli.main import run; run()' table {rows} --components 1"
    for rest in ("--quiet --out -", f"--out {tmp_path}/out 2>&1"):
        asked = f"{command} {rest} | head -n 1"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", asked], capture_output=True, text=True)
        assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 1, "")
    assert (tmp_path / "out" / "report.html").exists()


def test_same_file_same_bytes(votes, tmp_path):
    for name in ("one", "two"):
        threads = "1" if name == "one" else "2"
        assert main(["labels", str(votes), "--out", str(tmp_path / name), "--threads", threads, "--quiet"]) == 0
    for file in ("consensus.csv", "workers.csv", "confusion.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_gold_is_held_fixed(votes, tmp_path):
    gold = tmp_path / "gold.csv"
    gold.write_text("task,label\n0,2\n1,2\n")
    assert main(["labels", str(votes), "--gold", str(gold), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    consensus = pc.read_csv(tmp_path / "out" / "consensus.csv").to_pylist()
    assert [row["label"] for row in consensus if row["task"] in (0, 1)] == [2, 2]


BAD_FILES = {
    "no column for the label": (b"task,worker\na,b\n", 3),
    "is empty": (b"", 3),
    "all labels come from 1 worker": (b"task,worker,label\na,x,1\nb,x,0\n", 3),
    "none of the 2 tasks has a label": (b"task,worker,label\na,x,\nb,y,\n", 3),
    "line 3": (b"task,worker,label\na,x,1\nb,y\n", 3),
    "UTF-8": (b"task,worker,label\na,x,\xff\xfe\nb,y,c\n", 3),
    "characters": (b"task,worker,label\na,x," + b"l" * 1_000_000 + b"\nb,y,c\n", 3),
    "separated by semicolons": (b"task;worker;label\na;x;1\nb;y\n", 3),
}


@pytest.mark.parametrize("sentence", BAD_FILES)
def test_bad_files_get_one_sentence_and_nothing_is_written(sentence, tmp_path, capsys):
    data, code = BAD_FILES[sentence]
    path = tmp_path / "votes.csv"
    path.write_bytes(data)
    assert main(["labels", str(path), "--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert said.startswith("latentfit: ")
    assert len(said.splitlines()) == 1
    assert len(said) < 600
    assert not (tmp_path / "out").exists()


def test_exit_codes(votes, tmp_path, capsys):
    assert main(["labels", str(tmp_path / "no.csv")]) == 4
    assert main(["labels"]) == 2
    assert main(["lables", str(votes)]) == 2
    assert "did you mean 'labels'?" in capsys.readouterr().err
    assert main(["predict", str(votes), "--model", str(votes)]) == 4
    assert main(["labels", str(votes), "--memory", "lots", "--out", str(tmp_path / "o")]) == 2
    assert main(["labels", str(votes), "--method", "robust", "--memory", "10B", "--out", str(tmp_path / "o")]) == 3
    two = tmp_path / "two.csv"
    two.write_text("task,worker,label\na,x,1\na,y,0\nb,x,0\nb,y,0\n")
    assert main(["labels", str(two), "--out", str(tmp_path / "two"), "--quiet"]) == 0
    assert main(["labels", str(two), "--out", str(tmp_path / "two"), "--quiet", "--strict"]) == 1
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    assert main(["labels", str(votes), "--out", str(blocked), "--quiet"]) == 4


def _hearing():
    """A shell may have started us deaf to interrupts, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_interrupt_leaves_no_half_written_file(tmp_path):
    big = crowd(60_000, 500, 4, labels_per_task=10, random_state=0)
    path = tmp_path / "votes.parquet"
    write_columns(big.labels, path, format="parquet")
    command = [sys.executable, "-c", "from latentfit.cli.main import run; run()", "labels", str(path), "--out"]
    for pause in (0.6, 1.2, 2.0):
        out = tmp_path / f"out{pause}"
        process = subprocess.Popen([*command, str(out)], stderr=subprocess.PIPE, text=True, preexec_fn=_hearing)
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 130), said
        assert "Traceback" not in said
        files = {p.name for p in out.iterdir()} if out.exists() else set()
        assert files <= {"consensus.csv", "workers.csv", "confusion.csv", "model.latent", "report.html", "summary.json"}


def test_help_names_every_command_and_is_quick():
    done = latentfit("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    code = "import sys; from latentfit.cli.main import main; main(['--help']); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
    assert latentfit("--version").stdout.strip().startswith("latentfit")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    done = latentfit(name, "--help")
    assert done.returncode == 0, done.stderr


def test_demo_beats_the_vote(tmp_path):
    done = latentfit("demo", "--out", tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["error_rate"] < summary["majority_error_rate"] - 0.03
    assert "best annotator" in done.stderr
    assert "majority vote" in done.stderr
    assert os.path.exists(tmp_path / "demo" / "consensus.csv")


def test_label_studio_and_wide_files(tmp_path):
    def annotation(who, choice):
        result = [{"from_name": "kind", "type": "choices", "value": {"choices": [choice]}}]
        return {"completed_by": who, "was_cancelled": False, "ground_truth": False, "result": result}

    words = ["cat", "dog"]
    tasks = [
        {"id": i, "annotations": [annotation(w, words[(i + (w == 4 and i % 3 == 0)) % 2]) for w in (1, 2, 4)]}
        for i in range(12)
    ]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks))
    assert main(["labels", str(export), "--out", str(tmp_path / "studio"), "--quiet"]) == 0
    labels = pc.read_csv(tmp_path / "studio" / "consensus.csv")["label"].to_pylist()
    assert labels == [words[i % 2] for i in range(12)]
    wide = tmp_path / "wide.csv"
    rows = ["task,ann,bob,cy"] + [f"t{i},{words[i % 2]},{words[i % 2]},{'' if i % 4 else words[0]}" for i in range(12)]
    wide.write_text("\n".join(rows) + "\n")
    assert main(["labels", str(wide), "--out", str(tmp_path / "wide"), "--quiet"]) == 0
    assert pc.read_csv(tmp_path / "wide" / "consensus.csv")["label"].to_pylist() == labels
    assert pc.read_csv(tmp_path / "wide" / "workers.csv")["worker"].to_pylist() == ["ann", "bob", "cy"]


def test_known_answers_of_an_export_stand_beside_those_of_a_file(tmp_path):
    def annotation(who, choice, known=False):
        result = [{"from_name": "kind", "type": "choices", "value": {"choices": [choice]}}]
        return {"completed_by": who, "was_cancelled": False, "ground_truth": known, "result": result}

    tasks = [{"id": i, "annotations": [annotation(w, ["cat", "dog"][i % 2]) for w in (1, 2, 4)]} for i in range(12)]
    tasks[0]["annotations"].append(annotation(9, "dog", known=True))
    export, gold = tmp_path / "export.json", tmp_path / "gold.csv"
    export.write_text(json.dumps(tasks))
    gold.write_text("task,label\n3,cat\n")
    arguments = ["labels", str(export), "--gold", str(gold), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(arguments) == 0
    rows = pc.read_csv(tmp_path / "out" / "consensus.csv").to_pydict()
    found = dict(zip(rows["task"], rows["label"], strict=True))
    assert found[0] == "dog"
    assert found[3] == "cat"
    gold.write_text("task,label\n0,cat\n")
    assert main(arguments) == 3


@pytest.mark.parametrize(
    "method", ["majority", "majority-em", "robust", "robust-uniform", "robust-paper", "designated", "cnmf", "spectral"]
)
@pytest.mark.parametrize("em", ["--em", "--no-em"])
def test_methods_from_the_command_line(votes, tmp_path, method, em):
    out = tmp_path / "out"
    truth = str(tmp_path / "truth.csv")
    arguments = ["labels", str(votes), "--truth", truth, "--method", method, em, "--out", str(out), "--quiet"]
    assert main(arguments) == 0
    assert json.loads((out / "summary.json").read_text())["error_rate"] < 0.2


MODELS = Path(__file__).parents[1] / "system" / "models"


@pytest.mark.parametrize("kind", ["Admixture", "CategoricalHMM", "DawidSkene", "PairMatrix", "TopicModel"])
def test_a_target_is_for_tables_only(kind, tmp_path, capsys):
    """It used to be passed over in silence."""
    model = str(MODELS / f"{kind}-0.1.0.tacit")
    assert main(["predict", "x.csv", "--model", model, "--target", "a", "--out", str(tmp_path / "out")]) == 3
    assert f"holds a {kind}, which predicts" in capsys.readouterr().err
