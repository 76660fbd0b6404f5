"""`./dev reproduce switches`: every key runs briefly; rivals do what their papers say; absent programs are
named."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow.csv as pc
import pytest

from latentfit.core.assign import mean_distance
from latentfit.simulate import admixture, binary_factors
from reproduction import draw, keys_of
from reproduction.__main__ import main
from reproduction.baselines import ancestry_programs
from reproduction.baselines.alstructure import alstructure, latent_subspace
from reproduction.baselines.shl import factor_shl, nearest_binary
from reproduction.switches_methods import METHODS, OURS, OURS_EM, OURS_WLS, RANDOM_EM, judge, squared_error
from reproduction.table import Run
from tests.conftest import data_folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("key", keys_of("switches"))
def test_every_key_runs_briefly(key, tmp_path, capsys):
    assert main([key, "--quick", "--repeats", "1", "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(key)
    rows = pc.read_csv(tmp_path / "results.csv").to_pylist()
    assert all(row["note"] for row in rows if row["ours"] is None)
    if key != "switches:figure6":  # which needs the blood mixtures
        assert any(row["ours"] is not None for row in rows)
        assert pc.read_csv(tmp_path / f"{key.split(':')[1]}.csv").num_rows > 0
        assert (tmp_path / f"{key.split(':')[1]}.png").stat().st_size > 0


def test_all_methods_on_one_draw():
    data = binary_factors(4_000, 20, 3, 0.2, random_state=3)
    judged = judge(data, 0, shl_runs=5)
    assert tuple(judged) == METHODS
    oracle = judged["oracle"].error
    assert all(one.error >= 0.99 * oracle for one in judged.values())
    assert judged[OURS_EM].error < 1.1 * oracle
    assert judged[OURS_EM].optimum is True
    assert judged[RANDOM_EM].optimum in (True, False)
    assert judged["SHL"].optimum is None
    assert judged[OURS_WLS].seconds >= judged[OURS].seconds
    exact = judge(binary_factors(300, 12, 3, 0.0, random_state=1), 0, (OURS_EM,))
    assert list(exact) == [OURS_EM]
    assert exact[OURS_EM].optimum is True


def test_the_error_does_not_see_the_order_of_switches():
    W = np.random.default_rng(0).normal(size=(4, 9))
    assert squared_error(W, W[[2, 0, 3, 1]]) == 0
    assert squared_error(W, W[[2, 0, 3, 1]] + 0.1) == pytest.approx(0.01)


def test_the_settings_of_the_figures():
    from reproduction import switches_simulated as figures

    assert figures.NOISES == (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert (figures.SWITCHES, figures.FEATURES, figures.REPEATS) == (6, 30, 50)
    assert (figures.MANY, figures.NOISE) == (100_000, 0.4)
    outcome = figures.figure5(Run(quick=True))
    assert {row.method for row in outcome.rows} == {"spectral, paper", "ours + EM", "SHL"}
    assert all(row.ours > 0 for row in outcome.rows)


def test_noises_are_drawn_at_the_number_of_rows_that_has_them(monkeypatch):
    """A quick run has its noises at 1,000 rows, and more rows at the common noise."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")
    kept = []
    monkeypatch.setattr(draw, "_save", lambda figure, path: kept.append(figure))
    columns = {"n": [400, 1600, 1000, 1000], "sigma": [0.4, 0.4, 0.1, 0.4], "method": ["a"] * 4, "median": [4, 1, 2, 3]}
    draw.draw_switches(columns, None)
    rows, noises = (panel.lines[0].get_xdata().tolist() for panel in kept[0].axes)
    assert rows == [400, 1000, 1600]
    assert noises == [0.1, 0.4]
    assert kept[0].axes[1].get_title() == "1,000 rows"


# ------------------------------------------------------------------- rivals


@pytest.mark.parametrize("seed", range(5))
def test_shl_is_exact_without_noise(seed):
    data = binary_factors(400, 12, 4, 0.0, random_state=seed)
    found = factor_shl(data.X, 4, np.random.default_rng(seed))
    assert squared_error(data.W, found.W) < 1e-20
    assert found.residual == pytest.approx(0, abs=1e-8)


def test_shl_by_hand():
    """Patterns of the fixed rows tried one by one, the nearest to binary that are independent kept."""
    data = binary_factors(200, 10, 3, 0.15, random_state=2)
    U = np.linalg.svd(data.X, full_matrices=False)[0][:, :3]
    rows = np.array([3, 50, 120])
    if np.linalg.cond(U[rows]) > 1e6:
        pytest.skip("these rows are dependent")
    tried = []
    for code in range(1, 8):
        b = np.array([code >> i & 1 for i in range(3)], float)
        t = U @ np.linalg.solve(U[rows], b)
        tried.append((((t - (t > 0.5)) ** 2).sum(), b, t > 0.5))
    kept = []
    for _, b, h in sorted(tried, key=lambda one: one[0]):
        if np.linalg.matrix_rank(np.array([*(c for c, _ in kept), b])) > len(kept):
            kept.append((b, h))
    twin = np.column_stack([h for _, h in kept])
    assert np.array_equal(nearest_binary(U, rows), twin.astype(float))


def test_alstructure_finds_the_subspace_and_the_proportions():
    data = admixture(60, 3, 8_000, alpha=0.3, fst=0.3, random_state=1)
    basis = latent_subspace(data.genotypes.astype(float), 3)
    inside = basis @ (basis.T @ data.proportions)
    assert np.linalg.norm(inside - data.proportions) < 0.05 * np.linalg.norm(data.proportions)
    proportions, frequencies, passes = alstructure(data.genotypes, 3, np.random.default_rng(0))
    assert mean_distance(data.proportions, proportions) < 0.04
    assert ((frequencies >= 0) & (frequencies <= 1)).all()
    assert 1 < passes < 1_000


# ----------------------------------------------------------------- programs


def test_files_of_plink_hold_the_genotypes(tmp_path):
    genotypes = np.array([[0, 1, 2], [2, -1, 0], [1, 1, 1], [0, 0, 2], [2, 2, -1]], np.int8)
    ancestry_programs.write_plink(tmp_path / "data", genotypes)
    raw = (tmp_path / "data.bed").read_bytes()
    assert raw[:3] == b"\x6c\x1b\x01"
    packed = np.frombuffer(raw[3:], np.uint8).reshape(3, 2)
    bits = np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=2).reshape(3, 8)[:, :5]
    meaning = np.array([2, -1, 1, 0], np.int8)  # 00 first allele twice, 01 missing, 10 once, 11 never
    assert np.array_equal(meaning[bits].T, genotypes)
    assert len((tmp_path / "data.bim").read_text().splitlines()) == 3
    assert len((tmp_path / "data.fam").read_text().splitlines()) == 5


def program(folder, name, lines):
    path = folder / name
    path.write_text(f"#!{sys.executable}\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)


def test_a_program_is_run_skipped_or_said_to_have_failed(tmp_path, monkeypatch):
    genotypes = np.array([[0, 1], [2, 1]], np.int8)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ancestry_programs.ProgramFailedError, match="fastmixture is not on the path"):
        ancestry_programs.fastmixture(genotypes, 2, 0)
    program(tmp_path, "fastmixture", ["open('out.K2.Q', 'w').write('1 3\\n0.5 0.5\\n')"])
    proportions, seconds = ancestry_programs.fastmixture(genotypes, 2, 0)
    assert proportions.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert seconds >= 0
    program(tmp_path, "admixture", ["raise SystemExit('too few SNPs')"])
    with pytest.raises(ancestry_programs.ProgramFailedError, match=r"admixture gave no proportions \(too few SNPs\)"):
        ancestry_programs.admixture(genotypes, 2, 0)


def test_figure_six_follows_the_procedure_of_section_five_two():
    """The paper's figure is .00056; the d best Kolmogorov–Smirnov scores gave .00108."""
    from reproduction import switches_fractions as blood

    folder = data_folder()
    if folder is None:
        pytest.skip("the blood mixtures are not here: set LATENTFIT_DATA to the folder that holds genetics/")
    outcome = blood.figure6(Run(data=folder, quick=True, repeats=1))
    found = {row.method: row.ours for row in outcome.rows if row.measure == blood.BY_MN}
    assert 0.0005 <= found[blood.SPECTRAL] <= 0.0006
    assert found[blood.SCORED] == pytest.approx(0.00108, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_subsets_of_figure_four_are_judged_on_all_snps(seed):
    """Sorted by position or shuffled, the same SNPs give the same proportions (two of five did not before)."""
    from reproduction.switches_admixture import _tensor

    genotypes = admixture(50, 3, 6_000, alpha=0.3, random_state=seed).genotypes
    alleles = genotypes.sum(axis=0)
    genotypes = genotypes[:, (alleles > 0) & (alleles < 100)]
    shuffled = genotypes[:, np.random.default_rng(seed).permutation(genotypes.shape[1])]
    assert mean_distance(_tensor(genotypes, 0)[0], _tensor(np.ascontiguousarray(shuffled), 0)[0]) < 1e-4
