"""Questionnaires as users bring them: classes with every kind of missing value, and what only looks like classes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from latentfit import LatentClass
from tests.system.gauntlet.scenario import Scenario

ITEMS = 8
DATA = Path(os.environ.get("LATENTFIT_DATA", "data")) / "tables"


def frame_of(codes: Any) -> pd.DataFrame:
    codes = np.asarray(codes)
    return pd.DataFrame(codes, columns=[f"q{n}" for n in range(codes.shape[1])])


def fitted(frame: pd.DataFrame, n_classes: int | None = None, **options: Any) -> LatentClass:
    weight = options.pop("weight", None)
    return LatentClass(n_classes, n_jobs=1, **options).fit(frame, sample_weight=weight)


def yes_profiles(n_classes: int, n_items: int, sure: float) -> Any:
    """Probabilities of a yes: class f says yes to its own share of the items, and to half of the next class's."""
    item, own = np.arange(n_items), np.arange(n_classes)[:, None]
    begin = own * n_items // n_classes
    inside = (item - begin) % n_items < (n_items * 2 + n_classes - 1) // (n_classes + 1)
    return np.where(inside, sure, 1 - sure)


def answers(rng: Any, n: int, weights: Any, profiles: Any) -> Any:
    """Yes or no of n people, each in one class."""
    hidden = rng.choice(len(weights), n, p=weights)
    return (rng.random((n, profiles.shape[1])) < profiles[hidden]).astype(float)


def two_classes(seed: int, n: int = 800) -> Any:
    return answers(np.random.default_rng(seed), n, [0.55, 0.45], np.array([[0.8] * ITEMS, [0.2] * ITEMS]))


def three_classes(seed: int, n: int = 1000, weights: Any = (0.4, 0.35, 0.25)) -> Any:
    return answers(np.random.default_rng(seed), n, weights, yes_profiles(3, 9, 0.85))


def categories(rng: Any, n: int, n_classes: int, size: int, sure: float, n_items: int = ITEMS) -> Any:
    """Each class has a favourite category of every item."""
    favourite = np.array([[(f * (n + 1) + n) % size for n in range(n_items)] for f in range(n_classes)])
    hidden = rng.integers(n_classes, size=n)
    other = rng.integers(size, size=(n, n_items))
    return np.where(rng.random((n, n_items)) < sure, favourite[hidden], other).astype(float)


# ------------------------------------------------------------------ sound


def complete(seed: int) -> LatentClass:
    return fitted(frame_of(two_classes(seed)))


def missing_completely_at_random(seed: int) -> LatentClass:
    codes = three_classes(seed)
    codes[np.random.default_rng([seed, 1]).random(codes.shape) < 0.15] = np.nan
    return fitted(frame_of(codes))


def several_categories(seed: int) -> LatentClass:
    return fitted(frame_of(categories(np.random.default_rng(seed), 900, 3, 4, 0.6)))


def routed_blank(seed: int) -> LatentClass:
    """Two questions are asked only after a yes to the first; else the cells are empty."""
    codes = two_classes(seed, 1500)
    codes[codes[:, 0] == 0, 1:3] = np.nan
    return fitted(frame_of(codes))


def missing_at_random(seed: int) -> LatentClass:
    """Who said no to the first question leaves out half of four others."""
    codes = three_classes(seed, 1500)
    silent = (codes[:, :1] == 0) & (np.random.default_rng([seed, 1]).random((1500, 9)) < 0.5)
    silent[:, [0, 5, 6, 7, 8]] = False
    codes[silent] = np.nan
    return fitted(frame_of(codes))


def expansion_weights(seed: int) -> LatentClass:
    """Weights say how many people of the population a row speaks for, thousands each."""
    weight = 7000 * np.exp(0.5 * np.random.default_rng([seed, 1]).normal(size=1500))
    return fitted(frame_of(two_classes(seed, 1500)), weight=weight)


def ordinal_items(seed: int) -> LatentClass:
    """Five-point answers; classes agree with different items, none is above the other on all."""
    rng = np.random.default_rng(seed)
    centre = np.array([[0.8] * 4 + [3.2] * 4, [3.2] * 4 + [0.8] * 4, [3.2, 0.8] * 4])
    hidden = rng.choice(3, 1000, p=[0.4, 0.3, 0.3])
    return fitted(frame_of(np.clip(np.round(centre[hidden] + rng.normal(size=(1000, 8))), 0, 4)))


def frequency_table(seed: int) -> LatentClass:
    """Unique rows with counts."""
    counts = frame_of(two_classes(seed, 1200)).value_counts().reset_index()
    return fitted(counts.drop(columns="count"), weight=counts["count"], weight_type="frequency")


def rare_class_of_many_rows(seed: int) -> LatentClass:
    """Two per cent of 10,000 rows, set apart by most items."""
    profiles = np.vstack([[0.1] * 10, [0.7] * 5 + [0.1] * 5, [0.9] * 10])
    return fitted(frame_of(answers(np.random.default_rng(seed), 10_000, [0.6, 0.38, 0.02], profiles)))


def number_given(seed: int) -> LatentClass:
    return fitted(frame_of(three_classes(seed)), 3)


def text_and_numbers(seed: int) -> LatentClass:
    """Half of the columns are words, and an eighth of the answers are lacking."""
    codes = categories(np.random.default_rng(seed), 1000, 2, 3, 0.6)
    codes[np.random.default_rng([seed, 1]).random(codes.shape) < 0.12] = np.nan
    frame = frame_of(codes).astype(object)
    for name in frame.columns[::2]:
        frame[name] = frame[name].map({0.0: "never", 1.0: "sometimes", 2.0: "often"})
    return fitted(frame)


# ---------------------------------------------------------------- unsound


def item_responses(seed: int) -> LatentClass:
    """A two-parameter logistic model: one continuous trait, no classes."""
    rng = np.random.default_rng(seed)
    trait, slope, place = rng.normal(size=1000), rng.uniform(1, 2.2, 10), rng.normal(size=10)
    return fitted(frame_of(rng.random((1000, 10)) < 1 / (1 + np.exp(-slope * (trait[:, None] - place)))))


def graded_responses(seed: int) -> LatentClass:
    """Four-point answers that follow one trait."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(1, 2, 8) * rng.normal(size=(700, 1)) + rng.logistic(size=(700, 8))
    return fitted(frame_of((level[:, :, None] > np.array([-1.5, 0.0, 1.5])).sum(axis=2)))


def two_factors(seed: int) -> LatentClass:
    """Ten yes/no items, five of each of two traits."""
    rng = np.random.default_rng(seed)
    traits = rng.normal(size=(1000, 2)) @ np.array([[1.0, 0.3], [0.0, 0.95]])
    return fitted(frame_of(rng.random((1000, 10)) < 1 / (1 + np.exp(-1.8 * np.repeat(traits, 5, axis=1)))))


def routed_code(seed: int) -> LatentClass:
    """Two questions are asked only after a yes, and 9 stands for not asked."""
    codes = two_classes(seed, 1000)
    codes[codes[:, 0] == 0, 1:3] = 9
    return fitted(frame_of(codes))


def copies(proportion: float) -> Callable[[int], LatentClass]:
    def make(seed: int) -> LatentClass:
        codes = three_classes(seed)
        same = np.random.default_rng([seed, 1]).random(len(codes)) < proportion
        codes[same, 4] = codes[same, 3]
        return fitted(frame_of(codes))

    return make


def rows_twice(seed: int) -> LatentClass:
    """A file that was appended to itself."""
    frame = frame_of(three_classes(seed, 400))
    return fitted(pd.concat([frame, frame]))


def some_rows_twice(seed: int) -> LatentClass:
    """A fifth of the rows of a longer questionnaire occur twice."""
    rng = np.random.default_rng(seed)
    frame = frame_of(answers(rng, 800, [0.5, 0.5], yes_profiles(2, 16, 0.75)))
    return fitted(pd.concat([frame, frame[:160]]))


def name_column(seed: int) -> LatentClass:
    codes = frame_of(two_classes(seed, 500))
    return fitted(codes.assign(person=[f"p{n:03}" for n in range(500)]), 2)


def rare_class_of_few_rows(seed: int) -> LatentClass:
    """Twenty rows of a thousand: no profile can rest on them."""
    return fitted(frame_of(three_classes(seed, 1000, (0.55, 0.43, 0.02))), 3)


def independent_answers(seed: int) -> LatentClass:
    return fitted(frame_of(np.random.default_rng(seed).integers(3, size=(700, 8))))


def few_rows_many_items(seed: int) -> LatentClass:
    """Two classes that fifty rows cannot show."""
    rng = np.random.default_rng(seed)
    return fitted(frame_of(answers(rng, 50, [0.5, 0.5], yes_profiles(2, 25, 0.6))))


def one_class_too_many(seed: int) -> LatentClass:
    return fitted(frame_of(three_classes(seed)), 4)


def one_class_too_few(seed: int) -> LatentClass:
    return fitted(frame_of(three_classes(seed)), 2)


def four_items_three_classes(seed: int) -> LatentClass:
    """14 free parameters, 15 free cells, and a Jacobian of rank 13 (Goodman 1974)."""
    profiles = np.array([[0.9, 0.8, 0.2, 0.1], [0.2, 0.7, 0.9, 0.3], [0.3, 0.1, 0.4, 0.8]])
    return fitted(frame_of(answers(np.random.default_rng(seed), 3000, [0.4, 0.35, 0.25], profiles)), 3)


def empty_rows_removed(seed: int) -> LatentClass:
    """Rows of people who said yes to nothing were left out."""
    codes = answers(np.random.default_rng(seed), 2000, [0.6, 0.4], np.array([[0.12] * 7, [0.6] * 7]))
    return fitted(frame_of(codes[codes.any(axis=1)]))


def two_forms(seed: int) -> LatentClass:
    """Half of the people answered one half of the items, the others the other."""
    codes = categories(np.random.default_rng(seed), 1000, 2, 3, 0.6)
    codes[:500, :4] = codes[500:, 4:] = np.nan
    return fitted(frame_of(codes), 2)


def disability(seed: int) -> LatentClass:
    """Sixteen disabilities of elderly people, which grow with one another (a scale, not groups)."""
    codes = pd.read_csv(DATA / "debd_nltcs.csv").drop(columns="split")
    return fitted(codes.sample(1000, random_state=seed))


BAD = ("caution", "not identifiable")
SCENARIOS = [
    Scenario("two classes, complete", complete),
    Scenario("three classes, 15 % of the cells missing", missing_completely_at_random),
    Scenario("three classes, four categories", several_categories),
    Scenario("routing, empty cells", routed_blank),
    Scenario("missing at random", missing_at_random),
    Scenario("expansion weights", expansion_weights),
    Scenario("ordinal items, three classes", ordinal_items),
    Scenario("unique rows with frequencies", frequency_table),
    Scenario("a class of 2 % of 10,000 rows", rare_class_of_many_rows),
    Scenario("three classes, number given", number_given),
    Scenario("words and numbers, missing cells", text_and_numbers),
    Scenario("item responses, one trait", item_responses, BAD, "continuous trait"),
    Scenario("graded responses, one trait", graded_responses, BAD, "continuous trait"),
    Scenario("two continuous traits", two_factors, BAD, "continuous trait"),
    Scenario("routing coded 9", routed_code, BAD, "not asked"),
    Scenario("two items, 70 % copies", copies(0.7), BAD, "same thing|depend on each other"),
    Scenario("two items, 40 % copies", copies(0.4), BAD, "same thing|depend on each other"),
    Scenario("every row twice", rows_twice, BAD, "duplicat"),
    Scenario("a fifth of the rows twice", some_rows_twice, BAD, "duplicat"),
    Scenario("a column of names", name_column, BAD, "id that names rows"),
    Scenario("a class of 20 rows", rare_class_of_few_rows, BAD, "rests on about"),
    Scenario("independent answers", independent_answers, BAD, "no structure"),
    Scenario("50 rows, 25 items", few_rows_many_items, BAD, "no structure|rows, fewer than|halves"),
    Scenario("one class too many", one_class_too_many, BAD, "do not show 4 classes|same profile"),
    Scenario("one class too few", one_class_too_few, BAD, "more classes than 2"),
    Scenario("three classes of four items", four_items_three_classes, ("not identifiable",), "Jacobian"),
    Scenario("empty rows removed", empty_rows_removed, BAD, "removed"),
    Scenario("two forms of a questionnaire", two_forms, ("not identifiable",), "parts"),
]
if (DATA / "debd_nltcs.csv").exists():
    SCENARIOS.append(Scenario("disabilities (NLTCS)", disability, BAD, "continuous trait|more classes than"))
