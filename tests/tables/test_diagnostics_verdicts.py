"""Of 200 tables that do not determine their classes at least 99 % are not trusted; of 200 sound ones at most 1 %.

`python tests/tables/test_diagnostics_verdicts.py 200 [first seed]` prints both rates; CI looks at fewer tables.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import numpy as np
import pytest

from latentfit.core.table.table import Column, Table
from latentfit.engine.limits import one_blas_thread
from latentfit.tables.diagnostics.verdict import examine_table
from latentfit.tables.estimator.latent_class import LatentClass
from tests.tables.simulated_tables import BROKEN, Case, broken, draw, profiles, sound


def examine(case: Case):
    model = LatentClass(case.n_classes, max_iter=case.max_iter, random_state=0, n_jobs=1)
    with one_blas_thread():
        refined = model._fit_at(case.table, case.n_classes)[1]
    return examine_table(case.table, refined.params, converged=refined.converged)


def broken_verdicts(n_tables, begin=0):
    named = (broken(seed) for seed in range(begin, begin + n_tables))
    return Counter((name, examine(case).verdict) for name, case in named)


def sound_verdicts(n_tables, begin=0):
    found = (examine(sound(seed)) for seed in range(begin, begin + n_tables))
    return Counter((one.verdict, tuple(one.reasons)) for one in found)


def n_ok(verdicts, at):
    return sum(count for key, count in verdicts.items() if key[at] == "ok")


def test_broken_tables_are_not_trusted():
    verdicts = broken_verdicts(3 * len(BROKEN))
    assert n_ok(verdicts, 1) == 0, verdicts


def test_sound_tables_are_trusted():
    verdicts = sound_verdicts(30)
    assert n_ok(verdicts, 0) == 30, verdicts


@pytest.mark.parametrize(
    ("make", "verdict", "words"),
    [
        ("two_columns", "not identifiable", "columns depend on any other"),
        ("independent", "not identifiable", "columns depend on any other"),
        ("few_rows", None, "rows, fewer than the"),
        ("too_few_categories", None, "too few categories"),
        ("copied_columns", "caution", "beyond what the classes explain"),
        ("duplicates", None, "a spurious class gains"),
        ("never_together", "not identifiable", "that fewer than 50 rows show"),
        ("lonely_cells", "not identifiable", "rows show three columns"),
        ("cut_short", None, "EM stopped before it converged"),
    ],
)
def test_the_reason_names_what_is_wrong(make, verdict, words):
    build = next(function for function in BROKEN if function.__name__ == make)
    found = examine(build(np.random.default_rng(7)))
    assert verdict is None or found.verdict == verdict
    assert any(words in reason for reason in found.reasons), found.reasons
    assert all(reason.endswith(".") for reason in found.reasons)


def test_one_class_of_independent_columns_is_trusted():
    rng = np.random.default_rng(0)
    table = draw(rng, [1.0], profiles(rng, 1, [3] * 5, 0.0), 500)
    assert examine(Case(table, 1)).verdict == "ok"


def test_the_order_of_rows_does_not_matter():
    case = sound(3)
    codes = case.table.codes[case.table.unique_index]
    shuffled = np.random.default_rng(0).permutation(len(codes))
    mixture = LatentClass(case.n_classes, random_state=0, n_jobs=1)._fit_at(case.table, case.n_classes)[1].params
    left, right = (
        examine_table(Table(rows, case.table.columns), mixture, converged=True).quantities
        for rows in (codes, codes[shuffled])
    )
    assert left["dependence_p_values"] == right["dependence_p_values"]
    for name in ("least_gain", "residual_dependence", "split_half_agreement"):
        assert left[name] == pytest.approx(right[name], rel=1e-6), name


def test_wide_tables_are_judged_on_a_part_and_say_so():
    rng = np.random.default_rng(0)
    tables = profiles(rng, 2, [2] * 900)
    wide = draw(rng, [0.5, 0.5], tables, 600)
    found = examine(Case(wide, 2)).quantities
    assert found["pairs_columns"] == 500


@pytest.mark.parametrize("size", [900, 1200])
def test_columns_too_wide_for_pairs_are_named(size):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, size, (400, 4)).astype(np.uint16)
    columns = tuple(Column(n, np.arange(size)) for n in range(4))
    for weight in (None, np.full(400, 1.5)):
        report = examine(Case(Table(codes, columns, row_weight=weight), 2))
        assert any("too many categories" in reason for reason in report.reasons)


if __name__ == "__main__":
    number, begin = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for name, verdicts, at in (("broken", broken_verdicts, 1), ("sound", sound_verdicts, 0)):
        clock = time.perf_counter()
        counted = verdicts(number, begin)
        seconds = time.perf_counter() - clock
        print(f"{name}: {n_ok(counted, at)} of {number} ok, {seconds:.0f} s")
        for key, count in sorted(counted.items()):
            print("   ", count, *key)


def routed(seed: int, *, mild: bool = False) -> tuple[Table, int]:
    """Two classes; the second question is asked only after a "yes" to the first, or (mild) less often after a "no"."""
    rng = np.random.default_rng(seed)
    profiles_ = [np.array([[0.75, 0.25], [0.2, 0.8]]) for _ in range(8)]
    hidden = rng.choice(2, 3000, p=[0.55, 0.45])
    codes = np.stack([(rng.random(3000) < p[hidden, 1]) for p in profiles_], axis=1).astype(np.uint8)
    unasked = (codes[:, 0] == 0) & (rng.random(3000) < (0.6 if mild else 1.0))
    codes[unasked, 1] = 255
    return Table(codes, tuple(Column(f"q{n}", np.array(["no", "yes"])) for n in range(8))), 2


@pytest.mark.parametrize("mild", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_question_asked_only_after_a_yes_is_no_reason_for_caution(seed, mild):
    found = examine(Case(*routed(seed, mild=mild)))
    assert found.quantities["residual_dependence"] < 0.1
    assert found.verdict == "ok", found.reasons


def test_two_routed_questions_that_duplicate_each_other_are_still_noticed():
    table, n_classes = routed(0)
    codes = table.codes.copy()
    asked = codes[:, 1] < 2
    codes[asked, 2] = np.where(np.random.default_rng(1).random(asked.sum()) < 0.8, codes[asked, 1], codes[asked, 2])
    found = examine(Case(Table(codes, table.columns), n_classes))
    assert any("'q1' and 'q2' depend on each other" in reason for reason in found.reasons), found.reasons


def test_three_classes_of_four_binary_columns_are_not_identifiable():
    """14 free parameters and 15 free cells, but the Jacobian has rank 13 (Goodman 1974)."""
    rng = np.random.default_rng(0)
    table = draw(rng, [0.4, 0.35, 0.25], profiles(rng, 3, [2] * 4), 5000)
    found = examine(Case(table, 3))
    assert found.quantities["generic_rank"] == 13
    assert found.verdict == "not identifiable"
    assert any("rank 13" in reason for reason in found.reasons), found.reasons
