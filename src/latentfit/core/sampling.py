"""Samples that do not depend on the order of rows: a seeded hash of the content of a row.

Equal rows are numbered by how many of them came before, so permuting rows permutes the sample.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.table.table import Table

Words = NDArray[np.uint64]


def scramble(values: Words, seed: int) -> Words:
    """Seeded hash of 64-bit words; equal ones stay equal."""
    return mixed(values + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64))


def mixed(x: Words) -> Words:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def uniform(words: Words) -> Floats:
    """A number in [0, 1) from each word: its 53 highest bits."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def lower_half(hashes: Words) -> NDArray[np.bool_]:
    """Which hashes are the smaller half."""
    return np.asarray(hashes < np.partition(hashes, len(hashes) // 2)[len(hashes) // 2])


def numbered_apart(content: Words, seed: int) -> Words:
    """Hashes of rows from hashes of their content: equal rows are numbered by how many came before."""
    order = np.argsort(content, kind="stable")
    ordered = content[order]
    start = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
    position = np.arange(len(ordered))
    copies = np.empty(len(ordered), np.uint64)
    copies[order] = position - np.maximum.accumulate(np.where(start, position, 0))
    return scramble(content ^ scramble(copies, seed + 1), seed)


def hash_limit(hashes: list[Words], most: int) -> np.uint64:
    """The smallest hash outside of a sample of `most` rows."""
    return np.uint64(np.partition(np.concatenate(hashes), most)[most])


def row_contents(table: Table, seed: int) -> Words:
    """Hash of the content of each row; the order of columns and the codes do not matter."""
    words = [f"{column.name}={category}" for column in table.columns for category in column.categories.tolist()]
    keys = scramble(np.array([zlib.crc32(word.encode()) for word in words], np.uint64), seed)
    content = np.zeros(table.n_rows, np.uint64)
    for n in range(table.n_columns):  # one column at a time: no array of rows × columns
        of_code = np.zeros(np.iinfo(table.codes.dtype).max + 1, np.uint64)
        of_code[: table.columns[n].size] = keys[table.column_offsets[n] : table.column_offsets[n + 1]]
        content += of_code[table.codes[:, n]]  # wraps around, exactly
    return content


def row_hashes(table: Table, seed: int) -> Words:
    """One hash per row of a table from the names of its cells, equal rows numbered apart."""
    return numbered_apart(row_contents(table, seed), seed)


def draw_truth(n_tasks: int, prior: Floats, rng: np.random.Generator) -> NDArray[np.int32]:
    """One class per task (n,).

    Parameters
    ----------
    n_tasks : int
        Number of tasks.
    prior : ndarray of shape (n_classes,)
        Class proportions.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    int32 ndarray of shape (n_tasks,)
        Class of every task.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import draw_truth
    >>> draw_truth(5, np.array([1.0, 0.0]), np.random.default_rng(0)).tolist()
    [0, 0, 0, 0, 0]
    """
    return np.searchsorted(np.cumsum(prior)[:-1], rng.random(n_tasks), side="right").astype(np.int32)
