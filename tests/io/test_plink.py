"""PLINK sets: what bed-reader writes comes back; damage gets a sentence before anything is read."""

from __future__ import annotations

import gzip
import re
import sys
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from latentfit import Admixture, load
from latentfit.admixture.data.genotypes import read_bed
from latentfit.admixture.data.stored import store_bed
from latentfit.core.errors import DataError, DataWarning, FileFormatError
from latentfit.io.plink import unrepeated
from tests.conftest import data_folder

bed_reader = pytest.importorskip("bed_reader", reason="bed-reader is not installed: pip install 'latentfit[genetics]'")


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
        (lambda bytes_: bytes_[:-5], r"small.bed is truncated: \d+ bytes, and 30 SNPs of 13 people make 123"),
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
    with pytest.raises(FileNotFoundError, match=r"the file .*small\.fam does not exist"):
        read_bed(path)
    with pytest.raises(FileFormatError, match=r"must end in \.bed"):
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
    with pytest.raises(DataError, match=r"needs the package bed-reader; install it with pip install 'latentfit\[genet"):
        read_bed(panel[0])


def chromosomes_of(path, names):
    """The `.bim` of a set with other chromosomes."""
    bim = path.with_suffix(".bim")
    rest = [line.split("\t", 1)[1] for line in bim.read_text().splitlines()]
    bim.write_text("".join(f"{name}\t{line}\n" for name, line in zip(names, rest, strict=True)))


def test_sex_chromosomes_and_mitochondria_are_left_out_and_told(panel, tmp_path):
    path, _ = panel
    names = ["1", "0", "22", "chr7", "X", "23", "24", "25", "26", "chrX", "MT", "Y", "XY", "m"] + ["2"] * 16
    chromosomes_of(path, names)
    kept = [0, 1, 2, 3, *range(14, 30)]
    genotypes = read_bed(path)
    assert genotypes.snps.tolist() == [f"rs{j}" for j in kept]
    assert np.array_equal(genotypes.calls, read_bed(path, autosomes=False).calls[kept])
    assert genotypes.notes == (
        "10 SNPs of sex chromosomes or mitochondria (chromosome 23, 24, 25, 26, MT, X, XY, Y, chrX, m) were left out",
    )
    assert genotypes.notes[0] in Admixture(1).fit(genotypes).report_.notes
    for _ in range(2):  # written, then found
        stored = store_bed(path, str(tmp_path / "cache"))
        assert stored.notes == genotypes.notes
        assert np.array_equal(stored.loaded().calls, genotypes.calls)
    everything = store_bed(path, str(tmp_path / "cache"), autosomes=False)
    assert (everything.n_snps, everything.notes) == (30, ())
    chromosomes_of(path, ["X"] * 30)
    with pytest.raises(DataError, match=r"no SNP on an autosome, all 30 are on chromosome X; .*--all-chromosomes"):
        read_bed(path)


def test_a_species_with_more_chromosomes_keeps_those_that_are_not_its_sex_chromosomes(panel):
    path, _ = panel
    chromosomes_of(path, ["23", "24", "25", "26", "38", "X"] + ["1"] * 24)
    assert read_bed(path).n_snps == 29


@pytest.mark.parametrize("part", [".bim", ".fam"])
def test_fields_may_be_separated_by_spaces(panel, part):
    path, _ = panel
    before = read_bed(path)
    text = path.with_suffix(part).read_text()
    path.with_suffix(part).write_text(text.replace("\t", "  "))
    after = read_bed(path)
    assert after.snps.tolist() == before.snps.tolist()
    assert after.samples.tolist() == before.samples.tolist()
    assert after.alleles.tolist() == before.alleles.tolist()
    assert np.array_equal(after.calls, before.calls)


def test_repeated_names_are_told_apart():
    names = unrepeated(["a", ".", ".", "b", "."], ["1:1", "1:2", "1:3", "1:4", "1:3"])
    assert names.tolist() == ["a", "1:2", "1:3#1", "b", "1:3#2"]


def test_hapmap_is_read_as_its_notes_say(tmp_path):
    folder = data_folder()
    if folder is None:
        pytest.skip("the HapMap panel is not here: set LATENTFIT_DATA to the folder that holds genetics/")
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
    model.save(tmp_path / "model.latent")
    for fitted in (model, load(tmp_path / "model.latent")):
        assert np.array_equal(fitted.transform(two), fitted.transform(one))


def test_absent_snps_other_strands_and_other_alleles_do_not_refuse_a_set(tmp_path):
    rng = np.random.default_rng(1)
    counts = rng.binomial(2, rng.dirichlet([0.3, 0.3], 60) @ rng.uniform(0.1, 0.9, (2, 80))).astype(np.int8)
    people, snps = [f"p{i}" for i in range(60)], np.array([f"rs{j}" for j in range(80)])
    first = np.array(["A"] * 70 + ["A", "C"] * 5)  # the last ten fit their own complements: A/T and C/G
    second = np.array(["G"] * 70 + ["T", "G"] * 5)
    ours = {"iid": people, "sid": snps.tolist(), "allele_1": first.tolist(), "allele_2": second.tolist()}
    bed_reader.to_bed(tmp_path / "ours.bed", counts, properties=ours)
    model = Admixture(2).fit(read_bed(tmp_path / "ours.bed"))
    theirs, one, two = counts.copy(), first.copy(), second.copy()
    one[10:20], two[10:20] = "T", "C"  # the other strand
    one[20:30], two[20:30] = "C", "T"  # the other strand, and the other allele counted
    one[30:40], two[30:40] = second[30:40], first[30:40]  # the other allele counted
    one[75:80], two[75:80] = second[75:80], first[75:80]  # of an ambiguous SNP too, or is it the other strand?
    two[40:45] = "T"  # other variants
    turned = np.r_[20:40, 75:80]
    theirs[:, turned] = 2 - theirs[:, turned]
    there = np.r_[5:80]
    order = rng.permutation(there)
    other = {"iid": people, "sid": snps[order].tolist()}
    other |= {"allele_1": one[order].tolist(), "allele_2": two[order].tolist()}
    bed_reader.to_bed(tmp_path / "theirs.bed", theirs[:, order], properties=other)
    said = (
        "of the 80 SNPs of the fit 5 are not in the data, 5 have other alleles and 10 have an ambiguous strand "
        "(A/T, C/G), all taken as missing; 20 were read from the other strand and 20 count the other allele"
    )
    with pytest.warns(DataWarning, match=re.escape(said)):
        found = model.transform(read_bed(tmp_path / "theirs.bed"))
    gaps = counts.astype(float)
    gaps[:, np.r_[0:5, 40:45, 70:80]] = np.nan
    assert np.array_equal(found, model.transform(pd.DataFrame(gaps, columns=snps)))


@pytest.mark.parametrize("strand", ["same", "other"])
def test_a_set_of_the_other_strand_gives_no_other_ancestry(tmp_path, strand):
    rng = np.random.default_rng(3)
    n_snps, scale = 1_000, 9.0
    pooled = rng.uniform(0.1, 0.9, n_snps)
    frequencies = rng.beta(scale * pooled, scale * (1 - pooled), (2, n_snps))
    counts = rng.binomial(2, np.repeat(frequencies, 80, axis=0)).astype(np.int8)
    first, second = np.array(["A", "A", "A", "C"] * 250), np.array(["G", "C", "T", "G"] * 250)
    opposite = {"A": "T", "T": "A", "C": "G", "G": "C"}
    shown = {"same": lambda one: one.tolist(), "other": lambda one: [opposite[base] for base in one]}[strand]
    names = {"sid": [f"rs{j}" for j in range(n_snps)]}
    ours = names | {"allele_1": first.tolist(), "allele_2": second.tolist()}
    bed_reader.to_bed(tmp_path / "ours.bed", counts[np.r_[:40, 80:120]], properties=ours)
    theirs = names | {"allele_1": shown(first), "allele_2": shown(second)}
    bed_reader.to_bed(tmp_path / "theirs.bed", counts[np.r_[40:80, 120:160]], properties=theirs)
    model = Admixture(2).fit(read_bed(tmp_path / "ours.bed"))
    with pytest.warns(DataWarning, match="500 have an ambiguous strand") if strand == "other" else nullcontext():
        proportions = model.transform(read_bed(tmp_path / "theirs.bed"))
    assert abs(proportions[:40, 0].mean() - proportions[40:, 0].mean()) > 0.75
