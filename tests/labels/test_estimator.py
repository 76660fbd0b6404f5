"""What must not matter does not matter: order of rows, names of things, empty columns, halves of the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentfit import DawidSkene, load
from latentfit.core.em import em
from latentfit.engine.memory import MemoryEngine
from latentfit.labels.data import from_long, with_gold
from latentfit.labels.data.stored import sample_tasks, task_hashes
from latentfit.labels.em import crowd_steps
from latentfit.labels.init import METHODS
from latentfit.labels.moments import (
    co_label_graph,
    count_label_pairs,
    pair_memory,
    sufficient_statistics,
    vote_proportions,
)
from latentfit.simulate import specialist_crowd

pytestmark = pytest.mark.filterwarnings("ignore::latentfit.core.errors.IdentifiabilityWarning")


def crowd(seed, n_tasks=60, n_workers=8, n_classes=3, share=0.6):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_tasks)
    skill = rng.uniform(0.4, 0.95, n_workers)
    right = rng.random((n_tasks, n_workers)) < skill
    given_ = np.where(right, truth[:, None], rng.integers(n_classes, size=right.shape))
    task, worker = np.nonzero(rng.random(right.shape) < share)
    return task, worker, given_[task, worker]


long_labels = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 2)),
    min_size=1,
    max_size=80,
    unique_by=lambda row: row[:2],
)


@given(long_labels, st.randoms(use_true_random=False))
def test_pair_counts_ignore_the_order_of_rows_and_equal_loops(rows, random):
    shuffled = rows.copy()
    random.shuffle(shuffled)
    a, b = (from_long(*map(np.array, zip(*part, strict=True))) for part in (rows, shuffled))
    assert (count_label_pairs(a).gram != count_label_pairs(b).gram).nnz == 0
    by_task = {}
    for task, worker, label in rows:
        by_task.setdefault(task, []).append((worker, label))
    counts = {}
    for cells in by_task.values():
        for left in cells:
            for right in cells:
                if left[0] < right[0]:
                    counts[left, right] = counts.get((left, right), 0) + 1
    pairs = count_label_pairs(a)
    left, right, sizes = pairs.observed
    assert sizes.sum() == sum(counts.values())
    for (m, j, size), block in zip(zip(left, right, sizes, strict=True), pairs.blocks(), strict=True):
        assert block.sum() == size
        for k in range(a.n_classes):
            for l in range(a.n_classes):
                names = a.worker_names, a.class_names
                key = ((names[0][m], names[1][k]), (names[0][j], names[1][l]))
                assert block[k, l] == counts.get(key, 0)


@given(long_labels, st.integers(0, 9))
def test_pair_counts_of_parts_add_up_exactly(rows, cut):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    whole = from_long(*columns)
    first_part = whole.subset(whole.task_of() < cut)
    second_part = whole.subset(whole.task_of() >= cut)
    added = count_label_pairs(first_part).gram + count_label_pairs(second_part).gram
    assert (added != count_label_pairs(whole).gram).nnz == 0
    assert pair_memory(whole) >= 0


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_fit_follows_permuted_rows(seed, random):
    task, worker, label = crowd(seed)
    order = list(range(len(task)))
    random.shuffle(order)
    a = DawidSkene().fit(from_long(task, worker, label))
    b = DawidSkene().fit(from_long(task[order], worker[order], label[order]))
    back = [list(b._fitted.evidence.data.task_names).index(name) for name in a._fitted.evidence.data.task_names]
    np.testing.assert_allclose(b.probabilities_[back], a.probabilities_, atol=1e-8)
    np.testing.assert_allclose(b.confusion_, a.confusion_, atol=1e-8)


@given(st.integers(0, 10**6))
def test_fit_follows_renamed_workers_and_classes(seed):
    task, worker, label = crowd(seed)
    a = DawidSkene().fit(from_long(task, worker, label))
    b = DawidSkene().fit(from_long(task, 100 - worker, 9 - label))  # reverses both orders
    np.testing.assert_allclose(b.probabilities_[:, ::-1], a.probabilities_, atol=1e-6)
    np.testing.assert_allclose(b.confusion_[::-1, ::-1, ::-1], a.confusion_, atol=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0]))
def test_em_never_decreases_its_objective(seed, smoothing):
    labels = from_long(*crowd(seed))
    sums = sufficient_statistics(labels, vote_proportions(labels))
    steps = crowd_steps(labels, sums, smoothing, MemoryEngine(labels, 1))
    refined = em(steps, steps.m_step(sums), max_iter=60, tol=0)
    path = np.array(refined.path)
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()
    assert refined.objective == path[-1]
    assert not refined.converged


def test_results_do_not_depend_on_threads():
    labels = from_long(*crowd(5, n_tasks=70_000, n_workers=5, share=0.9))
    one, two = (DawidSkene(n_jobs=jobs).fit(labels) for jobs in (1, 2))
    assert np.array_equal(one.probabilities_, two.probabilities_)
    assert np.array_equal(one.confusion_, two.confusion_)


def test_converged_is_true_only_where_em_converged():
    labels = from_long(*crowd(2))
    with pytest.warns(Warning, match="EM stopped at max_iter=1"):
        model = DawidSkene(max_iter=1, tol=1e-12).fit(labels)
    assert not model.converged_
    assert DawidSkene(tol=1e-6).fit(labels).converged_
    start = DawidSkene(max_iter=0).fit(labels)
    assert start.n_iter_ == 0


def test_training_data_gets_its_fitted_values_alone_or_in_a_batch():
    task, worker, label = crowd(3)
    model = DawidSkene().fit(from_long(task, worker, label))
    again = model.predict_proba(from_long(task, worker, label))
    np.testing.assert_allclose(again, model.probabilities_, atol=1e-12)
    one = task == task[10]
    alone = model.predict_proba(from_long(task[one], worker[one], label[one]))
    row = list(model._fitted.evidence.data.task_names).index(task[10])
    np.testing.assert_allclose(alone[0], model.probabilities_[row], atol=1e-12)


def test_a_worker_without_labels_changes_nothing_else():
    matrix = np.full((40, 6), np.nan)
    task, worker, label = crowd(7, n_tasks=40, n_workers=5)
    matrix[task, worker] = label
    without, with_ = DawidSkene().fit(matrix[:, :5]), DawidSkene().fit(matrix)
    np.testing.assert_allclose(with_.probabilities_, without.probabilities_, atol=1e-9)
    np.testing.assert_allclose(with_.confusion_[:5], without.confusion_, atol=1e-9)


def test_gold_answers_are_held_fixed_against_everybody():
    task = np.repeat(np.arange(30), 40)
    worker = np.tile(np.arange(40), 30)
    label = np.repeat(np.arange(30) % 2, 40)
    model = DawidSkene().fit(from_long(task, worker, label, gold=([0, 1], [1, 0])))  # all 40 say otherwise
    assert model.labels_[:2].tolist() == [1, 0]
    np.testing.assert_allclose(model.probabilities_[:2].max(axis=1), 1.0)
    assert model.labels_[2:].tolist() == [i % 2 for i in range(2, 30)]


@pytest.mark.parametrize("em", [True, False])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_holds_gold_answers_fixed(method, em):
    labels = from_long(*crowd(11, n_classes=2))
    other = 1 - DawidSkene(method=method, em=em).fit(labels).labels_[:6]  # what the method itself would not say
    model = DawidSkene(method=method, em=em).fit(with_gold(labels, (labels.task_names[:6], other)))
    np.testing.assert_allclose(model.probabilities_[:6], np.eye(2)[other], atol=1e-12)
    assert (model.probabilities_[6:] < 1).any()


@pytest.mark.parametrize("em", [True, False])
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"kos", "eigenratio", "ghosh", "minimax-entropy"}))
def test_predict_answers_the_tasks_of_the_fit_as_the_fit_did(method, em, tmp_path):
    """Fresh or from a file, all at once or alone, and a task without labels too; `majority` answers by votes."""
    task, worker, label = crowd(12)
    labels = from_long([*task, 99], [*worker, 0], [*label, None])
    model = DawidSkene(method=method, em=em).fit(labels)
    model.save(tmp_path / "m.latent")
    for known in (model, load(tmp_path / "m.latent")):
        np.testing.assert_allclose(known.predict_proba(labels), model.probabilities_, atol=1e-12)
        assert known.predict(labels).tolist() == model.labels_.tolist()
        alone = [known.predict_proba(labels.task_slice(at, at + 1))[0] for at in (0, labels.n_rows - 1)]
        np.testing.assert_allclose(alone, model.probabilities_[[0, -1]], atol=1e-12)


def test_samples_follow_the_rows_not_their_order():
    task, worker, label = crowd(4)
    order = np.random.default_rng(0).permutation(len(task))
    a, b = from_long(task, worker, label), from_long(task[order], worker[order], label[order])
    assert sorted(task_hashes(a, 1).tolist()) == sorted(task_hashes(b, 1).tolist())
    picked = [  # tasks with the same labels are exchangeable, so compare what they say
        sorted(part.cell_of()[part.offsets[i] : part.offsets[i + 1]].tolist() for i in range(part.n_rows))
        for part in (sample_tasks(a, 20, 3), sample_tasks(b, 20, 3))
    ]
    assert len(picked[0]) == 20
    assert picked[0] == picked[1]
    assert len(np.unique(task_hashes(a, 1))) == a.n_rows


def test_components_and_odd_cycles_of_the_co_label_graph():
    pairs = from_long([0, 0, 1, 1, 2, 2, 3, 3], ["a", "b", "b", "c", "d", "e", "f", "g"], [0, 1, 0, 1, 0, 1, 0, 1])
    graph = co_label_graph(pairs)
    assert graph.n_components == 3
    assert not graph.determined.any()
    triangle = from_long([0, 0, 1, 1, 2, 2], ["a", "b", "b", "c", "c", "a"], [0, 1, 0, 1, 0, 1])
    assert co_label_graph(triangle).determined.tolist() == [True]
    three = from_long([0, 0, 0], ["a", "b", "c"], [0, 1, 0])
    assert co_label_graph(three).determined.tolist() == [True]


def test_an_engine_gives_prior_to_a_task_without_labels():
    labels = from_long(["x", "x", "y", "z", "z"], ["a", "b", "a", "a", "b"], [0, 0, None, 1, 1])
    model = DawidSkene().fit(labels)
    row = list(labels.task_names).index("y")
    tempered = model.prior_**model.confidence_
    np.testing.assert_allclose(model.probabilities_[row], tempered / tempered.sum())
    assert MemoryEngine(labels, 1).n_rows == 3


def test_unseen_annotators_follow_renamed_classes():
    """Where latent classes had to be renamed, an unknown worker's expected confusion is renamed with them."""
    made = specialist_crowd(3000, random_state=101)
    model = DawidSkene().fit(made.labels)
    data = model._fitted.evidence.data
    pooled = np.einsum("m,mkl->kl", np.bincount(data.workers), model.confusion_) / data.n_labels
    np.testing.assert_allclose(model._fitted.pooled.T, pooled, atol=0.05)


def test_gold_decides_which_class_is_which():
    """A few answers settle the names of classes even in a crowd of near-random workers."""
    made = specialist_crowd(2000, random_state=101)
    truth = dict(zip(made.truth["task"].to_pylist(), made.truth["label"].to_pylist(), strict=True))
    gold = {task: truth[task] for task in list(truth)[:300]}
    model = DawidSkene().fit(made.labels, gold=gold)
    tasks = model.tasks_["task"].to_pylist()
    kept = [label == truth[task] for task, label in zip(tasks, model.labels_.tolist(), strict=True) if task in gold]
    assert all(kept)
    assert np.mean([label != truth[task] for task, label in zip(tasks, model.labels_.tolist(), strict=True)]) < 0.2
