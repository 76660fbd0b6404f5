"""`latentfit factors` and `latentfit admixture` on streamed files: the results of memory, and a killed fit that goes
on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from latentfit.cli.main import main
from latentfit.core.model_file import read_model
from latentfit.io.write import write_columns
from latentfit.simulate import binary_factors

KILLED = """
import os, signal
import latentfit.core.checkpoint as kept
kept.EVERY, write = 0.0, kept.CheckpointFile.write
def writing(self, arrays, metadata):
    write(self, arrays, metadata)
    if metadata["n_iter"] > 2:
        os.kill(os.getpid(), signal.SIGKILL)
kept.CheckpointFile.write, kept.SPARING = writing, 0.0
from latentfit.cli.main import run
run()
"""


@pytest.fixture
def spectra(tmp_path):
    """Three files of rows with ids, a boundary nowhere in particular."""
    X = binary_factors(1_500, m=6, d=2, sigma=0.6, random_state=1).X
    columns = {"sample": [f"s{n}" for n in range(1_500)], **{f"g{n}": X[:, n] for n in range(6)}}
    rows, folder = pa.table(columns), tmp_path / "spectra"
    folder.mkdir()
    for at, (begin, end) in enumerate([(0, 700), (700, 701), (701, 1_500)]):
        write_columns(rows.slice(begin, end - begin), folder / f"{at}.csv", format="csv")
    write_columns(rows, tmp_path / "whole.csv", format="csv")
    return tmp_path


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    counts = rng.binomial(2, rng.dirichlet([0.3, 0.3], 104) @ rng.uniform(0.05, 0.95, (2, 250)))
    counts[:, 7] = 0
    columns = {"sample": [f"p{n}" for n in range(104)], **{f"rs{n}": counts[:, n] for n in range(250)}}
    write_columns(pa.table(columns), tmp_path / "people.csv", format="csv")
    return tmp_path


def same_files(one, other, names):
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    mine, theirs = (read_model(folder / "model.latent").arrays for folder in (one, other))
    assert {name: array.tobytes() for name, array in mine.items()} == {
        name: array.tobytes() for name, array in theirs.items()
    }


def test_streamed_switches_are_written_as_in_memory(spectra):
    options = ["--id", "sample", "--components", "2", "--quiet"]
    here, there = spectra / "here", spectra / "there"
    assert main(["factors", str(spectra / "whole.csv"), *options, "--out", str(here)]) == 0
    files = [str(spectra / "spectra")]  # a folder is streamed by itself
    assert main(["factors", *files, *options, "--cache", str(spectra / "cache"), "--out", str(there)]) == 0
    same_files(here, there, ["switches.csv", "weights.csv"])
    assert main(["factors", *files, *options, "--resume", "--out", str(there)]) == 2


def test_streamed_ancestry_is_written_as_in_memory(people):
    here, there = people / "here", people / "there"
    command = ["admixture", str(people / "people.csv"), "--populations", "2", "--quiet"]
    assert main([*command, "--out", str(here)]) == 0
    assert main([*command, "--engine", "stream", "--out", str(there)]) == 0
    same_files(here, there, ["ancestry.csv", "frequencies.csv", "out.2.P", "out.2.Q"])
    assert main([*command, "--resume", "--out", str(there)]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["factors", "admixture"])
def test_killed_fits_go_on_to_the_same_bytes(command, request):
    if command == "factors":
        folder = request.getfixturevalue("spectra")
        words = ["factors", str(folder / "spectra"), "--id", "sample", "--components", "2"]
        names = ["switches.csv", "weights.csv"]
    else:
        folder = request.getfixturevalue("people")
        words = ["admixture", str(folder / "people.csv"), "--populations", "2"]
        names = ["ancestry.csv", "frequencies.csv", "out.2.P"]
    words += ["--engine", "stream", "--cache", str(folder / "cache"), "--quiet"]
    whole, out, kept = folder / "one", folder / "two", folder / "kept.latent"
    assert main([*words, "--out", str(whole)]) == 0
    going = [*words, "--checkpoint", str(kept), "--out", str(out)]
    done = subprocess.run([sys.executable, "-c", KILLED, *going], check=False, timeout=300)
    assert done.returncode == -9
    assert read_model(kept).name == "Checkpoint"
    assert not (out / "model.latent").exists()
    assert main([*going, "--resume"]) == 0
    same_files(whole, out, names)
    assert not kept.exists()


KINDS = [("parquet", "parquet"), ("jsonl", "jsonl"), ("parquet", "csv")]


@pytest.mark.parametrize("endings", KINDS, ids="-".join)
def test_files_may_disagree_about_the_type_of_a_column(tmp_path, endings):
    """Whole numbers in one file, decimals in the other; ids that are numbers here and words there."""
    X = binary_factors(300, m=4, d=2, sigma=0.3, random_state=0).X
    X[:150, 0] = X[:150, 0].round()
    ids = [str(n) if n < 150 else f"p{n}" for n in range(300)]
    rows = pa.table({"id": ids, **{f"g{n}": X[:, n] for n in range(4)}})
    first, second = rows.slice(0, 150), rows.slice(150)
    for name in ("id", "g0"):
        first = first.set_column(first.column_names.index(name), name, first[name].cast(pa.int64()))
    paths = [str(tmp_path / f"{at}.{ending}") for at, ending in enumerate(endings)]
    for part, path, ending in zip((first, second), paths, endings, strict=True):
        write_columns(part, path, format=ending)
    write_columns(rows, tmp_path / "one.parquet", format="parquet")
    fit = ["--id", "id", "--components", "2", "--no-report", "--engine", "stream", "--quiet"]
    assert main(["factors", *paths, *fit, "--out", str(tmp_path / "two")]) == 0
    assert main(["factors", str(tmp_path / "one.parquet"), *fit, "--out", str(tmp_path / "one")]) == 0
    same_files(tmp_path / "two", tmp_path / "one", ["switches.csv"])
