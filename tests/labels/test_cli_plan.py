"""`latentfit plan` as a user meets it."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from latentfit.cli.main import main
from latentfit.io.write import write_columns
from latentfit.simulate import crowd

CROWD = crowd(60, 12, 3, labels_per_task=8, random_state=3)


@pytest.fixture
def votes(tmp_path):
    write_columns(CROWD.labels, tmp_path / "votes.csv", format="csv")
    write_columns(CROWD.truth, tmp_path / "truth.csv", format="csv")
    return str(tmp_path / "votes.csv")


def test_plan_names_workers_within_their_load(votes, tmp_path, capsys):
    out = tmp_path / "out"
    code = main(["plan", votes, "--budget", "9", "--per-worker", "2", "--workers", votes, "--out", str(out), "--json"])
    assert code == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text())
    assert {"verdict", "reasons", "seconds", "n_planned", "n_cover", "notes"} <= set(summary)
    table = pc.read_csv(out / "plan.csv").to_pandas()
    assert table.columns.tolist() == ["rank", "task", "worker", "reason", "gain"]
    assert len(table) == summary["n_planned"] == 9
    assert table.worker.value_counts().max() <= 2


def test_a_wide_table_names_its_own_workers(tmp_path):
    rows = ["task,ann,bob,cy,dee"]
    for task in range(40):
        answers = [str((task + (who == task % 4)) % 2) for who in range(4)]
        answers[task % 3] = ""
        rows.append(f"t{task}," + ",".join(answers))
    wide = tmp_path / "wide.csv"
    wide.write_text("\n".join(rows) + "\n")
    asked = ["plan", str(wide), "--workers", str(wide), "--budget", "5", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(asked) == 0
    assert set(pc.read_csv(tmp_path / "out" / "plan.csv")["worker"].to_pylist()) <= {"ann", "bob", "cy", "dee"}


def test_scores_are_cut_where_the_refusal_says_so(tmp_path, capsys):
    rows = CROWD.labels.to_pydict()
    scores = [(label + 0.01 * (at % 30)) / 3 for at, label in enumerate(rows["label"])]
    write_columns(pa.table({**rows, "label": scores}), tmp_path / "scores.csv", format="csv")
    asked = ["plan", str(tmp_path / "scores.csv"), "--budget", "5", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(asked) == 3
    assert "--bins 5" in capsys.readouterr().err
    assert main([*asked, "--bins", "3"]) == 0
    model = str(tmp_path / "out" / "model.latent")
    assert main(["predict", str(tmp_path / "scores.csv"), "--model", model, "--out", str(tmp_path / "new")]) == 0
    assert "no labels that the model knows" not in capsys.readouterr().err


def test_plan_for_anyone_on_stdout(votes, capsys):
    assert main(["plan", votes, "--budget", "3", "--out", "-", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rank,task,worker,reason,gain"
    assert [line.split(",")[2] for line in lines[1:]] == ["", "", ""]


def test_a_bare_list_of_workers_and_unusual_names(tmp_path):
    table = CROWD.labels.rename_columns(["image", "who", "says"])
    write_columns(table, tmp_path / "votes.csv", format="csv")
    (tmp_path / "staff.csv").write_text("name\n3\n4\n")
    names = ["--task", "image", "--worker", "who", "--label", "says"]
    out = ["--budget", "4", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(["plan", str(tmp_path / "votes.csv"), "--workers", str(tmp_path / "staff.csv"), *names, *out]) == 0
    assert set(pc.read_csv(tmp_path / "out" / "plan.csv")["worker"].to_pylist()) <= {3, 4}


def test_simulation_is_written_and_drawn(votes, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    truth = ["--truth", str(tmp_path / "truth.csv")]
    assert main(["plan", votes, "--simulate", *truth, "--out", str(out), "--quiet"]) == 0
    assert pc.read_csv(out / "simulation.csv").column_names == ["policy", "seed", "labels", "share", "error"]
    assert (out / "simulation.png").read_bytes().startswith(b"\x89PNG")
    summary = json.loads((out / "summary.json").read_text())
    assert {row["policy"] for row in summary["simulation"]} == {"plan", "random"}
    assert 0 <= summary["error_rate"] <= 1


def test_simulation_needs_truth(votes, capsys):
    assert main(["plan", votes, "--simulate"]) == 2
    assert "--simulate and --truth go together" in capsys.readouterr().err
    assert main(["plan", votes, "--budget", "0"]) == 2
