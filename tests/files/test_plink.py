"""PLINK sets: what bed-reader writes comes back; damage gets a sentence before anything is read."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest
from tests.conftest import data_folder

from tacit import Admixture, load
from tacit.data.genotypes import read_bed
from tacit.errors import DataError, FileFormatError
from tacit.io.plink import unrepeated

bed_reader = pytest.importorskip("bed_reader", reason="bed-reader is not installed: pip install 'tacit[genetics]'")


@pytest.fixture
def panel(tmp_path):
    """A small set on disk and its counts (person, SNP), -127 where missing."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (13, 30)).astype(np.int8)
    counts[rng.random(counts.shape) < 0.1] = -127
    people = [f"p{i}" for i in range(13)]
    properties = {"iid": people, "sid": [f"rs{j}" for j in range(30)]}
    bed_reader.to_bed(tmp_path / "small.bed", counts, properties=properties)
    return tmp_path / "small.bed", counts


def test_a_set_comes_back(panel):
    path, counts = panel
    genotypes = read_bed(path)
    assert genotypes.calls.dtype == np.uint8
    assert np.array_equal(genotypes.calls.T, np.where(counts < 0, 3, counts))
    assert genotypes.samples.tolist() == [f"p{i}" for i in range(13)]
    assert genotypes.snps[29] == "rs29"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda bytes_: bytes_[:-5], r"small.bed is cut short: \d+ bytes, and 30 SNPs of 13 people make 123"),
        (lambda bytes_: bytes_ + b"\0", "small.bed is too long"),
        (lambda bytes_: b"\0\0" + bytes_[2:], r"does not begin as a PLINK .bed does \(6c 1b\)"),
        (lambda bytes_: b"", "does not begin as a PLINK"),
        (lambda bytes_: bytes_[:2] + b"\0" + bytes_[3:], "stored person by person"),
        (lambda bytes_: bytes_[:2] + b"\7" + bytes_[3:], "third byte of 07"),
    ],
)
def test_a_damaged_bed_gets_one_sentence(panel, damage, sentence):
    path, _ = panel
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=sentence):
        read_bed(path)


def test_missing_parts_are_named(panel):
    path, _ = panel
    path.with_suffix(".fam").rename(path.with_suffix(".gone"))
    with pytest.raises(FileNotFoundError, match=r"there is no file .*small\.fam"):
        read_bed(path)
    with pytest.raises(FileFormatError, match=r"does not end in \.bed"):
        read_bed(path.with_suffix(".bim"))
    path.with_suffix(".fam").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"small\.fam is empty"):
        read_bed(path)


def test_broken_lines_are_a_format_error(panel):
    path, _ = panel
    path.with_suffix(".bim").write_text("\n".join("1 rs" for _ in range(30)) + "\n")
    with pytest.raises(FileFormatError, match=r"cannot be read|broken lines"):
        read_bed(path)


def test_without_the_extra_the_sentence_says_what_to_install(panel, monkeypatch):
    monkeypatch.setitem(sys.modules, "bed_reader", None)
    with pytest.raises(DataError, match=r"needs the package bed-reader; install it with pip install 'tacit\[genet"):
        read_bed(panel[0])


def test_repeated_names_are_told_apart():
    names = unrepeated(["a", ".", ".", "b", "."], ["1:1", "1:2", "1:3", "1:4", "1:3"])
    assert names.tolist() == ["a", "1:2", "1:3#1", "b", "1:3#2"]


def test_hapmap_is_read_as_its_notes_say(tmp_path):
    folder = data_folder()
    if folder is None:
        pytest.skip("the HapMap panel is not here: set TACIT_DATA to the folder that holds genetics/")
    for part in ("bed", "bim", "fam"):
        packed = (folder / "genetics" / f"hapmap3_324.{part}.gz").read_bytes()
        (tmp_path / f"hapmap.{part}").write_bytes(gzip.decompress(packed))
    genotypes = read_bed(tmp_path / "hapmap.bed")
    assert genotypes.calls.shape == (13_928, 324)
    assert not genotypes.counts[:, 3].any()
    assert int((~genotypes.informative()).sum()) == 108
    theirs = bed_reader.open_bed(tmp_path / "hapmap.bed").read(dtype="int8")
    assert np.array_equal(genotypes.calls.T, theirs)


def test_a_set_that_counts_the_other_allele_is_turned_round(tmp_path):
    rng = np.random.default_rng(1)
    counts = rng.binomial(2, rng.dirichlet([0.3, 0.3], 60) @ rng.uniform(0.1, 0.9, (2, 80))).astype(np.int8)
    counts[rng.random(counts.shape) < 0.05] = -127
    letters = {"allele_1": ["A"] * 80, "allele_2": ["G"] * 80}
    turned = np.arange(80) % 3 == 0
    other = np.where(turned & (counts >= 0), 2 - counts, counts).astype(np.int8)
    swapped = {"allele_1": np.where(turned, "G", "A").tolist(), "allele_2": np.where(turned, "A", "G").tolist()}
    names = {"iid": [f"p{i}" for i in range(60)], "sid": [f"rs{j}" for j in range(80)]}
    for name, calls, alleles in (("one", counts, letters), ("two", other, swapped)):
        bed_reader.to_bed(tmp_path / f"{name}.bed", calls, properties=names | alleles)
    one, two = read_bed(tmp_path / "one.bed"), read_bed(tmp_path / "two.bed")
    model = Admixture(2).fit(one)
    model.save(tmp_path / "model.tacit")
    for fitted in (model, load(tmp_path / "model.tacit")):
        assert np.array_equal(fitted.transform(two), fitted.transform(one))
    foreign = {"allele_1": ["A"] * 80, "allele_2": ["G"] * 7 + ["T"] + ["G"] * 72}
    bed_reader.to_bed(tmp_path / "three.bed", counts, properties=names | foreign)
    with pytest.raises(DataError, match="SNP 'rs7' has the alleles A/T, and A/G in the fit"):
        model.transform(read_bed(tmp_path / "three.bed"))
