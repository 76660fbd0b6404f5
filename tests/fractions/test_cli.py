"""`latentfit fractions` and `latentfit predict` with its model: files, orientation, reference, sentences."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from latentfit.cli.main import main
from latentfit.io.write import write_columns


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    W, H = rng.dirichlet(np.full(3, 0.5), 10), rng.beta(0.5, 0.5, (3, 60))
    X = np.clip(W @ H + 0.02 * rng.normal(size=(10, 60)), 0, 1)
    sites, samples, parts = [f"cg{n}" for n in range(60)], [f"s{n}" for n in range(10)], ["B", "T", "NK"]
    tables = {
        "values": {"cpg": sites, **{name: X[i] for i, name in enumerate(samples)}},
        "turned": {"sample": samples, **{name: X[:, j] for j, name in enumerate(sites)}},
        "reference": {"cpg": sites, **{name: H[k] for k, name in enumerate(parts)}},
    }
    for stem, columns in tables.items():
        write_columns(pa.table(columns), tmp_path / f"{stem}.csv", format="csv")
    return tmp_path, W


def proportions(path):
    table = pc.read_csv(path).to_pydict()
    assert list(table) == ["sample", "part", "fraction"]
    return table, np.array(table["fraction"]).reshape(10, 3)


def test_fractions_with_a_reference_are_written(files, capsys):
    folder, W = files
    out = folder / "out"
    arguments = ["fractions", str(folder / "values.csv"), "--reference", str(folder / "reference.csv")]
    assert main([*arguments, "--out", str(out), "--json", "--strict"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    said = capsys.readouterr()
    assert json.loads(said.out) == summary
    assert "10 samples, 60 features, 3 parts" in said.err
    assert (summary["n_rows"], summary["n_components"], summary["n_features"]) == (10, 3, 60)
    assert summary["parts"] == ["B", "T", "NK"]
    assert summary["verdict"] == "ok"
    table, found = proportions(out / "fractions.csv")
    assert table["sample"][:4] == ["s0", "s0", "s0", "s1"]
    assert table["part"][:4] == ["B", "T", "NK", "B"]
    assert np.abs(found - W).mean() < 0.02
    assert pc.read_csv(out / "profiles.csv").column_names == ["feature", "B", "T", "NK"]
    turned = [str(folder / "turned.csv"), "--samples-in", "rows", *arguments[2:]]
    assert main(["fractions", *turned, "--out", str(folder / "rows"), "--quiet"]) == 0
    np.testing.assert_allclose(proportions(folder / "rows" / "fractions.csv")[1], found, atol=1e-9)
    for stem in ("values", "turned"):
        again = folder / f"again-{stem}"
        told = ["predict", str(folder / f"{stem}.csv"), "--model", str(out / "model.latent"), "--out", str(again)]
        assert main([*told, "--quiet"]) == 0
        table, repeated = proportions(again / "fractions.csv")
        np.testing.assert_allclose(repeated, found, atol=1e-12)
        assert table["sample"][0] == "s0"


def test_the_sum_of_fractions_may_be_left_open(files, capsys):
    folder, _ = files
    arguments = ["fractions", str(folder / "values.csv"), "--constraint", "sum-at-most-one", "--quiet"]
    told = ["--reference", str(folder / "reference.csv"), "--out", str(folder / "open")]
    assert main([*arguments, *told]) == 0
    _, found = proportions(folder / "open" / "fractions.csv")
    assert (found.sum(axis=1) <= 1 + 1e-12).all()
    assert found.sum(axis=1).min() < 1
    notes = json.loads((folder / "open" / "summary.json").read_text())["notes"]
    assert any("sum to at most one" in note for note in notes)
    assert main([*arguments, "--out", str(folder / "blind")]) == 2
    assert "constraint must be 'sum_to_one' without a reference" in capsys.readouterr().err


def test_blind_and_its_profiles_as_a_reference(files, capsys):
    folder, _ = files
    out = folder / "out"
    assert main(["fractions", str(folder / "values.csv"), "--components", "3", "--out", str(out), "--quiet"]) == 0
    table, found = proportions(out / "fractions.csv")
    assert sorted(set(table["part"])) == [0, 1, 2]
    assert found.mean(axis=0).tolist() == sorted(found.mean(axis=0), reverse=True)
    again = ["fractions", str(folder / "values.csv"), "--reference", str(out / "profiles.csv"), "--out", "-", "--quiet"]
    capsys.readouterr()
    assert main(again) == 0
    lines = capsys.readouterr().out.splitlines()
    np.testing.assert_allclose([float(line.split(",")[2]) for line in lines[1:]], found.reshape(-1), atol=1e-9)


def test_errors_of_the_command_name_the_problem(files, capsys):
    folder, _ = files
    bad = folder / "bad.csv"
    bad.write_text("cpg,a,b\ncg1,0.2,80\ncg2,0.1,0.3\n")
    assert main(["fractions", str(bad), "--out", str(folder / "x"), "--quiet"]) == 3
    assert "bad.csv holds 80 in column 'b', row 1" in capsys.readouterr().err
    assert main(["fractions", str(bad), "--id", "site", "--out", str(folder / "x"), "--quiet"]) == 3
    assert "has no column 'site'" in capsys.readouterr().err
