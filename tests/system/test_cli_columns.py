"""A model fitted to columns with names of their own is used on them under the same options."""

from __future__ import annotations

import pytest

from latentfit.cli.main import main
from latentfit.cli.options import ROLES
from latentfit.core.registry import ESTIMATORS
from latentfit.simulate import block_graph, hidden_markov, topic_documents

WRITES = {"hmm": "states.csv", "topics": "documents.csv", "communities": "communities.csv"}


def lines_of_words():
    counts = topic_documents(40, 12, 2, length=60, random_state=0).counts.tocoo()
    return [f"d{d},w{w},{n}" for d, w, n in zip(counts.row, counts.col, counts.data, strict=True)]


def lines_of_steps():
    codes = hidden_markov(600, n_states=2, n_symbols=5, n_sequences=6, random_state=1).sequences.codes
    return [f"s{at // 100},a{code}" for at, code in enumerate(codes)]


def lines_of_edges():
    links = block_graph(60, 2, 8.0, strength=5.0, random_state=0).matrix.tocoo()
    return [f"n{a},n{b},1" for a, b in zip(links.row, links.col, strict=True) if a < b]


FILES = {
    "topics": (["--topics", "2"], ["document", "word", "count"], lines_of_words),
    "hmm": (["--states", "2"], ["sequence", "symbol"], lines_of_steps),
    "communities": (["--blocks", "2"], ["source", "target", "weight"], lines_of_edges),
}


@pytest.mark.parametrize("command", FILES)
def test_predict_and_report_read_the_columns_that_the_fit_read(command, tmp_path):
    number, roles, lines = FILES[command]
    body = "\n".join(lines()) + "\n"
    (tmp_path / "usual.csv").write_text(",".join(roles) + "\n" + body)
    (tmp_path / "own.csv").write_text(",".join(f"my {role}" for role in roles) + "\n" + body)
    named = [word for role in roles for word in (f"--{role}", f"my {role}")]
    own, model = str(tmp_path / "own.csv"), str(tmp_path / "fit" / "model.latent")
    assert main([command, own, *number, *named, "--out", str(tmp_path / "fit"), "--quiet"]) == 0
    assert main(["predict", own, "--model", model, *named, "--out", str(tmp_path / "own"), "--quiet"]) == 0
    usual = ["predict", str(tmp_path / "usual.csv"), "--model", model, "--out", str(tmp_path / "usual"), "--quiet"]
    assert main(usual) == 0
    name = WRITES[command]
    assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "usual" / name).read_bytes()
    assert main(["report", model, own, *named, "--out", str(tmp_path / "page"), "--quiet"]) == 0
    assert "own.csv" in (tmp_path / "page" / "report.html").read_text()


@pytest.fixture(scope="module")
def of_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "x.csv").write_text("who,a,b,c\n" + "".join(f"r{n},{n % 2},{n % 2},{n % 3}\n" for n in range(60)))
    assert main(["table", str(folder / "x.csv"), "--components", "2", "--id", "who", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("command", ["predict", "report"])
@pytest.mark.parametrize("role", [role for role in ROLES if role not in ("id", "target")])
def test_a_role_that_the_data_of_a_model_do_not_have_is_refused(command, role, of_rows, capsys):
    model, data = str(of_rows / "model.latent"), str(of_rows / "x.csv")
    words = [data, "--model", model] if command == "predict" else [model, data]
    assert main([command, *words, "--id", "who", f"--{role}", "a", "--out", str(of_rows / "no")]) == 3
    said = capsys.readouterr().err
    assert f"holds a LatentClass, whose data have no {role}; leave --{role} out (what can be named: --id)" in said
    assert not (of_rows / "no").exists()


def test_every_role_in_the_registry_is_an_option():
    assert {role for estimator in ESTIMATORS.values() for role in estimator.roles} <= set(ROLES)


def test_the_column_without_a_name_is_one_that_can_be_named(tmp_path, capsys):
    """pandas writes its index without a name, and `--id ''` takes it for the ids: in the fit and ever after."""
    data, model = str(tmp_path / "x.csv"), str(tmp_path / "model.latent")
    (tmp_path / "x.csv").write_text(",a,b,c\n" + "".join(f"r{n},{n % 2},{n % 2},{n % 3}\n" for n in range(60)))
    assert main(["table", data, "--components", "2", "--id", "", "--out", str(tmp_path), "--quiet"]) == 0
    assert main(["predict", data, "--model", model, "--id", "", "--out", str(tmp_path / "new"), "--quiet"]) == 0
    assert (tmp_path / "new" / "predictions.csv").read_text().splitlines()[1].startswith("r0,")
    assert main(["report", model, data, "--id", "", "--out", str(tmp_path / "new"), "--quiet"]) == 0
    assert main(["report", model, data, "--task", "", "--out", str(tmp_path / "new"), "--quiet"]) == 3
    assert "whose data have no task; leave --task out" in capsys.readouterr().err
