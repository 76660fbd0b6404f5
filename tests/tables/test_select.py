"""The number of classes chosen from the data: right where it can be told, whatever the order or grouping of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from latentfit import LatentClass
from latentfit.core.table.input import read_table
from latentfit.tables.select import SEARCH, cell_folds


def made(n_classes: int, seed: int, n_columns: int = 6) -> pd.DataFrame:
    """Few columns of few categories: hundreds of rows, dozens of unique rows."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_classes, size=600)
    profiles = np.random.default_rng(100 + seed).dirichlet(np.full(3, 0.4), size=(n_columns, n_classes))
    codes = [(p[kind].cumsum(axis=1)[:, :-1] < rng.random(600)[:, None]).sum(axis=1) for p in profiles]
    return pd.DataFrame({f"q{n}": np.array(list("abc"), object)[column] for n, column in enumerate(codes)})


def test_classes_of_tables_with_few_unique_rows_are_found() -> None:
    truth = [n for n in (1, 2, 3) for _ in range(4)]
    by_bic, by_heldout = (
        [LatentClass(select=select).fit(made(n, seed)).n_components_ for n in (1, 2, 3) for seed in range(4)]
        for select in ("bic", "heldout")
    )
    assert sum(a == b for a, b in zip(by_bic, truth, strict=True)) >= 10, by_bic
    # hidden cells look for a good density: some classes too many cost it little, one too few costs it much
    assert all(n <= found <= n + 3 for n, found in zip(truth, by_heldout, strict=True)), by_heldout


def test_the_number_does_not_depend_on_order_or_grouping() -> None:
    frame = made(3, 7)
    rng = np.random.default_rng(0)
    plain = LatentClass().fit(frame)
    mixed = frame.iloc[rng.permutation(len(frame))][list(rng.permutation(frame.columns))]
    counts = frame.value_counts().reset_index()
    weighed = LatentClass(weight_type="frequency")
    weighed.fit(counts.drop(columns="count"), sample_weight=counts["count"])
    for other in (LatentClass().fit(mixed), weighed):
        assert other.selection_["n_components"] == plain.selection_["n_components"]
        assert np.allclose(other.selection_["value"], plain.selection_["value"], atol=1e-6)


def test_the_number_of_classes_does_not_depend_on_the_seed() -> None:
    """Ratings of slides with local optima: a draw of hidden cells by the seed gave 3, 6, 3, 5, 3, 2 classes."""
    for frame in (slides(), made(3, 5, n_columns=4)):
        found = {LatentClass(random_state=seed, n_jobs=1).fit(frame).n_components_ for seed in range(5)}
        assert len(found) == 1, found


def slides() -> pd.DataFrame:
    """118 rows of seven yes-no columns like those of seven pathologists: two kinds they agree on, one they do not."""
    rng = np.random.default_rng(0)
    kind = rng.choice(3, size=118, p=[0.45, 0.37, 0.18])
    yes = np.array([[0.06, 0.14, 0.0, 0.0, 0.06, 0.0, 0.0], [1.0, 0.98, 0.86, 0.59, 1.0, 0.48, 1.0],
                    [0.51, 0.98, 0.02, 0.06, 0.75, 0.0, 0.63]])  # fmt: skip
    return pd.DataFrame(np.where(rng.random((118, 7)) < yes[kind], "yes", "no"), columns=list("ABCDEFG"))


def test_a_chosen_number_is_not_one_that_the_verdict_rejects() -> None:
    """With 16 classes in 118 rows the report said that the data do not show them; ask for fewer."""
    model = LatentClass(n_jobs=1).fit(slides())
    assert model.n_components_ <= 4
    assert not any("ask for fewer" in reason and "gained by chance" in reason for reason in model.report_.reasons)


def test_the_smallest_number_within_one_standard_error_of_the_best_is_taken() -> None:
    curve = LatentClass(n_jobs=1).fit(made(3, 7)).report_.quantities["selection"]
    allowed = [at for at, shown in enumerate(curve["shown"]) if shown]
    best = max(curve["value"][at] for at in allowed)
    assert curve["n_components"][allowed[-1]] < 8
    within = [at for at in allowed if best - curve["value"][at] <= curve["standard_error"][at] * (1 + 1e-9)]
    assert LatentClass(n_jobs=1).fit(made(3, 7)).n_components_ == curve["n_components"][within[0]]


def test_every_cell_is_hidden_once_and_row_by_row() -> None:
    table = read_table(made(1, 0, n_columns=3))  # 27 unique rows at most
    rows, few, folds = cell_folds(table)
    assert few is table
    assert len(rows.weight) == 600
    assert len(folds) == SEARCH.folds
    for fold in folds:
        assert fold.visible.total_weight == fold.hidden.total_weight == 600
        assert not (fold.visible.present & fold.hidden.present).any()
        assert np.allclose(fold.visible.singles() + fold.hidden.singles(), table.singles())
        assert fold.hidden.present.sum(axis=1).max() <= 1  # cells of a row are dealt in turn
        heaviest = table.codes[int(table.row_weight.argmax())]
        assert (fold.visible.codes == heaviest).all(axis=1).any()  # most of its copies stay whole
    assert np.allclose(sum(fold.hidden.singles() for fold in folds), table.singles())
