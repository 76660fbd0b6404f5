"""Imputation side by side: a tenth of the cells hidden, Latentfit's default against the mode, kNN and forests.

    pip install ".[bench]"
    python benchmarks/impute.py                  # six tables
    python benchmarks/impute.py --tables car zoo --systems latentfit mode

Prints the share of hidden cells filled rightly, seconds, and ratios to the forests; then how often Latentfit's stated
probability was right, by decile. scikit-learn's imputers want numbers: KNNImputer and IterativeImputer see ordinal
codes, and KNNImputer's means are rounded to the nearest code; `knn hamming` takes the majority of the 15 nearest rows
by share of differing cells. Tables are cut to their first rows after shuffling where a peer would need minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from harness import data_folder

TABLES = ("car", "house_votes_84", "mushroom", "nursery", "polca_election", "zoo")
SYSTEMS = ("latentfit", "mode", "knn codes", "knn hamming", "forests")
MOST_ROWS = 2_500


def load(name: str) -> pd.DataFrame:
    frame = pd.read_csv(data_folder("tables") / f"{name}.csv", dtype=str).replace("?", np.nan)
    for column in frame:  # measurements are cut into tenths for everyone: what is compared is categories
        if frame[column].nunique() > 50:
            tenths = pd.qcut(pd.to_numeric(frame[column]), 10, duplicates="drop").astype(str)
            frame[column] = tenths.replace("nan", np.nan)
    return frame.sample(frac=1, random_state=0).head(MOST_ROWS).reset_index(drop=True)


def hide(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    drawn = np.random.default_rng(seed).random(frame.shape) < 0.1
    hidden = drawn & frame.notna().to_numpy()
    return frame.mask(hidden), hidden


def coded(frame: pd.DataFrame) -> tuple[np.ndarray, list[np.ndarray]]:
    """Ordinal codes, NaN where missing."""
    columns = [pd.factorize(frame[name], sort=True) for name in frame]
    return np.stack([np.where(c < 0, np.nan, c) for c, _ in columns], axis=1), [np.asarray(u) for _, u in columns]


def decoded(codes: np.ndarray, words: list[np.ndarray], frame: pd.DataFrame) -> pd.DataFrame:
    near = [w[np.clip(np.rint(codes[:, n]), 0, len(w) - 1).astype(int)] for n, w in enumerate(words)]
    return pd.DataFrame(dict(zip(frame.columns, near, strict=True)))


def by_latentfit(frame: pd.DataFrame) -> pd.DataFrame:
    from latentfit import LatentClass

    return LatentClass().fit(frame).impute(frame)


def by_mode(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.fillna(frame.mode().iloc[0])


def by_knn_codes(frame: pd.DataFrame) -> pd.DataFrame:
    from sklearn.impute import KNNImputer

    codes, words = coded(frame)
    return decoded(KNNImputer(n_neighbors=15).fit_transform(codes), words, frame)


def by_knn_hamming(frame: pd.DataFrame) -> pd.DataFrame:
    codes, words = coded(frame)
    seen = ~np.isnan(codes)
    differ, both = np.zeros((len(codes), len(codes))), np.zeros((len(codes), len(codes)))
    for n in range(codes.shape[1]):
        pair = seen[:, n][:, None] & seen[:, n]
        both += pair
        differ += pair & (codes[:, n][:, None] != codes[:, n])
    distance = differ / np.maximum(both, 1) + (both == 0)
    np.fill_diagonal(distance, np.inf)
    out = codes.copy()
    for n, column_words in enumerate(words):
        gaps, donors = np.flatnonzero(~seen[:, n]), np.flatnonzero(seen[:, n])
        k = min(15, len(donors))
        near = donors[np.argpartition(distance[np.ix_(gaps, donors)], k - 1, axis=1)[:, :k]]
        votes = (codes[near, n][:, :, None] == np.arange(len(column_words))).sum(axis=1)
        out[gaps, n] = votes.argmax(axis=1)
    return decoded(out, words, frame)


def by_forests(frame: pd.DataFrame) -> pd.DataFrame:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    codes, words = coded(frame)
    forest = RandomForestClassifier(50, random_state=0, n_jobs=1)
    model = IterativeImputer(forest, max_iter=3, initial_strategy="most_frequent", random_state=0)
    return decoded(model.fit_transform(codes), words, frame)


FILL = dict(zip(SYSTEMS, (by_latentfit, by_mode, by_knn_codes, by_knn_hamming, by_forests), strict=True))


def stated(frame: pd.DataFrame, truth: pd.DataFrame, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Latentfit's probability of what it fills in, and whether that was right."""
    from latentfit import LatentClass

    model = LatentClass().fit(frame)
    cells, filled = model.imputed_cells(frame), model.impute(frame)
    column = frame.columns.get_indexer(cells["column"])
    asked = hidden[cells["row"], column]  # gaps of the table itself have no known answer
    right = filled.to_numpy()[cells["row"], column] == truth.to_numpy()[cells["row"], column]
    return cells["probability"].to_numpy()[asked], right[asked]


def number_tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Tables of measurements that installed packages bring."""
    import statsmodels.api as sm
    from sklearn import datasets

    for name in ("iris", "wine", "breast_cancer", "diabetes"):
        yield name, getattr(datasets, f"load_{name}")(as_frame=True).data
    names = "anes96 fair heart modechoice randhie star98 statecrime longley fertility spector ccard cancer"
    for name in names.split():
        frame = getattr(sm.datasets, name).load_pandas().data.select_dtypes("number")
        yield name, frame.sample(frac=1, random_state=0).head(MOST_ROWS).reset_index(drop=True)


def numbers(seeds: int) -> None:
    """Root mean squared error of hidden numbers over that of the column's mean; below 1 is better than the mean."""
    from latentfit import LatentClass

    print(f"{'table':18} {'rows':>6} {'columns':>8} {'RMSE ratio':>14}")
    for name, truth in number_tables():
        truth = truth.loc[:, truth.nunique() > 12].astype(float)  # more than the ten intervals, when some are hidden
        if truth.shape[1] < 2:
            continue
        ratios = []
        for seed in range(seeds):
            frame, hidden = hide(truth, seed)
            filled = LatentClass(bins=10).fit(frame).impute(frame)
            scale = frame.std()
            ours, mean = (((one - truth) / scale).to_numpy()[hidden] for one in (filled, frame.fillna(frame.mean())))
            ratios.append(np.sqrt(np.mean(ours**2) / np.mean(mean**2)))
        print(f"{name:18} {len(truth):6d} {truth.shape[1]:8d} {np.mean(ratios):14.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--numbers", type=int, metavar="SEEDS", help="numbers cut into intervals, against the mean")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.numbers:
        numbers(options.numbers)
        return
    print(f"{'table':18} {'system':12} {'right %':>8} {'seconds':>9} {'of forests':>10}")
    totals: dict[str, list[tuple[float, float]]] = {}
    chances, rights = [], []
    for name in options.tables:
        truth = load(name)
        frame, hidden = hide(truth, 0)
        forest_seconds = None
        for system in sorted(options.systems, key=lambda s: s != "forests"):
            FILL[system](frame.head(100))  # imports and first calls are not what is measured
            begin = time.perf_counter()
            filled = FILL[system](frame)
            seconds = time.perf_counter() - begin
            forest_seconds = seconds if system == "forests" else forest_seconds
            same = filled.astype(str).to_numpy()[hidden] == truth.astype(str).to_numpy()[hidden]
            totals.setdefault(system, []).append((100 * same.mean(), seconds))
            ratio = f"{seconds / forest_seconds:.3f}" if forest_seconds else "-"
            print(f"{name:18} {system:12} {100 * same.mean():8.1f} {seconds:9.2f} {ratio:>10}", flush=True)
        chance, right = stated(frame, truth, hidden)
        chances.append(chance)
        rights.append(right)
    for system, rows in totals.items():
        share, seconds = np.mean(rows, axis=0)
        print(f"mean of {len(rows)} tables   {system:12} {share:8.1f} {seconds:9.2f}")
    chance, right = np.concatenate(chances), np.concatenate(rights)
    print("\nLatentfit's stated probability, by decile: stated, right, cells")
    for part in np.array_split(np.argsort(chance, kind="stable"), 10):
        print(f"  {chance[part].mean():.3f}  {right[part].mean():.3f}  {len(part)}")


if __name__ == "__main__":
    main()
