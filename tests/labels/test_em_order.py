"""What EM on a crowd decides: which latent class is which label, where to stop, how many parameters a worker has."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.labels.data import Labels, assemble, from_wide, with_gold
from latentfit.labels.data.stored import store_labels
from latentfit.labels.estimator import CrowdSettings, FittedCrowd, fit_crowd
from latentfit.labels.select.information import committee_posterior
from latentfit.simulate import Crowd, crowd, specialist_crowd


def known(labels: Labels, truth: np.ndarray, rows: list[int]) -> Labels:
    return with_gold(labels, (labels.task_names[rows], labels.class_names[truth[rows]]))


def error(fitted: FittedCrowd, truth: np.ndarray) -> float:
    return float(np.mean(fitted.evidence.posterior.argmax(axis=1) != truth))


def fit(labels: Labels, **settings) -> FittedCrowd:
    return fit_crowd(labels, CrowdSettings(**{"n_jobs": 1, **settings}))


@pytest.fixture(scope="module")
def misleading() -> Crowd:
    """Half of the workers mislead: EM from votes finds the classes under wrong names."""
    return specialist_crowd(1000, random_state=1)


@pytest.mark.parametrize("method", ["auto", "majority-em", "cnmf"])
def test_known_answers_never_wreck_the_consensus(misleading, method):
    labels, truth = misleading.coded(), misleading.answers
    order = np.random.default_rng(0).permutation(len(truth))
    without = error(fit(labels, method=method), truth)
    assert without < 0.12
    for k in (1, 5, 20, 100):
        assert error(fit(known(labels, truth, order[:k].tolist()), method=method), truth) <= without + 0.005


def test_an_empty_list_of_known_answers_is_none(misleading):
    labels = misleading.coded()
    assert with_gold(labels, ([], [])) is labels
    assert not with_gold(store_labels(labels), ([], [])).has_gold


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("label", [-1, 3])
def test_a_known_answer_that_nobody_gives_takes_the_place_of_no_class(seed, label):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 300)
    votes = np.where(rng.random((300, 5)) < 0.8, truth[:, None], rng.integers(0, 3, (300, 5)))
    labels = from_wide(votes, gold=([0], [label]))
    for data in (labels, store_labels(labels)):
        fitted = fit(data)
        said = fitted.class_names[fitted.evidence.posterior.argmax(axis=1)]
        assert said[0] == label
        assert not (said[1:] == label).any()
        assert np.mean(said[1:] != truth[1:]) < 0.03


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_without_a_score_is_nobodys_answer(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 300)
    votes = np.where(rng.random((300, 5)) < 0.8, truth[:, None], rng.integers(0, 3, (300, 5)))
    fitted = fit(from_wide(votes, bins=[1, 2, 50]))
    assert not (fitted.evidence.posterior.argmax(axis=1) == 3).any()
    assert error(fitted, truth) < 0.03


def test_known_answers_overrule_a_crowd_that_names_the_classes_wrongly():
    made = crowd(400, 12, 2, labels_per_task=6, skill=(0.7, 0.9), random_state=0)
    labels, truth = made.coded(), made.answers
    swapped = 1 - truth  # as if everybody misunderstood the question the same way
    rows = np.random.default_rng(0).permutation(400)[:20].tolist()
    assert error(fit(labels), swapped) > 0.9
    assert error(fit(known(labels, swapped, rows)), swapped) < 0.1


def test_known_answers_are_held_fixed_in_every_method(misleading):
    labels, truth = misleading.coded(), misleading.answers
    for method in ("auto", "majority", "cnmf", "minimax-entropy"):
        for em in (True, False):
            fitted = fit(known(labels, truth, [3, 5, 8]), method=method, em=em)
            assert fitted.evidence.posterior[[3, 5, 8]].argmax(axis=1).tolist() == truth[[3, 5, 8]].tolist()


def joined(*crowds: Crowd) -> tuple[Labels, np.ndarray]:
    """Crowds side by side that share neither tasks nor workers."""
    tasks = np.cumsum([0, *(made.truth.num_rows for made in crowds)])
    workers = np.cumsum([0, *(len(made.confusion) for made in crowds)])
    columns = [
        np.concatenate([made.labels[name].to_numpy() + begin for made, begin in zip(crowds, begins, strict=True)])
        for name, begins in (("task", tasks[:-1]), ("worker", workers[:-1]), ("label", [0] * len(crowds)))
    ]
    coded = assemble(*(column.astype(np.int32) for column in columns), *map(np.arange, (tasks[-1], workers[-1], 3)))
    return coded, np.concatenate([made.answers for made in crowds])


def test_components_that_share_no_task_have_class_orders_of_their_own(misleading):
    honest = crowd(1000, 10, 3, labels_per_task=5, skill=(0.7, 0.9), random_state=2)
    labels, truth = joined(misleading, honest)
    for settings in ({}, {"method": "majority-em"}):
        fitted = fit(labels, **settings)
        for part, made in ((slice(0, 1000), misleading), (slice(1000, 2000), honest)):
            alone = error(fit(made.coded(), **settings), made.answers)
            together = float(np.mean(fitted.evidence.posterior[part].argmax(axis=1) != truth[part]))
            assert together <= alone + 0.02


def test_parts_and_known_answers_give_the_same_bits_from_a_file(misleading):
    labels, truth = joined(misleading, crowd(1000, 10, 3, labels_per_task=5, random_state=2))
    held = known(labels, truth, [1, 2, 1500])
    here, there = fit(held), fit_crowd(store_labels(held), CrowdSettings(n_jobs=1, engine="stream"))
    assert (here.mixture.table == there.mixture.table).all()
    assert here.n_iter == there.n_iter


def test_a_rare_class_that_still_grows_is_not_taken_for_convergence():
    made = specialist_crowd(10_000, prior="dirichlet", random_state=2)  # proportions .03, .45, .53
    fitted = fit(made.coded())
    assert error(fitted, made.answers) < 0.09  # 50.8 % where the gain per label first fell below tol
    assert fitted.converged
    assert (np.diff(fitted.path) >= -1e-9 * abs(fitted.path[0])).all()


def test_where_no_class_grows_the_early_stopping_point_is_used():
    labels = crowd(500, 20, 3, labels_per_task=5, random_state=0).coded()
    fitted = fit(labels)
    assert fitted.n_iter < 20
    assert fitted.converged
    assert not fit(labels, max_iter=fitted.n_iter).converged


def test_the_committee_of_a_plan_names_the_classes_like_the_model(misleading):
    labels, truth = misleading.coded(), misleading.answers
    for data in (labels, known(labels, truth, [0, 1, 2])):
        fitted = fit(data)
        beliefs = committee_posterior(data, fitted.mixture, n_jobs=1)
        assert float(np.mean(beliefs.argmax(axis=1) != truth)) < error(fitted, truth) + 0.05


def test_a_task_without_labels_gets_the_class_prior():
    made = crowd(600, 6, 3, labels_per_task=4, prior=np.array([0.77, 0.15, 0.08]), skill=(0.5, 0.8), random_state=0)
    task, worker, label = (made.labels[name].to_numpy() for name in ("task", "worker", "label"))
    twice = np.tile(task, 2), np.concatenate([worker, worker + 6]), np.tile(label, 2)  # copies: too sure of themselves
    shown = [column[np.tile(task != 7, 2)].astype(np.int32) for column in twice]
    shown = assemble(*shown, np.arange(600), np.arange(12), np.arange(3))
    fitted = fit(shown)
    assert fitted.beta < 1
    np.testing.assert_allclose(fitted.evidence.posterior[7], fitted.mixture.weights)
    np.testing.assert_allclose(fitted.task_posterior(shown)[0][7], fitted.mixture.weights)
    stored = fit_crowd(store_labels(shown), CrowdSettings(n_jobs=1, engine="stream"))
    np.testing.assert_allclose(stored.evidence.posterior[7], fitted.mixture.weights)


def test_two_hundred_classes_with_ten_tasks_each_are_stated_honestly():
    """40 workers, 10,000 labels, 1.6 million cells: full confusion matrices stated 0.0 % where 7.7 % were wrong."""
    made = crowd(2000, 40, 200, labels_per_task=5, kind="one-coin", skill=(0.6, 0.6), random_state=0)
    fitted = fit(made.coded())
    stated = float((1 - fitted.evidence.posterior.max(axis=1)).mean())
    assert error(fitted, made.answers) < 0.09
    assert 0.04 < stated < 0.11
    assert any("one accuracy per worker" in note for note in fitted.evidence.notes)
    assert not any("drop the labels" in reason for reason in fitted.report.reasons)


def test_one_accuracy_per_worker_is_used_only_where_it_predicts_left_out_labels():
    """Workers with few labels: of the one-coin kind, and with habits that all of them share."""
    for kind, expected in (("one-coin", "one accuracy per worker, not"), ("habits", "full confusion matrices, not")):
        habits = np.tile(
            [[0.9, 0.1, 0.0, 0.0], [0.45, 0.5, 0.05, 0.0], [0, 0.05, 0.5, 0.45], [0, 0, 0.1, 0.9]], (90, 1, 1)
        )
        shape = {"kind": "one-coin", "skill": (0.5, 0.9)} if kind == "one-coin" else {"confusion": habits}
        labels = crowd(200, 90, 4, labels_per_task=4, random_state=1, **shape).coded()
        assert any(note.startswith(expected) for note in fit(labels).evidence.notes)
        assert not any("left-out" in note for note in fit(labels, method="one-coin").evidence.notes)


def test_the_one_coin_method_takes_known_answers_and_files(misleading):
    made = crowd(300, 12, 3, labels_per_task=5, kind="one-coin", random_state=0)
    held = known(made.coded(), made.answers, [0, 1, 2])
    here = fit(held, method="one-coin")
    there = fit_crowd(store_labels(held), CrowdSettings("one-coin", n_jobs=1, engine="stream"))
    assert (here.mixture.table == there.mixture.table).all()
    assert here.evidence.posterior[:3].argmax(axis=1).tolist() == made.answers[:3].tolist()
    assert error(here, made.answers) < 0.06
