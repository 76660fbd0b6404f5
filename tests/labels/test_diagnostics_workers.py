"""What a worker's flag says, on workers of whom it is known."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import latentfit
from latentfit.core.mixture.parameters import Mixture
from latentfit.labels.data import Labels, join_labels
from latentfit.labels.diagnostics.dependence import joint_agreement
from latentfit.simulate import crowd, draw_confusions

K, M, N = 3, 30, 600
SAY_THE_SAME = ["says the same as 4", "says the same as 3"]


def flags_of(labels: Labels) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(latentfit.DawidSkene(random_state=0).fit(labels).workers_["flag"].to_pylist())


@pytest.fixture(scope="module")
def odd_crowd() -> Labels:
    """Skilled workers, but 0 guesses, 1 always says class 2, 2 misleads, 3 and 4 say the same."""
    rng = np.random.default_rng(0)
    confusion = draw_confusions(M, K, "skilled", (0.65, 0.9), rng)
    confusion[0] = 1 / K
    confusion[1] = np.eye(K)[2]
    confusion[2] = (1 - np.eye(K)) / (K - 1)
    labels = crowd(N, M, K, labels_per_task=10, confusion=confusion, random_state=rng).coded()
    given, task = labels.given.copy(), labels.task_of()
    source = dict(zip(task[labels.workers == 3], given[labels.workers == 3], strict=True))
    for at in np.flatnonzero(labels.workers == 4):
        given[at] = source.get(task[at], given[at])
    return replace(labels, given=given)


def test_each_kind_of_bad_worker_gets_its_flag(odd_crowd):
    flags = flags_of(odd_crowd)
    assert flags[:5].tolist() == ["guessing", "constant", "adversarial", *SAY_THE_SAME]
    assert (flags[5:] == "").sum() >= M - 6


def test_workers_with_few_labels_are_flagged_so(odd_crowd):
    mine = np.flatnonzero(odd_crowd.workers == 9)
    kept = np.ones(odd_crowd.n_labels, bool)
    kept[mine[6:]] = False
    flags = flags_of(odd_crowd.subset(kept))
    assert flags[9] == "few labels"


def test_a_right_worker_with_tasks_of_one_class_is_not_constant():
    rng = np.random.default_rng(1)
    confusion = draw_confusions(20, 2, "skilled", (0.8, 0.9), rng)
    data = crowd(400, 20, 2, labels_per_task=8, confusion=confusion, prior=np.array([0.8, 0.2]), random_state=rng)
    labels = data.coded()
    true = data.answers[labels.task_of()]
    kept = (labels.workers != 0) | (true == 0)
    given = np.where(labels.workers == 0, 0, labels.given)  # worker 0 sees class 0 only, and is always right
    flags = flags_of(replace(labels, given=given.astype(np.int32)).subset(kept))
    assert flags[0] == ""


def test_honest_crowds_are_hardly_flagged():
    flags = [
        flag
        for seed in range(20)
        for flag in flags_of(crowd(400, 20, 3, labels_per_task=6, skill=(0.6, 0.95), random_state=seed).coded())
    ]
    assert np.mean([flag != "" for flag in flags]) <= 0.01
    assert not any(flag.startswith(("says", "agrees")) or flag == "constant" for flag in flags)


# ------------------------------------------------------------------ copies, families, colluders


def judged(columns: list[np.ndarray]) -> latentfit.DawidSkene:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return latentfit.DawidSkene(n_jobs=1).fit(np.stack(columns, axis=1))


def says(truth: np.ndarray, accuracy: float, rng: np.random.Generator) -> np.ndarray:
    wrong = rng.random(len(truth)) >= accuracy
    return np.where(wrong, (truth + rng.integers(1, K, len(truth))) % K, truth)


@pytest.mark.parametrize("repeats", [0.0, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_family_of_judges_is_not_trusted(repeats, seed):
    """Three judges of six repeat a base model's answer with probability `repeats`."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=1500)
    base = says(truth, 0.68, rng)
    own = [says(truth, accuracy, rng) for accuracy in rng.uniform(0.7, 0.8, 6)]
    family = [np.where(rng.random(1500) < repeats, base, label) for label in own[:3]]
    model = judged([*family, *own[3:]])
    flags = list(model._fitted.quality.flag)
    if repeats == 0:
        assert model.report_.verdict == "ok"
        assert flags == [""] * 6
    else:
        assert model.report_.verdict == "caution"
        assert any("agree with one another more than the model explains" in text for text in model.report_.reasons)
        assert all("more than the model explains" in flag for flag in flags[3:])  # the family has become the truth


@pytest.mark.parametrize("seed", range(6))
def test_a_family_of_judges_is_not_trusted_on_500_tasks(seed):
    """No single pair need show it there: all workers together do."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=500)
    base = truth ^ (rng.random(500) >= 0.68)
    own = [truth ^ (rng.random(500) >= accuracy) for accuracy in rng.uniform(0.7, 0.8, 6)]
    family = [np.where(rng.random(500) < 0.6, base, label) for label in own[:3]]
    report = judged([*family, *own[3:]]).report_
    assert report.verdict == "caution"
    assert any("more than the model explains (sum of squared positive" in text for text in report.reasons)
    alone = judged(own).report_.quantities["joint_agreement"]
    assert alone["value"] < alone["limit"]


def test_most_families_of_judges_are_found_on_300_tasks():
    """Three of six yes/no judges repeat a base model in 60 % of their answers; a sum over pairs finds half of them."""
    found = []
    for seed in range(200):
        rng = np.random.default_rng([9, seed])
        truth = rng.integers(2, size=300)
        base, *own = (truth ^ (rng.random(300) >= accuracy) for accuracy in rng.uniform(0.66, 0.8, 7))
        family = [np.where(rng.random(300) < 0.6, base, label) for label in own[:3]]
        numbers = judged([*family, *own[3:]]).report_.quantities["joint_agreement"]
        found.append(numbers["value"] > numbers["limit"])
    assert np.mean(found) >= 0.6


def test_all_workers_together_hardly_accuse_an_independent_crowd():
    """The limit is that of three crowds in a thousand; also where EM has not fitted the model, but votes have."""
    beyond = 0
    for seed in range(100):
        rng = np.random.default_rng([3, seed])
        n_tasks, n_workers, n_classes = int(rng.integers(60, 800)), int(rng.integers(4, 13)), int(rng.integers(2, 4))
        each = int(rng.integers(3, n_workers + 1))
        data = crowd(n_tasks, n_workers, n_classes, labels_per_task=each, skill=(0.6, 0.95), random_state=rng).coded()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = latentfit.DawidSkene(method=("auto", "majority")[seed % 2], n_jobs=1).fit(data)
        found = joint_agreement(data, model._fitted.mixture)
        beyond += found is not None and found.beyond
    assert beyond <= 1


def test_the_joint_test_does_not_see_the_order_of_rows_and_leaves_long_crowds_and_repeated_answers_alone():
    data = crowd(300, 6, 2, labels_per_task=4, random_state=0).coded()
    mixture = judged_labels(data)
    found = joint_agreement(data, mixture)
    order = np.random.default_rng(0).permutation(data.n_rows)
    turned = join_labels([data.take(np.arange(data.n_rows) == at) for at in order])
    assert found is not None
    assert joint_agreement(turned, mixture) == found
    twice = replace(data, offsets=data.offsets * 2, workers=np.repeat(data.workers, 2), given=np.repeat(data.given, 2))
    assert joint_agreement(twice, mixture) is None
    many = crowd(300, 21, 2, labels_per_task=4, random_state=0).coded()
    assert joint_agreement(many, judged_labels(many)) is None


def judged_labels(labels: Labels) -> Mixture:
    return latentfit.DawidSkene(n_jobs=1).fit(labels)._fitted.mixture


def test_a_judge_who_repeats_another_with_slips_is_flagged_as_near_duplicate():
    """As on the page docs/guide/examples/llm_judges.md: the pair agrees on 98 % of the tasks, the next one on 64 %."""
    rng = np.random.default_rng(0)
    truth = rng.choice(K, 400, p=[0.5, 0.3, 0.2])
    own = [says(truth, accuracy, rng) for accuracy in (0.86, 0.65, 0.6, 0.68)]
    echo = np.where(rng.random(400) < 0.95, own[3], rng.integers(K, size=400))
    model = judged([*own, echo])
    flags = list(model._fitted.quality.flag)
    assert flags[3:] == ["says the same as 4", "says the same as 3"]
    assert model.report_.verdict == "caution"


def test_colluders_who_copy_a_guesser_are_flagged_and_independent_workers_are_not():
    honest = crowd(1500, 40, 2, labels_per_task=5, skill=(0.75, 0.95), activity=0.8, random_state=0)
    rng = np.random.default_rng(0)
    tasks = rng.choice(1500, 400, replace=False)
    spam = rng.integers(2, size=400)
    task, worker, label = (honest.labels[name].to_numpy() for name in ("task", "worker", "label"))
    votes = {
        "task": np.concatenate([task, *[tasks] * 6]),
        "worker": np.concatenate([worker, np.repeat(np.arange(40, 46), 400)]),
        "label": np.concatenate([label, *[spam] * 6]),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = latentfit.DawidSkene(n_jobs=1).fit(pa.table(votes))
    flags = np.array(model.workers_["flag"].to_pylist())
    assert all(flag.startswith("says the same as 4") for flag in flags[40:])
    assert not any(flag.startswith("says") for flag in flags[:40])
    assert model.report_.verdict != "ok"


@pytest.mark.parametrize("slips", [0.1, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_colluders_with_slips_whom_the_consensus_follows_overrule_the_others(slips, seed):
    """By the fit they are nearly always right and explain one another; the others fail on their tasks alone."""
    rng = np.random.default_rng(seed)
    n, ring, n_honest = 1500, 8, 40
    truth = rng.integers(2, size=n)
    rows = []
    for task in range(n):
        for worker in rng.choice(n_honest, 5, replace=False):
            rows.append((task, worker, truth[task] if rng.random() < 0.8 else 1 - truth[task]))
    source = rng.integers(2, size=n)
    for worker in range(n_honest, n_honest + ring):
        for task in range(400):
            rows.append((task, worker, rng.integers(2) if rng.random() < slips else source[task]))
    task, worker, label = np.array(rows).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = latentfit.DawidSkene(n_jobs=1).fit(pa.table({"task": task, "worker": worker, "label": label}))
        alone = worker < n_honest
        honest = latentfit.DawidSkene(n_jobs=1).fit(
            pa.table({"task": task[alone], "worker": worker[alone], "label": label[alone]})
        )
    assert np.mean(model.labels_[:400] != truth[:400]) > 0.3
    flags = np.array(model.workers_["flag"].to_pylist())
    assert (flags[n_honest:] != "").all()
    assert "overrules the others" not in flags[:n_honest]
    assert model.report_.verdict == "caution"
    assert "overrules the others" not in honest.workers_["flag"].to_pylist()
    assert honest.report_.verdict == "ok"


@pytest.mark.parametrize("seed", range(4))
def test_experts_among_weak_workers_overrule_nobody(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=1000)
    accuracy = np.where(np.arange(30) < 5, 0.95, rng.uniform(0.4, 0.7, 30))
    rows = []
    for task, true in enumerate(truth):
        for worker in rng.choice(30, 5, replace=False):
            rows.append((task, worker, true if rng.random() < accuracy[worker] else rng.integers(3)))
    task, worker, label = np.array(rows).T
    model = latentfit.DawidSkene(n_jobs=1).fit(pa.table({"task": task, "worker": worker, "label": label}))
    assert "overrules the others" not in model.workers_["flag"].to_pylist()
