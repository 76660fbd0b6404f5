"""Of 200 tables that do not determine their classes at least 99 % are not trusted; of 200 sound ones at most 1 %.

`python tests/statistics/test_table_verdicts.py 200 [first seed]` prints both rates.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tacit.data.table import Column, Table, group_rows
from tacit.diagnose.bootstrap import draw_table
from tacit.diagnose.tables import examine_table
from tacit.engine.mixture import Mixture
from tacit.models.latent_class import LatentClass


def draw(rng, weights, tables, n, missing=0.0):
    sizes = [t.shape[1] for t in tables]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    mixture = Mixture(np.asarray(weights, float), np.concatenate([t.T for t in tables]), first)
    codes = np.zeros((n, len(sizes)), np.uint8)
    codes[rng.random(codes.shape) < missing] = 255
    columns = tuple(Column(f"c{i}", np.arange(s)) for i, s in enumerate(sizes))
    return draw_table(Table(codes, columns), mixture, rng)


def profiles(rng, F, sizes, separation=3.0):
    """Tables whose classes each favour a category of their own choice."""
    out = []
    for size in sizes:
        table = rng.dirichlet(np.full(size, 2.0), size=F)
        favour = (rng.permutation(F) + rng.integers(size)) % size
        table[np.arange(F), favour] += separation * rng.uniform(0.5, 1.0, F)
        out.append(table / table.sum(axis=1, keepdims=True))
    return out


def sound(seed):
    rng = np.random.default_rng([seed, 1])
    F, N = int(rng.integers(2, 6)), int(rng.integers(6, 21))
    sizes = rng.integers(2, 7, N)
    if F > 3:
        sizes = np.maximum(sizes, 3)
    weights = rng.uniform(1, 3, F)
    weights /= weights.sum()
    n = int(np.ceil(330 / weights.min()))
    return draw(rng, weights, profiles(rng, F, sizes), n, rng.uniform(0, 0.2)), F


def two_columns(rng):
    return draw(rng, [0.5, 0.5], profiles(rng, 2, [4, 4]), 1000), 2


def too_many_classes(rng):
    N = int(rng.integers(3, 5))
    return draw(rng, [0.5, 0.5], profiles(rng, 2, [2] * N), 3000), int(rng.integers(3, 6))


def independent(rng):
    sizes = rng.integers(2, 6, int(rng.integers(4, 15)))
    return draw(rng, [1.0], profiles(rng, 1, sizes, 0.0), int(rng.integers(300, 3000))), int(rng.integers(2, 5))


def duplicates(rng):
    tables = [t[[0, 1, 1]] for t in profiles(rng, 2, rng.integers(2, 5, 10))]
    return draw(rng, [0.4, 0.3, 0.3], tables, 2000), 3


def nearly_empty(rng):
    return draw(rng, [0.6, 0.398, 0.002], profiles(rng, 3, rng.integers(2, 5, 10)), 1500), 3


def few_rows(rng):
    F = int(rng.integers(2, 5))
    sizes = rng.integers(3, 7, int(rng.integers(8, 20)))
    return draw(rng, np.full(F, 1 / F), profiles(rng, F, sizes), int(rng.integers(20, 61))), F


def two_informative(rng):
    tables = profiles(rng, 2, [3, 3]) + [np.repeat(t, 2, axis=0) for t in profiles(rng, 1, [3] * 6, 0.0)]
    return draw(rng, [0.5, 0.5], tables, 1500), 2


def copied_columns(rng):
    table = draw(rng, [0.5, 0.5], profiles(rng, 2, [4] * 8), 1500)
    codes = table.codes[table.pattern_of].copy()
    for n in range(0, 4, 2):
        copied = rng.random(len(codes)) < rng.uniform(0.7, 1.0)
        codes[copied, n + 1] = codes[copied, n]
    return group_rows(replace(table, codes=codes, row_weight=None, pattern_of=None)), 2


BROKEN = [
    two_columns, too_many_classes, independent, duplicates, nearly_empty, few_rows, two_informative, copied_columns
]  # fmt: skip


def examine(table, F):
    model = LatentClass(F, random_state=0, n_jobs=1)
    refined = model._fit_at(table, F)[1]
    return examine_table(
        table, refined.params, converged=refined.converged, refit=lambda part, k: model._fit_at(part, k)[1].params
    )


def broken_verdicts(n_tables, begin=0):
    out: Counter[tuple[str, str]] = Counter()
    for seed in range(begin, begin + n_tables):
        make = BROKEN[seed % len(BROKEN)]
        out[make.__name__, examine(*make(np.random.default_rng([seed, 2]))).verdict] += 1
    return out


def sound_verdicts(n_tables, begin=0):
    out: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for seed in range(begin, begin + n_tables):
        found = examine(*sound(seed))
        out[found.verdict, tuple(found.reasons)] += 1
    return out


def share(verdicts, wanted, at):
    return sum(count for key, count in verdicts.items() if key[at] == wanted) / verdicts.total()


def test_few_tables():
    assert share(broken_verdicts(len(BROKEN)), "trusted", 1) == 0
    verdicts = sound_verdicts(6)
    assert share(verdicts, "trusted", 0) == 1, verdicts


@pytest.mark.slow
def test_broken_tables_are_not_trusted():
    verdicts = broken_verdicts(200)
    assert share(verdicts, "trusted", 1) <= 0.01, verdicts


@pytest.mark.slow
def test_sound_tables_are_trusted():
    verdicts = sound_verdicts(200)
    assert share(verdicts, "trusted", 0) >= 0.99, verdicts


if __name__ == "__main__":
    begin = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(dict(broken_verdicts(int(sys.argv[1]), begin)))
    print(dict(sound_verdicts(int(sys.argv[1]), begin)))
