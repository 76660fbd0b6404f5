"""`latentfit admixture` as a user meets it: files, options, sentences."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from latentfit import load
from latentfit.cli.main import main
from latentfit.io.write import write_columns

ALWAYS = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds"}


def made(n_people=110, n_snps=200):
    rng = np.random.default_rng(0)
    proportions = rng.dirichlet([0.2, 0.2], n_people)
    counts = rng.binomial(2, proportions @ rng.uniform(0.05, 0.95, (2, n_snps)))
    counts[:, 7] = 0
    cells = np.where(rng.random(counts.shape) < 0.05, -1, counts)
    return cells, proportions


@pytest.fixture
def genotypes(tmp_path):
    cells, proportions = made()
    columns = {"sample": [f"person{i}" for i in range(len(cells))]}
    columns |= {f"rs{j}": [None if c < 0 else int(c) for c in cells[:, j]] for j in range(cells.shape[1])}
    path = tmp_path / "genotypes.csv"
    write_columns(pa.table(columns), path, format="csv")
    return path, proportions


def test_admixture_writes_everything(genotypes, tmp_path, capsys):
    path, proportions = genotypes
    out = tmp_path / "out"
    assert main(["admixture", str(path), "--populations", "2", "--threads", "1", "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert json.loads((out / "summary.json").read_text()) == summary
    assert ALWAYS | {"verdict", "reasons", "n_snps", "n_snps_used", "missing", "proportions"} <= set(summary)
    assert (summary["n_rows"], summary["n_components"], summary["n_snps"]) == (110, 2, 200)
    assert summary["n_snps_used"] == 199
    ancestry = pc.read_csv(out / "ancestry.csv").to_pydict()
    assert list(ancestry) == ["sample", "population", "proportion", "standard_error"]
    errors = np.array(ancestry["standard_error"]).reshape(110, 2)
    assert 0 < np.median(errors) < 0.2
    assert ancestry["sample"][:4] == ["person0", "person0", "person1", "person1"]
    found = np.array(ancestry["proportion"]).reshape(110, 2)
    assert min(np.abs(found - proportions).mean(), np.abs(found[:, ::-1] - proportions).mean()) < 0.1
    np.testing.assert_allclose(np.loadtxt(out / "out.2.Q"), found, atol=1e-6)
    frequencies = pc.read_csv(out / "frequencies.csv").to_pydict()
    assert frequencies["snp"] == [f"rs{j}" for j in range(200)]
    assert frequencies["used"][7] == 0
    assert np.loadtxt(out / "out.2.P").shape == (200, 2)
    assert np.loadtxt(out / "out.2.P").min() > 0  # frequencies have a floor, and none is printed as zero
    np.testing.assert_allclose(np.loadtxt(out / "out.2.P")[:, 1], frequencies["population1"], atol=1e-6)
    np.testing.assert_array_equal(load(out / "model.latent").ancestry_, found)
    again = tmp_path / "again"
    assert main(["predict", str(path), "--model", str(out / "model.latent"), "--out", str(again), "--quiet"]) == 0
    assert (again / "ancestry.csv").read_bytes() == (out / "ancestry.csv").read_bytes()


def test_the_number_is_found_and_its_path_written(genotypes, tmp_path, capsys):
    path, _ = genotypes
    out = tmp_path / "out"
    assert main(["admixture", str(path), "--threads", "1", "--out", str(out)]) == 0
    assert json.loads((out / "summary.json").read_text())["n_components"] == 2
    assert pc.read_csv(out / "cv.csv").column_names == ["n_populations", "error", "gain", "gain_error"]
    assert (out / "out.2.Q").exists()
    assert "cross-validation" in capsys.readouterr().err


def test_stdout_holds_the_proportions(genotypes, tmp_path, capsys):
    path, _ = genotypes
    assert main(["admixture", str(path), "--populations", "2", "--threads", "1", "--out", "-", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("sample,population,proportion,standard_error\nperson0,0,")
    assert not said.err


def test_a_plink_set_goes_in(tmp_path):
    bed_reader = pytest.importorskip(
        "bed_reader", reason="bed-reader is not installed: pip install 'latentfit[genetics]'"
    )
    cells, _ = made()
    counts = np.where(cells < 0, -127, cells).astype(np.int8)
    bed_reader.to_bed(tmp_path / "panel.bed", counts, properties={"iid": [f"i{n}" for n in range(110)]})
    arguments = ["--populations", "2", "--threads", "1", "--quiet", "--out", str(tmp_path / "out")]
    assert main(["admixture", str(tmp_path / "panel.bed"), *arguments]) == 0
    assert pc.read_csv(tmp_path / "out" / "ancestry.csv")["sample"][2].as_py() == "i1"


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_sex_chromosomes_are_kept_when_asked_for(tmp_path, engine):
    bed_reader = pytest.importorskip(
        "bed_reader", reason="bed-reader is not installed: pip install 'latentfit[genetics]'"
    )
    cells, _ = made()
    counts = np.where(cells < 0, -127, cells).astype(np.int8)
    bed_reader.to_bed(tmp_path / "panel.bed", counts, properties={"chromosome": ["1"] * 180 + ["X"] * 20})
    for more, n_snps in (([], 180), (["--all-chromosomes"], 200)):
        out = tmp_path / f"out{n_snps}"
        arguments = ["--populations", "2", "--threads", "1", "--engine", engine, "--quiet", "--out", str(out)]
        assert main(["admixture", str(tmp_path / "panel.bed"), *arguments, *more]) == 0
        summary = json.loads((out / "summary.json").read_text())
        assert summary["n_snps"] == n_snps
        told = any("20 SNPs of sex chromosomes or mitochondria (chromosome X)" in note for note in summary["notes"])
        assert told == (not more)


def test_few_people_are_not_trusted_when_strict(genotypes, tmp_path, capsys):
    path, _ = genotypes
    few = tmp_path / "few.csv"
    few.write_text("".join(path.read_text().splitlines(keepends=True)[:9]))
    arguments = ["admixture", str(few), "--populations", "2", "--threads", "1", "--out", str(tmp_path / "o")]
    assert main([*arguments, "--strict"]) == 1
    assert "rests on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nowhere.csv"], 4, "the file nowhere.csv does not exist"),
        (["nowhere.bed"], 4, "the file nowhere.bed does not exist"),
        (["nowhere.bed", "--id", "x"], 3, "--id x names a column of a table"),
        (["FILE", "--id", "who"], 3, "there is no column 'who' for the people"),
        (["FILE", "--populations", "500"], 3, "n_populations must be an int from 1 to"),
        (["FILE", "--min-maf", "0.9"], 2, "min_maf must be a minor allele frequency in [0, 0.5), got 0.9"),
        (["FILE", "--init", "magic"], 2, "magic"),
        (["calls.vcf.gz"], 3, "plink2 --vcf calls.vcf.gz --make-bed"),
        (["calls.vcf", "--engine", "stream"], 3, "plink2 --vcf calls.vcf --make-bed"),
    ],
)
def test_sentences_and_exit_codes(genotypes, tmp_path, capsys, arguments, code, sentence):
    path, _ = genotypes
    real = [str(path) if word == "FILE" else word for word in arguments]
    assert main(["admixture", *real, "--out", str(tmp_path / "out")]) == code
    assert sentence in capsys.readouterr().err
