"""What every plan must respect, whatever the crowd."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import latentfit
import latentfit.labels.select.cover as cover_module
import latentfit.labels.select.information as information
from latentfit import DawidSkene
from latentfit.core.errors import DataError
from latentfit.labels.data import assemble
from latentfit.labels.select import plan_labels
from latentfit.labels.select.cover import Reach, cover_blocks, observed_pairs
from latentfit.labels.select.information import (
    Anyone,
    Crowd,
    choose_pairs,
    entropies,
    gain_table,
    gains_of_pairs,
    sharpened,
)
from latentfit.simulate import crowd

SEEDS = st.integers(0, 10_000)


def fitted(votes, gold=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small crowds come with a verdict; not what is tested here
        return DawidSkene(n_jobs=1, **options).fit(votes, gold=gold)


def random_votes(seed, n_tasks=40, n_workers=9, n_classes=3, each=3):
    return crowd(n_tasks, n_workers, n_classes, labels_per_task=each, random_state=seed).labels.to_pandas()


# ------------------------------------------------------------------ information


def information_reference(belief, confusion):
    """I(class; label) = Σ_k Σ_l p_k A_kl log(A_kl / Σ_j p_j A_jl), term by term."""
    total = 0.0
    for k, l in product(range(len(belief)), range(confusion.shape[1])):
        joint = belief[k] * confusion[k, l]
        heard = sum(belief[j] * confusion[j, l] for j in range(len(belief)))
        if joint > 0:
            total += joint * math.log(joint / (belief[k] * heard))
    return total


@given(SEEDS, st.integers(2, 5))
def test_information_equals_its_definition(seed, n_classes):
    rng = np.random.default_rng(seed)
    beliefs = rng.dirichlet(np.full(n_classes, 0.3), size=6)
    confusions = rng.dirichlet(np.full(n_classes, 0.3), size=(4, n_classes))
    beliefs[0] = np.eye(n_classes)[0]
    confusions[0] = np.eye(n_classes)
    table = gain_table(beliefs, confusions)
    reference = np.array([[information_reference(p, a) for a in confusions] for p in beliefs])
    np.testing.assert_allclose(table, reference, rtol=0, atol=1e-10)
    pairs = gains_of_pairs(np.repeat(beliefs, 4, axis=0), np.tile(confusions, (6, 1, 1)))
    np.testing.assert_allclose(pairs, reference.ravel(), rtol=0, atol=1e-10)
    assert (table <= entropies(beliefs)[:, None] + 1e-12).all()


@given(SEEDS, st.integers(2, 5))
def test_sharpening_takes_exactly_the_gain(seed, n_classes):
    rng = np.random.default_rng(seed)
    beliefs = rng.dirichlet(np.full(n_classes, 0.5), size=20)
    gain = rng.random(20) * entropies(beliefs)
    after = sharpened(beliefs, gain)
    np.testing.assert_allclose(entropies(after), entropies(beliefs) - gain, atol=1e-9)
    np.testing.assert_allclose(after.sum(axis=1), 1)
    assert (after.argmax(axis=1) == beliefs.argmax(axis=1)).all()


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 30))
def test_first_labels_are_the_best_pairs(seed, budget):
    """With one wave and no caps: the best pair of each task, the best tasks of all; entropy pruning loses none."""
    rng = np.random.default_rng(seed)
    beliefs, confusions = rng.dirichlet([0.3, 0.3], size=60), rng.dirichlet([1.0, 1.0], size=(7, 2))
    taken = rng.random((60, 7)) < 0.3
    taken[3] = True
    table = np.where(taken, -1.0, gain_table(beliefs, confusions))
    best = np.sort(table.max(axis=1))[::-1][:budget]
    offers = Crowd(confusions, 60)
    offers.strike(*np.nonzero(taken))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(information, "TUNING", replace(information.TUNING, waves=1))
        chosen = choose_pairs(offers, beliefs, budget)
    np.testing.assert_allclose(chosen.gains, best[best > information.TUNING.least_gain])
    assert not taken[chosen.tasks, chosen.workers].any()


def test_a_large_crowd_is_cut_to_its_best(monkeypatch):
    rng = np.random.default_rng(0)
    beliefs = rng.dirichlet([1.0, 1.0], size=50)
    skill = np.concatenate([np.full(500, 0.55), np.linspace(0.9, 0.95, 20)])
    confusions = np.stack([np.stack([skill, 1 - skill], 1), np.stack([1 - skill, skill], 1)], 1)
    exact = choose_pairs(Crowd(confusions, 50, np.full(520, 3)), beliefs, 30)
    monkeypatch.setattr(information, "TUNING", replace(information.TUNING, most_workers=5))
    monkeypatch.setattr(information, "TUNING", replace(information.TUNING, block_cells=64))
    cut = choose_pairs(Crowd(confusions, 50, np.full(520, 3)), beliefs, 30)
    np.testing.assert_allclose(cut.gains, exact.gains)
    assert (np.bincount(cut.workers) <= 3).all()


def test_a_second_label_is_worth_less_than_the_first():
    beliefs = np.array([[0.5, 0.5], [0.99, 0.01]])
    chosen = choose_pairs(Anyone(np.array([[0.8, 0.2], [0.2, 0.8]])), beliefs, 6)
    gains = chosen.gains[chosen.tasks == 0]
    assert len(gains) > 2
    assert (np.diff(gains) < 0).all()
    # A symmetric worker leaves (0.8, 0.2) behind whatever they say, so the sharpened belief is exact here.
    assert gains[1] == pytest.approx(gain_table(np.array([[0.8, 0.2]]), np.array([[[0.8, 0.2], [0.2, 0.8]]]))[0, 0])


# ------------------------------------------------------------------ the whole plan


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 60), st.integers(1, 4))
def test_caps_and_budget_hold_and_no_pair_comes_twice(seed, budget, cap):
    votes = random_votes(seed)
    available = [0, 1, 2, 5, 77]
    table = plan_labels(fitted(votes), votes, budget=budget, per_worker=cap, workers=available).table
    assert len(table) <= budget
    assert set(table.worker) <= set(available)
    assert (table.worker.value_counts() <= cap).all()
    pairs = set(zip(table.task, table.worker, strict=True))
    assert len(pairs) == len(table)
    assert not pairs & set(zip(votes.task, votes.worker, strict=True))
    assert table["rank"].tolist() == list(range(1, len(table) + 1))
    assert (table.gain >= 0).all()


@settings(max_examples=10)
@given(SEEDS)
def test_permuting_rows_permutes_the_plan(seed):
    votes = random_votes(seed, each=4)
    mixed = votes.sample(frac=1, random_state=seed)
    plans = [plan_labels(fitted(rows), rows, budget=12, workers=range(9)).table for rows in (votes, mixed)]
    np.testing.assert_allclose(plans[0].gain, plans[1].gain, atol=1e-8)
    distinct = np.diff(plans[0].gain, prepend=np.inf, append=-np.inf)
    clear = (np.minimum(-distinct[:-1], -distinct[1:]) > 1e-6) & (plans[0].gain > plans[0].gain.min() + 1e-6)
    for column in ("task", "worker", "reason"):
        assert plans[0][column][clear].tolist() == plans[1][column][clear].tolist()


def test_without_workers_the_task_alone():
    votes = random_votes(1, each=5)
    plan = plan_labels(fitted(votes), votes)
    assert plan.n_cover == 0
    assert plan.n_labels == 4  # a tenth of the tasks
    assert plan.table.worker.isna().all()
    assert plan.table.columns.tolist() == ["rank", "task", "worker", "reason", "gain"]
    assert plan.table.reason.str.startswith("unsure: ").all()


def test_an_unseen_annotator_counts_as_average():
    votes = random_votes(2, each=5)
    model = fitted(votes)
    strangers = plan_labels(model, votes, budget=5, workers=["new", "newer"]).table
    anyone = plan_labels(model, votes, budget=5).table
    assert strangers.gain.iloc[0] == pytest.approx(anyone.gain.iloc[0])
    assert set(strangers.worker) <= {"new", "newer"}


def test_known_answers_are_not_asked_again():
    votes = random_votes(3)
    unsure = plan_labels(fitted(votes), votes, budget=5).table.task.tolist()
    model = DawidSkene(n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(votes, gold=dict.fromkeys(unsure, 0))
    assert not set(plan_labels(model, votes, budget=20).table.task) & set(unsure)


@pytest.mark.parametrize("gold", [None, {"t3": 0, "t31": 1, "t7": 2}])
@pytest.mark.parametrize(("fit_file", "plan_file"), [(True, False), (False, True), (True, True)])
def test_plans_from_files_are_those_of_memory(fit_file, plan_file, gold, tmp_path):
    votes = random_votes(5)
    votes["task"] = [f"t{task}" for task in votes.task]
    votes.to_csv(tmp_path / "votes.csv", index=False)
    files = latentfit.scan(tmp_path / "votes.csv")
    here, there = fitted(votes, gold=gold), fitted(files if fit_file else votes, gold=gold)
    wanted = plan_labels(here, pa.Table.from_pandas(votes), budget=30, workers=votes)
    found = plan_labels(there, files if plan_file else pa.Table.from_pandas(votes), budget=30, workers=votes)
    assert found.table.equals(wanted.table)
    streamed = fitted(votes, gold=gold, engine="stream")
    assert plan_labels(streamed, pa.Table.from_pandas(votes), budget=30, workers=votes).table.equals(wanted.table)


def test_frames_come_back_in_kind_and_new_tasks_are_planned():
    votes = random_votes(4, each=5)
    model = fitted(votes)
    table = plan_labels(model, pa.Table.from_pandas(votes), budget=3).table
    assert isinstance(table, pa.Table)
    later = pd.DataFrame({"task": [900, 901], "worker": [0, 1], "label": [2, 0]})
    planned = plan_labels(model, later, budget=2, workers=pd.DataFrame({"annotator": [4, 5]}))
    assert set(planned.table.task) <= {900, 901}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"budget": 0}, "budget must be an int >= 1 or None, got 0"),
        ({"per_worker": -1}, "per_worker must be an int >= 1 or None, got -1"),
        ({"workers": []}, "list of available workers is empty"),
        ({"workers": pd.DataFrame({"who": [1]})}, "no column for the worker among"),
    ],
)
def test_impossible_plans_raise_clear_errors(options, says):
    votes = random_votes(5)
    with pytest.raises(DataError, match=says):
        plan_labels(fitted(votes), votes, **options)


def test_a_plan_without_informative_labels_is_empty():
    votes = random_votes(6, n_tasks=20, n_workers=4, each=4)
    plan = plan_labels(fitted(votes), votes, budget=3, workers=range(4))
    assert plan.n_labels == 0
    assert "only 0 labels are informative" in plan.notes[-1]


# ------------------------------------------------------------------------ cover


def sparse_crowd(seed):
    """Few tasks, one to three labels each: separate groups, bipartite parts and lonely workers occur."""
    rng = np.random.default_rng(seed)
    n_tasks, n_workers = int(rng.integers(2, 14)), int(rng.integers(3, 10))
    sizes = rng.integers(1, 4, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), sizes).astype(np.int32)
    worker = np.concatenate([rng.choice(n_workers, size, replace=False) for size in sizes]).astype(np.int32)
    names = np.arange(n_tasks), np.arange(n_workers), np.arange(2)
    return assemble(task, worker, rng.integers(0, 2, len(task)).astype(np.int32), *names)


def with_requests(labels, cover):
    """Who is on which task once all requests are answered."""
    present = {task: set() for task in range(labels.n_rows)}
    for task, worker in zip(labels.task_of().tolist(), labels.workers.tolist(), strict=True):
        present[task].add(worker)
    for task, worker in zip(cover.tasks, cover.workers, strict=True):
        assert worker not in present[task]
        present[task].add(worker)
    return present


def unreached(present, n_workers):
    """Blocks without a walk m – r – ℓ – n of observed pairs, by brute force over all ℓ and r."""
    met = {(a, b) for who in present.values() for a in who for b in who if a != b}
    everyone = range(n_workers)
    return [
        (m, n)
        for m, n in product(everyone, everyone)
        if (m, n) not in met
        and not any((m, r) in met and (r, l) in met and (l, n) in met for r, l in product(everyone, everyone))
    ]


def make_cover(labels, room=None, limit=10_000):
    beliefs = np.random.default_rng(0).dirichlet([1, 1], size=labels.n_rows)
    confusions = np.tile([[0.8, 0.2], [0.3, 0.7]], (labels.n_workers, 1, 1))
    room = np.full(labels.n_workers, 10_000) if room is None else room
    return cover_blocks(labels, beliefs, confusions, room=room, limit=limit)


@given(SEEDS)
def test_cover_brings_every_block_within_reach(seed):
    labels = sparse_crowd(seed)
    cover = make_cover(labels)
    before = unreached(with_requests(labels, type(cover)()), labels.n_workers)
    assert cover.missing_before == pytest.approx(len(before) / labels.n_workers**2)
    assert unreached(with_requests(labels, cover), labels.n_workers) == []
    assert cover.missing_after == 0
    assert (len(cover.tasks) == 0) == (before == [])
    assert len(cover.tasks) <= 2 * labels.n_workers


@given(SEEDS, st.integers(0, 3))
def test_cover_keeps_to_who_is_available(seed, limit):
    labels = sparse_crowd(seed)
    rng = np.random.default_rng(seed)
    room = rng.integers(0, 3, size=labels.n_workers)
    cover = make_cover(labels, room)
    assert (np.bincount(cover.workers, minlength=labels.n_workers) <= room).all()
    left = unreached(with_requests(labels, cover), labels.n_workers)
    assert cover.missing_after == pytest.approx(len(left) / labels.n_workers**2)
    assert (cover.missing_after == 0) == (not any("out of reach" in note for note in cover.notes))
    assert len(make_cover(labels, limit=limit).tasks) <= limit


@given(SEEDS)
def test_reach_is_updated_with_every_added_pair(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    reach = Reach(np.zeros((n, n), bool))
    for _ in range(2 * n):
        a, b = (int(x) for x in rng.choice(n, 2, replace=False))
        expected = int(reach.missing.sum())
        worth, gain = reach.worth()[a, b], reach.gain(a, b)
        known = bool(reach.one[a, b])
        reach.add(a, b)
        fresh = Reach(reach.one)
        np.testing.assert_array_equal(reach.missing, fresh.missing)
        np.testing.assert_array_equal(reach.two, fresh.two)
        if not known:
            assert worth == gain
            assert (gain > 0) == (expected > int(reach.missing.sum()))


def test_groups_are_connected_first_with_a_reason_in_words():
    task = np.repeat(np.arange(4), 3).astype(np.int32)
    worker = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5], np.int32)
    labels = assemble(task, worker, np.zeros(12, np.int32), np.arange(4), np.array(list("abcdef")), np.arange(2))
    cover = make_cover(labels)
    assert cover.reasons[0].startswith("connects two separate groups: joins workers ")
    assert all(reason.startswith("joins workers ") for reason in cover.reasons[1:])


def test_a_bipartite_crowd_gets_a_triangle(monkeypatch):
    """Also beyond the size up to which all blocks are looked at; then the plan says what it did."""
    monkeypatch.setattr(cover_module, "COVER_WORKERS", 3)
    task = np.repeat(np.arange(4), 2).astype(np.int32)
    worker = np.array([0, 2, 0, 3, 1, 2, 1, 3], np.int32)
    labels = assemble(task, worker, np.zeros(8, np.int32), np.arange(4), np.array(list("abcd")), np.arange(2))
    cover = make_cover(labels)
    assert len(cover.tasks) == 1
    assert cover.reasons[0].startswith("closes a triangle of workers ")
    assert "with 4 workers (more than 3)" in cover.notes[0]
    assert cover.missing_after is None  # not looked at, so nothing is claimed


def test_observed_pairs_equal_a_loop():
    labels = sparse_crowd(7)
    expected = np.zeros((labels.n_workers, labels.n_workers), bool)
    for begin, end in zip(labels.offsets[:-1], labels.offsets[1:], strict=True):
        for a, b in product(labels.workers[begin:end], repeat=2):
            expected[a, b] = a != b
    np.testing.assert_array_equal(observed_pairs(labels), expected)


def test_a_small_budget_is_split_between_joining_and_information():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(60), 2)
    worker = np.stack([np.arange(60) % 20, (np.arange(60) + 1) % 20], 1).ravel()
    votes = pd.DataFrame({"task": task, "worker": worker, "label": rng.integers(0, 2, 120)})
    plan = plan_labels(fitted(votes), votes, budget=4)
    assert plan.n_cover == 2
    assert plan.n_labels == 4
    assert plan.missing_after > 0
    assert "the most that a budget of 4 allows" in plan.notes[-1]
    whole = plan_labels(fitted(votes), votes)
    assert whole.missing_after == 0
    assert whole.table.worker.notna().sum() == whole.n_cover
