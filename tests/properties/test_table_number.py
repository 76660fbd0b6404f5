"""The number of classes chosen from the data: right where it can be told, whatever the order or grouping of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tacit import LatentClass
from tacit.data.table_input import read_table
from tacit.refine.choose_classes import hide_cells


def made(n_classes: int, seed: int, n_columns: int = 6) -> pd.DataFrame:
    """Few columns of few categories: hundreds of rows, dozens of patterns."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_classes, size=600)
    profiles = np.random.default_rng(100 + seed).dirichlet(np.full(3, 0.4), size=(n_columns, n_classes))
    codes = [(p[kind].cumsum(axis=1)[:, :-1] < rng.random(600)[:, None]).sum(axis=1) for p in profiles]
    return pd.DataFrame({f"q{n}": np.array(list("abc"), object)[column] for n, column in enumerate(codes)})


def test_classes_of_tables_with_few_patterns_are_found() -> None:
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


def test_cells_are_hidden_row_by_row() -> None:
    table = read_table(made(1, 0, n_columns=3))  # 27 patterns at most
    shown, hidden = hide_cells(table, 0.1, 0)
    assert shown.total_weight == hidden.total_weight == 600
    share = hidden.n_cells / (hidden.n_cells + shown.n_cells)
    assert 0.07 < share < 0.13
    assert not (shown.present & hidden.present).any()
    assert np.allclose(shown.singles() + hidden.singles(), table.singles())
    heaviest = table.codes[int(table.row_weight.argmax())]
    assert (shown.codes == heaviest).all(axis=1).any()  # most of its copies stay whole
