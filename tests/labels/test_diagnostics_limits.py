"""Where doubts about a crowd begin: made-up labels and fits on both sides of each limit, and parts against loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, binom, chi2_contingency, gamma, norm

from latentfit.core import simplex as scatter
from latentfit.core.mixture.parameters import Mixture, stack_confusions
from latentfit.core.verdict import Examiner, jeffreys, reach_ends, standard_errors_of, wilson
from latentfit.labels import diagnostics
from latentfit.labels import theory as theorems
from latentfit.labels.data import Labels
from latentfit.labels.diagnostics import dependence, structure, workers
from latentfit.labels.diagnostics.experience import Calibration, ExpectedErrors
from latentfit.labels.moments import CoLabelGraph, co_label_graph, count_label_pairs
from latentfit.simulate import crowd


def told(examiner, words):
    return any(words in check.reason for check in examiner.failed)


def labels_of(tasks, n_workers, classes=2):
    """Labels from a dictionary worker → label for every task."""
    offsets = np.concatenate([[0], np.cumsum([len(task) for task in tasks])]).astype(np.int64)
    who = np.array([w for task in tasks for w in sorted(task)], np.int32)
    what = np.array([task[w] for task in tasks for w in sorted(task)], np.int32)
    names = np.array([f"c{k}" for k in range(classes)])
    return Labels(offsets, who, what, np.arange(len(tasks)), np.array([f"w{m}" for m in range(n_workers)]), names)


# ------------------------------------------------------------------ intervals


def test_intervals_by_their_formulas():
    assert standard_errors_of(0.95) == pytest.approx(norm.ppf(0.975))
    low, high = wilson(np.array([0.3]), np.array([20.0]), 1.5)
    root = 1.5 * np.sqrt(0.3 * 0.7 / 20 + 1.5**2 / (4 * 20**2))
    centre, scale = 0.3 + 1.5**2 / 40, 1 + 1.5**2 / 20
    assert (low[0], high[0]) == pytest.approx(((centre - root) / scale, (centre + root) / scale))
    low, high = reach_ends(np.array([0.49, 0.5]), np.array([0.5, 0.49]), (np.full(2, 0.2), np.full(2, 0.8)))
    assert (low.tolist(), high.tolist()) == ([0.0, 0.2], [0.8, 1.0])


def test_jeffreys_interval_is_that_of_the_beta_distribution():
    """(successes + ½) / (trials + 1) is the share: 3 of 10, none and all of them."""
    share = np.array([3.5, 0.5, 10.5, 1.5]) / 11
    low, high = jeffreys(share, np.full(4, 10.0), 0.9)
    assert (low[0], high[0]) == pytest.approx(tuple(beta.ppf([0.05, 0.95], 3.5, 7.5)))
    assert (low[1], high[1]) == pytest.approx((0, beta.ppf(0.95, 0.5, 10.5)))
    assert (low[2], high[2]) == pytest.approx((beta.ppf(0.05, 10.5, 0.5), 1))
    assert low[3] == pytest.approx(beta.ppf(0.05, 1.5, 9.5))
    low, high = jeffreys(np.array([0.001]), np.array([1.0]), 0.5)
    assert low[0] <= 0.001 <= high[0]


# -------------------------------------------------------------------- pattern


def graph_doubts(per_worker, component, determined):
    """Workers with so many labels; the first two share a task."""
    n = len(per_worker)
    tasks = [{m: 0} for m in range(n) for _ in range(per_worker[m] - (m < 2))] + [{0: 0, 1: 1}]
    examiner = Examiner()
    graph = CoLabelGraph(np.array(component, np.int32), np.array(determined))
    connected = structure.examine_graph(examiner, labels_of(tasks, n), graph, None)
    return examiner, connected


@pytest.mark.parametrize(("outside", "doubted"), [(1, False), (3, True), (40, True)])
def test_workers_in_another_component_are_reported(outside, doubted):
    """The third worker shares no task with the first two; its labels are what lies outside."""
    examiner, connected = graph_doubts([100 - outside - 1, 1, outside], [0, 0, 1], [True, True])
    assert connected
    assert told(examiner, "falls into 2 parts") == doubted
    assert examiner.quantities["largest_part"] == pytest.approx(1 - outside / 100)


def test_two_workers_alone_are_not_identifiable():
    examiner, connected = graph_doubts([50, 50], [0, 0], [True])
    assert connected
    assert told(examiner, "Only 2 workers share tasks")
    assert not told(graph_doubts([50, 49, 1], [0, 0, 0], [True])[0], "share tasks where 3 are needed")


@pytest.mark.parametrize(("outside", "level"), [(2, None), (3, "caution"), (50, "caution"), (51, "not identifiable")])
def test_labels_without_an_odd_cycle_are_reported_from_two_percent_on(outside, level):
    examiner, _ = graph_doubts([100 - outside - 1, 1, outside], [0, 0, 1], [True, False])
    assert examiner.quantities["undetermined_labels"] == pytest.approx(outside / 100)
    levels = [check.level for check in examiner.failed if "form no odd cycle" in check.reason]
    assert levels == ([level] if level else [])


def test_tasks_with_one_worker_only_are_not_identifiable():
    graph = CoLabelGraph(np.arange(3, dtype=np.int32), np.zeros(3, bool))
    examiner = Examiner()
    assert not structure.examine_graph(examiner, labels_of([{0: 0}, {1: 1}, {2: 0}], 3), graph, None)
    assert told(examiner, "No task has labels of two workers")
    found = structure.examine_structure(labels_of([{0: 0, 1: 1}, {1: 1}, {2: 0}], 3), graph)
    assert found.verdict == "not identifiable"  # no cycle at all
    triangle = labels_of([{0: 0, 1: 1, 2: 0}], 3)
    assert structure.examine_structure(triangle, co_label_graph(triangle)).verdict == "ok"


def test_names_are_spelled_and_listed():
    assert structure.listed(list("abcde")) == "a, b, c, d, e"
    assert structure.listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert (structure.spell(np.str_("x")), structure.spell(np.int64(3))) == ("'x'", "3")


def test_proportion_of_worker_pairs_without_a_common_task():
    """A chain 0–1–2–3: three of sixteen co-occurrences each way are observed; (7)–(8) reach some more."""
    chain = count_label_pairs(labels_of([{0: 0, 1: 0}, {1: 0, 2: 1}, {2: 1, 3: 1}], 4))
    found = structure.missing_blocks(chain)
    assert found["missing_blocks"] == pytest.approx(1 - 6 / 16)
    assert found["missing_blocks_imputed"] <= found["missing_blocks"]
    assert structure.missing_blocks(None) == {"missing_blocks": None, "missing_blocks_imputed": None}


def test_crowds_and_classes_without_support_are_reported(monkeypatch):
    data = labels_of([{0: 0, 1: 1, 2: 2}] * 4, 3, classes=3)
    pairs = count_label_pairs(data)

    def examined(overall, support, confused_with, related=9.0, classes=3, pairs=pairs):
        found = structure.ClassSupport(np.array(support), np.array(confused_with), 1.0)
        monkeypatch.setattr(structure, "crowd_support", lambda labels: overall)
        monkeypatch.setattr(structure, "class_support", lambda labels, believe: found)
        monkeypatch.setattr(structure, "tables_related", lambda pairs: related)
        examiner = Examiner()
        some = data if classes == 3 else labels_of([{0: 0, 1: 1}] * 4, 2)
        structure.examine_classes(examiner, some, None, pairs)
        return examiner

    sound, none = [4.0, 4.0, 9.0], [-1, -1, -1]
    assert not examined(4.0, sound, none).failed
    assert told(examined(3.9, sound, none, related=3.9), "either they guess")
    assert told(examined(3.9, sound, none, related=4.0), "add known answers")
    assert told(examined(3.9, sound, none, pairs=None), "add known answers")
    assert told(
        examined(9.0, [3.9, 9.0, 9.0], none), "too rare to verify ('c0'; z = 3.9, limit 4): fewer than 16 tasks"
    )
    assert told(examined(9.0, [9.0, 3.9, 9.0], [-1, 0, -1]), "some classes differ ('c1' and 'c0'; z = 3.9, limit 4)")
    assert not told(examined(9.0, [9.0, 3.9, 9.0], [-1, 0, -1]), "too rare to verify")
    assert not examined(9.0, [3.9, 9.0], [-1, -1], classes=2).failed  # of two classes one is what the other is not
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, table_cells=3 * 9))  # three pairs of nine cells
    assert examined(3.9, sound, none).quantities["relation"] == 9.0
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, table_cells=3 * 9 - 1))
    assert examined(3.9, sound, none).quantities["relation"] is None


# ------------------------------------------------------------------ agreement


def test_relation_of_tables_is_pearsons_statistic_of_all_pairs(monkeypatch):
    data = crowd(60, 4, 3, labels_per_task=3, random_state=0).coded()
    pairs = count_label_pairs(data)
    total = free = 0.0
    least = int(np.median(pairs.observed[2]))
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, table_tasks=least))
    for block, size in zip(pairs.blocks(), pairs.observed[2], strict=True):
        if size >= least:
            block = block[block.sum(axis=1) > 0][:, block.sum(axis=0) > 0]
            found = chi2_contingency(block, correction=False)
            total += found.statistic * (size - 1) / size
            free += found.dof
    assert structure.tables_related(pairs) == pytest.approx((total - free) / np.sqrt(2 * free))
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, table_tasks=1000))
    assert structure.tables_related(pairs) is None


def test_a_class_without_support_names_the_class_it_is_confused_with(monkeypatch):
    """Support 5 for all, 1 and 2 for two of them: the weakest is taken away first, then the next."""
    data = labels_of([{0: 0, 1: 1, 2: 2}] * 4, 3, classes=3)
    seen = []

    def support(labels, posterior, h, left):
        seen.append((h, left.tolist()))
        return {0: 5.0, 1: 2.0, 2: 1.0 if left.all() else 9.0}[h]

    monkeypatch.setattr(structure, "_support_of_class", support)
    monkeypatch.setattr(structure, "_confused_with", lambda labels, posterior, h, left: int(np.flatnonzero(left)[0]))
    found = structure.class_support(data, lambda tasks: np.full((4, 3), 1 / 3))
    assert found.support.tolist() == [5.0, 2.0, 1.0]
    assert found.confused_with.tolist() == [-1, 0, 0]
    assert found.fraction == 1
    assert [h for h, _ in seen] == [0, 1, 2, 0, 1, 0]


def test_a_class_with_support_four_stays_and_so_does_the_last_one(monkeypatch):
    data = labels_of([{0: 0, 1: 1}] * 4, 2)
    posterior = lambda tasks: np.full((4, 2), 0.5)  # noqa: E731
    monkeypatch.setattr(structure, "_support_of_class", lambda labels, posterior, h, left: 4.0)
    assert structure.class_support(data, posterior).confused_with.tolist() == [-1, -1]
    monkeypatch.setattr(structure, "_support_of_class", lambda labels, posterior, h, left: 3.9)
    found = structure.class_support(data, posterior)
    assert (found.support.tolist(), (found.support < 4).tolist()) == ([3.9, 3.9], [True, True])


def test_the_twin_is_the_class_whose_tasks_get_the_label_half_as_often():
    """On tasks of class 0 workers say 0 four times and 2 so often."""
    for often, confused_with in ((2, 0), (1, -1)):
        tasks = [{0: 0, 1: 0, 2: 0, 3: 0} | {4 + m: 2 for m in range(often)}, {0: 1, 1: 1, 2: 1}]
        data = labels_of(tasks, 6, classes=3)
        posterior = np.array([[0.6, 0.1, 0.3], [0.1, 0.6, 0.3]])
        assert structure._confused_with(data, posterior, 2, np.array([True, True, False])) == confused_with


def test_support_is_a_sum_over_its_root():
    assert structure.support_of(np.array([3.0, -1.0, 2.0])) == pytest.approx(4 / np.sqrt(14))
    assert structure.support_of(np.zeros(3)) == 0
    counts = np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 4.0]])
    np.testing.assert_allclose(
        structure.habits(counts), [[3.375 / 5, 1.625 / 5], [0.375, 0.625], [0.375 / 5, 4.625 / 5]]
    )


def test_large_crowds_are_tested_on_a_fraction_of_their_tasks(monkeypatch):
    data = crowd(200, 5, 2, labels_per_task=3, random_state=1).coded()
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, test_work=data.n_labels * 2))
    assert structure.tested_tasks(data, 2) == (data, 1.0)
    some, share = structure.tested_tasks(data, 4)
    assert share == 0.5
    assert 60 < some.n_rows < 140


# --------------------------------------------------------------------- copies


def test_a_copying_worker_agrees_beyond_skill_and_chance(monkeypatch):
    """Expected agreement ½ on 40 common tasks of three pairs; the level is 1e-3 / 3."""
    sizes = np.array([40, 40, 40, 19])
    observed = (np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3]), sizes)
    monkeypatch.setattr(dependence, "expected_agreement", lambda pairs, mixture: np.full(4, 0.5))
    monkeypatch.setattr(dependence, "by_habit", lambda mixture, left, right: np.full(3, 0.5))

    def found(same):
        monkeypatch.setattr(dependence, "agreements", lambda pairs: np.array(same))
        return dependence.find_dependent_pairs(SimpleNamespace(observed=observed), None)

    level = 1e-3 / 3
    assert binom.sf(30, 40, 0.5) > level > binom.sf(31, 40, 0.5)  # 31 agreements or more, 32 or more
    assert len(found([31, 20, 20, 19]).left) == 0
    alike = found([32, 20, 33, 19])  # the last pair has too few tasks
    assert (alike.left.tolist(), alike.right.tolist()) == ([0, 1], [1, 2])
    assert alike.excess == pytest.approx([(32 / 40 - 0.5) / 0.5, (33 / 40 - 0.5) / 0.5])
    assert alike.n_common.tolist() == [40, 40]
    assert not alike.same.any()


def test_a_small_excess_of_agreement_is_reported_when_significant(monkeypatch):
    """Members of a family repeat each other in part only: what counts is how sure it is, not how much."""
    observed = (np.array([0]), np.array([1]), np.array([10_000]))
    monkeypatch.setattr(dependence, "expected_agreement", lambda pairs, mixture: np.full(1, 0.5))
    monkeypatch.setattr(dependence, "by_habit", lambda mixture, left, right: np.full(1, 0.5))
    for same, told in ((5100, False), (5200, True)):
        monkeypatch.setattr(dependence, "agreements", lambda pairs, same=same: np.array([same]))
        assert bool(len(dependence.find_dependent_pairs(SimpleNamespace(observed=observed), None).left)) == told


def test_near_duplicate_pairs_stand_apart_only_from_dissimilar_pairs():
    left, right = np.array([0, 2, 4]), np.array([1, 3, 5])
    sizes = np.array([200, 200, 200])
    for rates, apart in (
        ((196, 150, 140), [True, False, False]),
        ((182, 100, 90), [False] * 3),  # 9 % apart where the next two are half apart: no near-copies
        ((190, 100, 90), [True, False, False]),
        ((200, 190, 150), [True, False, False]),
        ((190, 184, 180), [False] * 3),
        ((200, 200, 200), [False] * 3),
    ):
        found = dependence._apart(left, right, sizes, np.array(rates), np.full(3, 0.4), 1e-3)
        assert found.tolist() == apart, rates


def test_a_pair_with_few_common_tasks_does_not_hide_a_ring():
    """Three colluders and honest workers, two of whom agreed on all of their twenty common tasks."""
    left, right = np.array([0, 0, 1, 3, 4, 5, 7]), np.array([1, 2, 2, 4, 5, 6, 8])
    sizes, same = np.array([500, 500, 500, 20, 300, 300, 300]), np.array([500, 500, 500, 20, 240, 220, 200])
    assert dependence._apart(left, right, sizes, same, np.full(7, 0.5), 1e-4).tolist() == [True] * 3 + [False] * 4
    constant = np.array([1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])  # the first two always give the same label
    assert not dependence._apart(left, right, sizes, same, constant, 1e-4)[0]


def test_good_workers_in_a_crowd_with_a_bad_one_are_not_near_duplicates():
    pairs = np.array([(a, b) for a in range(6) for b in range(a)])
    sizes = np.full(len(pairs), 1000)
    same = np.where((pairs == 5).any(axis=1), 500, 940)  # worker 5 guesses, the others are right on 97 %
    assert not dependence._apart(pairs[:, 1], pairs[:, 0], sizes, same, np.full(len(pairs), 0.5), 1e-4).any()


def test_what_two_workers_agree_on_by_habit():
    confusions = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.9, 0.1], [0.3, 0.7]]])
    mixture = stack_confusions(np.array([0.5, 0.5]), confusions)
    pairs = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert dependence.by_habit(mixture, *pairs) == pytest.approx([1.0, 0.6, 0.36 + 0.16])


def test_every_worker_is_flagged_with_its_strongest_peer():
    def alike(left, right, share, n_common, same=None):
        same = [False] * len(left) if same is None else same
        return dependence.DependentPairs(*map(np.array, (left, right, share, n_common, same)))

    assert alike([0, 0, 1], [1, 2, 3], [0.7, 0.9, 0.7], [30, 20, 50]).peers(5).tolist() == [2, 3, 0, 1, -1]
    assert alike([0, 0], [1, 2], [0.9, 0.9], [30, 20]).peers(3).tolist() == [1, 0, 0]
    # the weaker pair does not take the middle worker over
    assert alike([0, 1], [1, 2], [0.7, 0.9], [30, 30]).peers(3).tolist() == [1, 2, 1]
    near_identical = alike([0, 1], [1, 2], [0.1, 0.9], [30, 30], [True, False])
    assert near_identical.peers(3).tolist() == [1, 0, 1]
    assert near_identical.near_identical() == {0, 1}


def test_pairs_are_counted_while_they_are_affordable(monkeypatch):
    data = labels_of([{0: 0, 1: 1, 2: 0}, {0: 1, 1: 1}], 3)  # 3 + 1 events
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, pair_events=4))
    assert dependence.pairs_within_reach(data) is not None
    assert dependence.pairs_within_reach(data, memory=1) is None
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, pair_events=3))
    assert dependence.pairs_within_reach(data) is None
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, pair_events=100))
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, pair_work=15))  # 4 events of K² = 4 numbers
    assert dependence.pairs_within_reach(data) is not None  # few workers: one product
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, dense_workers=2))
    assert dependence.pairs_within_reach(data) is None
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, pair_work=16))
    assert dependence.pairs_within_reach(data) is not None


def test_agreement_of_many_workers_equals_one_product(monkeypatch):
    data = crowd(40, 6, 3, labels_per_task=3, random_state=2).coded()
    rng = np.random.default_rng(0)
    mixture = stack_confusions(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), (6, 3)))
    pairs = count_label_pairs(data)
    whole = dependence.expected_agreement(pairs, mixture)
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, dense_workers=5))
    monkeypatch.setattr(dependence, "TUNING", replace(dependence.TUNING, numbers_at_once=20))
    np.testing.assert_allclose(dependence.expected_agreement(pairs, mixture), whole)


# -------------------------------------------------------------------- workers


def test_a_worker_with_one_label_only_is_flagged_constant_when_that_is_unlikely():
    """Two thirds of the crowd's labels are right; Π (r + (1 − ā) w) against one in a thousand."""
    chance = lambda n: 0.5**n  # noqa: E731
    for n, constant in ((9, False), (10, True)):  # 1/512 and 1/1024
        block = SimpleNamespace(workers=np.zeros(n, np.int64))
        found = SimpleNamespace(right=np.full(n, 0.4), wrong=np.full(n, 0.4))  # .4 + .25 · .4 = .5

        class Judged(list):
            labels = SimpleNamespace(counts=np.array([[n, 0], [3, 4]]))

        quality = SimpleNamespace(accuracy=np.array([0.5, 1.0]), n_labels=np.array([n, n]))
        assert workers.constant_workers(Judged([(block, found)]), quality).tolist() == [constant, False]
        assert (chance(n) < 1e-3) == constant


def quality_of(low, high, n_labels):
    n = len(low)
    return workers.WorkerQuality(
        np.array(n_labels), np.full(n, 0.5), np.array(low), np.array(high), np.full(n, "", object)
    )


def test_flags_follow_from_the_interval_and_chance_accuracy(monkeypatch):
    """Chance is .5: guessing when the interval holds it and ends before .75, adversarial when it ends before it."""
    quality = quality_of([0.4, 0.4, 0.51, 0.2, 0.5, 0.2, 0.4], [0.74, 0.75, 0.6, 0.49, 0.7, 0.5, 0.6], [10] * 6 + [9])
    monkeypatch.setattr(workers, "chance_accuracy", lambda labels, mixture: np.full(7, 0.5))
    monkeypatch.setattr(workers, "constant_workers", lambda judged, quality: np.zeros(7, bool))
    data = SimpleNamespace(n_workers=7, worker_names=np.array(list("abcdefg")))
    workers._raise_flags(quality, data, None, None, None)
    assert quality.flag.tolist() == ["guessing", "", "", "adversarial", "guessing", "guessing", "few labels"]
    alike = dependence.DependentPairs(*(np.array([value]) for value in (0, 3, 0.9, 30, False)))
    monkeypatch.setattr(workers, "constant_workers", lambda judged, quality: np.arange(7) == 6)
    workers._raise_flags(quality, data, None, None, alike)
    assert [quality.flag[m] for m in (0, 3, 6)] == [
        "agrees with d more than the model explains",
        "agrees with a more than the model explains",
        "constant",
    ]


def test_chance_accuracy_is_that_of_the_same_label_proportions_without_seeing_the_task():
    data = labels_of([{0: 0, 1: 1}, {0: 0, 1: 0}, {0: 1}], 3)
    mixture = Mixture(np.array([0.7, 0.3]), np.full((6, 2), 0.5), np.arange(0, 7, 2, dtype=np.int32))
    found = workers.chance_accuracy(data, mixture)
    np.testing.assert_allclose(found, [(2 * 0.7 + 0.3) / 3, 0.5, 0])


def test_labels_are_judged_in_parts_as_at_once(monkeypatch):
    data = crowd(30, 5, 3, labels_per_task=3, random_state=3).coded()
    rng = np.random.default_rng(0)
    mixture = stack_confusions(rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), (5, 3)))
    own = workers.own_posterior(data, mixture)
    whole = workers.judge_labels(data, mixture, own)
    monkeypatch.setattr(workers, "TUNING", replace(workers.TUNING, numbers_at_once=3 * 7))
    parts = workers.judge_labels(data, mixture, own)
    for name in ("right", "wrong", "decisive"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


# --------------------------------------------------------------------- labels


def sizes_examined(tasks, n_workers, classes=2):
    examiner = Examiner()
    diagnostics._examine_sizes(examiner, labels_of(tasks, n_workers, classes))
    return examiner


def test_fewer_than_three_labels_per_task_or_ten_per_worker_are_reported():
    three = [{0: 0, 1: 1, 2: 0}] * 32
    examiner = sizes_examined([*three, {}], 4)
    assert not examiner.failed
    assert examiner.quantities == {
        "n_tasks": 33, "n_workers": 3, "n_labels": 96, "labels_per_task": 3.0, "labels_per_worker": 32
    }  # fmt: skip
    examiner = sizes_examined([*three[:10], {0: 0}, {0: 0, 1: 1}, {0: 0, 1: 0, 2: 0, 3: 0}], 4)
    assert told(examiner, "A task has 2.8 labels on average")
    assert told(examiner, "; 3 more labels would give every task three")
    assert told(sizes_examined(three[:9], 3), "Half of the labels come from workers who gave 9 or fewer")
    assert not told(sizes_examined(three[:10], 3), "Half of the labels come from workers who gave")
    assert told(sizes_examined([{0: 0, 1: 0, 2: 0}] * 10, 3, classes=1), "Every label is 'c0'")
    assert not told(examiner, "Every label is")


def test_sixteen_tasks_per_class_are_needed():
    three = [{0: 0, 1: 1, 2: 0}] * 32
    assert not told(sizes_examined(three, 3), "too few for 2 classes")
    assert told(sizes_examined(three[:31], 3), "31 labelled tasks are too few for 2 classes: at least 32 are needed")


def test_the_middle_label_is_counted_by_workers():
    assert diagnostics.middle_count(np.array([3, 4, 7])) == 4  # 14 labels: the seventh is the second worker's last
    assert diagnostics.middle_count(np.array([3, 3, 7])) == 7
    assert diagnostics.middle_count(np.zeros(0, np.int64)) == 0


def workers_examined(flags, n_labels, unexplained=0.0):
    examiner = Examiner()
    total = SimpleNamespace(n_labels=sum(n_labels), worker_names=np.array([f"w{m}" for m in range(len(flags))]))
    quality = SimpleNamespace(flag=np.array(flags, object), n_labels=np.array(n_labels))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnostics, "unexplained_agreement", lambda mixture, pairs: unexplained)
        diagnostics._examine_workers(examiner, total, None, quality, unexplained is not None or None)
    return examiner


def test_duplicated_idle_and_unexplained_labels_are_reported():
    assert not workers_examined(["says the same as w1", "", ""], [19, 41, 40]).failed
    found = workers_examined(["says the same as w1", "", "few labels"], [20, 41, 39])
    assert told(found, "1 workers with 20% of the labels say the same as another one")
    beyond = workers_examined(["agrees with w1 more", "agrees with w0 more", ""], [10, 10, 80])
    assert told(beyond, "2 workers with 20% of the labels agree with one another more than the model explains")
    assert found.quantities["flagged_workers"] == {
        "few": 1,
        "guessing": 0,
        "constant": 0,
        "adversarial": 0,
        "says": 1,
        "agrees": 0,
        "overrules": 0,
    }
    assert not workers_examined(["overrules the others", "", ""], [9, 51, 40]).failed
    followed = workers_examined(["overrules the others", "", ""], [10, 50, 40])
    assert told(followed, "On the tasks of workers with 10% of the labels")
    assert found.quantities["flagged_labels"]["few"] == pytest.approx(0.39)
    idle = ["guessing", "constant", "adversarial", ""]
    assert not told(workers_examined(idle, [20, 20, 9, 51]), "who guess")
    assert told(workers_examined(idle, [20, 20, 10, 50]), "50% of the labels come from workers who guess")
    assert not workers_examined([""], [9], unexplained=0.15).failed
    assert told(workers_examined([""], [9], unexplained=0.16), "Workers agree in 16.0% of the cases")
    assert workers_examined([""], [9], unexplained=None).quantities["unexplained_agreement"] is None


@pytest.mark.parametrize(("stated", "passed"), [(0.2, True), (0.21, False)])
def test_an_expected_error_above_one_in_five_is_reported(monkeypatch, stated, passed):
    data = labels_of([{0: 0, 1: 1}, {}, {0: 1}], 2)
    judged = [(data, SimpleNamespace(decisive=np.array([True, True, False])))]
    monkeypatch.setattr(diagnostics, "Judged", lambda labels, mixture: judged)
    errors = ExpectedErrors(2, 0.05, 0.1, 0.2, stated)
    monkeypatch.setattr(diagnostics, "expected_errors", lambda *arguments: errors)
    examiner = Examiner()
    diagnostics._examine_consensus(examiner, data, None, Calibration(), None)
    (check,) = examiner.checks
    assert (check.name, check.value, check.limit, check.passed) == ("expected_error", stated, 0.2, passed)
    assert examiner.quantities["fragile_tasks"] == 0.5
    assert examiner.expected.value == examiner.quantities["expected_error"] == stated
    assert told(examiner, "for 50% of the tasks one label decides") != passed


@pytest.mark.parametrize(("wrong", "passed"), [(0, True), (5, True), (6, False)])
def test_known_answers_that_the_labels_get_wrong_too_often_are_reported(wrong, passed):
    """P(5 or more of 30) is 0.016 at a stated error of 5 %, P(6 or more) 0.003."""
    errors = ExpectedErrors(400, 0.04, 0.05, 0.1, 0.06, n_known=30, n_wrong=wrong, stated_known=0.05)
    examiner = Examiner()
    diagnostics._examine_known_answers(examiner, errors)
    (check,) = examiner.checks
    assert (check.name, check.passed, check.value) == ("known_answers", passed, wrong / 30)
    assert check.p_value == pytest.approx(binom.sf(wrong - 1, 30, 0.05))
    assert check.limit == binom.ppf(0.99, 30, 0.05) / 30
    assert told(examiner, f"get {wrong} of 30 known answers wrong") != passed


def copies_examined(tasks, n_workers, likelihood):
    examiner = Examiner()
    structure.examine_copies(examiner, labels_of(tasks, n_workers), lambda block: np.full(block.n_rows, likelihood))
    return examiner


def test_tasks_that_occur_twice_under_different_names_are_reported():
    rng = np.random.default_rng(0)
    tasks = [dict(enumerate(rng.integers(2, size=12).tolist())) for _ in range(100)]
    assert not copies_examined(tasks, 12, 1e-6).failed
    assert told(copies_examined([*tasks, *tasks], 12, 2.0**-12), "50% of the tasks are duplicates")
    some = copies_examined([*tasks, *tasks[:5]], 12, 1e-6).checks[0]
    assert (some.passed, some.value) == (True, pytest.approx(5 / 105))
    assert told(copies_examined([*tasks, *tasks[:6]], 12, 1e-6), "6% of the tasks are duplicates")
    assert not copies_examined([*tasks, *tasks[:6]], 12, 1e-4).failed  # of 106 tasks one in a hundred has a content


def test_equal_labels_of_three_workers_are_a_coincidence():
    rng = np.random.default_rng(1)
    tasks = [dict(enumerate(rng.integers(2, size=3).tolist())) for _ in range(200)]
    examiner = copies_examined(tasks, 3, 1 / 8)
    assert not examiner.failed
    assert copies_examined([{0: 1}, {1: 0}], 3, 0.5).checks == []  # one label is no crew


@pytest.mark.parametrize(("condition", "passed"), [(2, True), (2_000, False)])
def test_confusion_matrices_that_hardly_differ_are_reported(condition, passed):
    """Two classes whose columns differ by 1 / condition."""
    data = crowd(60, 4, 2, labels_per_task=3, random_state=0).coded()
    near = 0.5 + np.array([[1.0, -1.0], [-1.0, 1.0]]) / (2 * condition)
    examiner = Examiner()
    diagnostics._examine_model(examiner, data, stack_confusions(np.full(2, 0.5), np.tile(near, (4, 1, 1))), None)
    check = next(check for check in examiner.checks if check.name == "distinct_confusions")
    assert check.value == pytest.approx(condition)
    assert check.passed == passed


def test_a_consensus_that_halves_of_the_tasks_change_is_reported(monkeypatch):
    data = crowd(60, 5, 2, labels_per_task=3, random_state=0).coded()
    mixture = stack_confusions(np.full(2, 0.5), np.tile([[0.8, 0.2], [0.2, 0.8]], (5, 1, 1)))
    swapped = stack_confusions(np.full(2, 0.5), np.tile([[0.2, 0.8], [0.8, 0.2]], (5, 1, 1)))
    assert diagnostics.changed_by_halves(data, mixture, (mixture, mixture)) == 0
    assert diagnostics.changed_by_halves(data, mixture, (swapped, swapped)) == 1
    first = diagnostics.in_first_half(data).mean()
    assert diagnostics.changed_by_halves(data, mixture, (swapped, mixture)) == pytest.approx(1 - first)
    for changed, passed in ((0.1, True), (0.11, False)):
        monkeypatch.setattr(diagnostics, "changed_by_halves", lambda *arguments, changed=changed: changed)
        examiner = Examiner()
        diagnostics._examine_model(examiner, data, mixture, None)
        assert next(check for check in examiner.checks if check.name == "stability").passed == passed


def test_unexplained_agreement_is_the_excess_over_what_could_be(monkeypatch):
    pairs = SimpleNamespace(observed=(None, None, np.array([10, 30])))
    monkeypatch.setattr(diagnostics, "expected_agreement", lambda pairs, mixture: np.array([0.5, 0.6]))
    monkeypatch.setattr(diagnostics, "agreements", lambda pairs: np.array([8, 20]))
    assert diagnostics.unexplained_agreement(None, pairs) == pytest.approx((28 - 23) / (40 - 23))
    monkeypatch.setattr(diagnostics, "expected_agreement", lambda pairs, mixture: np.array([1.0, 1.0]))
    assert diagnostics.unexplained_agreement(None, pairs) == 0


def test_confusion_error_is_a_weighted_standard_error():
    data = labels_of([{0: 0, 1: 1}, {0: 1}], 2)
    A = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.2, 0.8]]])  # (worker, true, given)
    w = np.array([0.6, 0.4])
    error = total = 0.0
    for m, n in enumerate((2, 1)):
        for k in range(2):
            error += n * w[k] * np.sqrt(A[m, k, k] * (1 - A[m, k, k]) / (n * w[k] + 1))
            total += n * w[k]
    assert diagnostics.confusion_error(data, stack_confusions(w, A)) == pytest.approx(error / total)


def test_noise_is_half_the_distance_between_halves():
    data = crowd(40, 4, 2, labels_per_task=3, random_state=4).coded()
    rng = np.random.default_rng(0)
    mixture = stack_confusions(np.array([0.6, 0.4]), 0.7 * np.eye(2) + 0.3 * rng.dirichlet(np.ones(2), (4, 2)))
    own = workers.own_posterior(data, mixture)
    first = diagnostics.block_hashes(data, 0) < 2**63
    assert 5 < first.sum() < 35
    factors = []
    for half in (first, ~first):
        table = mixture.table.copy()  # one pseudo-label per true class
        for n in np.flatnonzero(half):
            for at in range(data.offsets[n], data.offsets[n + 1]):
                table[data.workers[at] * 2 + data.given[at]] += own[n]
        for m in range(4):
            table[2 * m : 2 * m + 2] /= table[2 * m : 2 * m + 2].sum(axis=0)
        factors.append(table * np.sqrt(own[half].mean(axis=0)))
    halves = diagnostics.half_mixtures(data, mixture)
    assert diagnostics.split_half_noise(halves) == pytest.approx(np.linalg.norm(factors[0] - factors[1]) / 2)


def test_the_quantities_of_the_model_are_those_of_its_stacked_factor(monkeypatch):
    data = crowd(40, 4, 3, labels_per_task=3, random_state=5).coded()
    rng = np.random.default_rng(0)
    mixture = stack_confusions(np.array([0.5, 0.3, 0.2]), 0.6 * np.eye(3) + 0.4 * rng.dirichlet(np.ones(3), (4, 3)))
    examiner = Examiner()
    diagnostics._examine_model(examiner, data, mixture, None)
    H = mixture.table * np.sqrt(mixture.weights)
    found = examiner.quantities["H"]
    assert (found["rows"], found["rank"]) == (12, 3)
    assert found["condition"] == pytest.approx(np.linalg.cond(H))
    monkeypatch.setattr(diagnostics, "TUNING", replace(diagnostics.TUNING, model_work=12 * 3 * 3))
    diagnostics._examine_model(examiner, data, mixture, None)
    assert examiner.quantities["H"] is not None
    monkeypatch.setattr(diagnostics, "TUNING", replace(diagnostics.TUNING, model_work=12 * 3 * 3 - 1))
    diagnostics._examine_model(examiner, data, mixture, None)
    assert examiner.quantities["H"] is None


# -------------------------------------------------------- geometry and theorems


def test_distances_from_a_cone_in_the_plane_are_sines():
    rows = np.array([[np.cos(a), np.sin(a)] for a in (0.3, 0.7, 1.0)])
    for angle, sine in ((0.1, np.sin(0.2)), (1.3, np.sin(0.3)), (0.5, 0.0), (-1.5, 1.0)):
        found = scatter.distance_to_cone(rows, np.array([np.cos(angle), np.sin(angle)]))
        assert found == pytest.approx(sine, abs=1e-12)


def test_distance_from_a_cone_is_that_of_nonnegative_least_squares():
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(4, 0.6), size=25)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for direction in scatter.boundary_directions(4, rng)[:12]:
        assert scatter.distance_to_cone(rows, direction) == pytest.approx(nnls(rows.T, direction)[1], abs=1e-6)


def test_scatter_of_nothing_and_of_too_much(monkeypatch):
    rng = np.random.default_rng(0)
    assert scatter.check_scatter(np.zeros((5, 3)), rng) == scatter.Scatter(0, 1.0, 0.0, exact=True)
    assert scatter.check_scatter(np.ones((5, 1)), rng) == scatter.Scatter(0, 1.0, 0.0, exact=True)
    assert scatter.check_scatter(np.eye(3), rng).n_directions == 3 + 64
    monkeypatch.setattr(scatter, "SCATTER_WORK", 5 * 3 * 3)
    assert scatter.check_scatter(np.ones((5, 3)), rng) is not None
    assert scatter.check_scatter(np.ones((6, 3)), rng) is None
    assert scatter.rows_for_scatter(3, 1.0) is None
    assert scatter.rows_for_scatter(3, 0.0) is None
    assert scatter.rows_for_scatter(4, 0.5) == pytest.approx(9 / (2 * 0.25) * np.log(12 / 0.05))


def test_theorems_without_pairs_and_of_singular_workers(monkeypatch):
    lonely = count_label_pairs(labels_of([{0: 0}, {1: 1}], 2))
    mixture = stack_confusions(np.array([0.5, 0.5]), np.array([[[0.5, 0.5], [0.5, 0.5]], [[0.9, 0.1], [0.2, 0.8]]]))
    found = theorems.theorem_1(mixture, lonely)
    assert found["gamma"] == pytest.approx(1e15)
    assert found["rho_min"] is None
    assert theorems.theorem_2(lonely, 2) == {"missing_term": None, "sampling_term": None}
    assert theorems.leverages(np.zeros((3, 2))).tolist() == [0, 0, 0]
    once = theorems.leverages(np.array([[1.0, 1.0], [2.0, 2.0]]))  # rank one
    np.testing.assert_allclose(once, [0.2, 0.8])


def test_every_so_many_th_pair_is_decomposed(monkeypatch):
    data = crowd(60, 6, 2, labels_per_task=4, random_state=6).coded()
    pairs = count_label_pairs(data)
    rng = np.random.default_rng(1)
    mixture = stack_confusions(np.array([0.6, 0.4]), 0.5 * np.eye(2) + 0.5 * rng.dirichlet(np.ones(2), (6, 2)))
    left, right, _ = pairs.observed
    A = [mixture.table[2 * m : 2 * m + 2] for m in range(6)]
    values = [
        np.linalg.svd(A[m] @ np.diag(mixture.weights) @ A[j].T, compute_uv=False)[-1]
        for m, j in zip(left, right, strict=True)
    ]
    for work, every in ((8 * len(left), 1), (8 * len(left) - 1, 2), (4 * len(left), 2), (4 * len(left) - 1, 3)):
        monkeypatch.setattr(theorems, "SPECTRUM_WORK", work)
        assert theorems.theorem_1(mixture, pairs)["rho_min"] == pytest.approx(min(values[::every]))


def test_co_annotation_of_the_workers_with_most_labels():
    tasks = [{0: 0, 1: 0}, {0: 0, 1: 1}, {1: 0, 2: 0}, {3: 0, 4: 1}, {0: 1}, {0: 1}, {1: 1}, {3: 0}, {2: 1}, {2: 0}]
    found = structure.co_annotation(labels_of(tasks, 5), 4)
    assert found.n_pairs == 3
    assert found.workers.tolist() == [0, 1, 2, 3]  # worker 4 has one label; parts stay together
    assert found.common.tolist() == [[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert not found.reached[:3, 3].any()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "TUNING", replace(structure.TUNING, most_workers=4))
        by_part = structure.co_annotation(labels_of(tasks, 5), 4).reached
        assert by_part.tolist() == [[m < 3] * 3 + [m == 3] for m in range(4)]
        patch.setattr(structure, "pairs_within_reach", lambda data: None)
        assert structure.co_annotation(labels_of(tasks, 5), 4) is None


# ------------------------------------------------------------------ all workers together


def test_the_limit_over_triples_by_loops_and_by_normal_draws():
    """Six workers, of whom the first two share too few tasks: fourteen pairs, in all twenty triples."""
    rng = np.random.default_rng(0)
    left, right = (ends[1:] for ends in np.triu_indices(6, 1))
    root = rng.normal(size=(14, 9)) / 4  # as in a fit, fewer directions than pairs
    z, covariance = root @ rng.normal(size=9) + 0.3, root @ root.T
    names = list(zip(left, right, strict=True))
    within = np.array([[set(pair) <= set(three) for pair in names] for three in combinations(range(6), 3)], float)
    V = within @ covariance @ within.T
    sizes = np.sqrt(np.diag(V))
    mean = np.trace(V) / 2
    variance = (2 / np.pi * np.outer(sizes, sizes) * V + (5 / 4 - 2 / np.pi) * V**2).sum()
    largest = dependence.PairResidual(0, 1, 2.0, 14)
    found = dependence._tested(z, covariance, left, right, 6, largest)
    assert found.p_value == pytest.approx(gamma.sf(found.value, mean**2 / variance, scale=variance / mean))
    assert found.value == pytest.approx((np.maximum(within @ z, 0) ** 2).sum())
    limit = gamma.isf(dependence.TUNING.joint_false_alarms, mean**2 / variance, scale=variance / mean)
    assert found.limit == pytest.approx(limit)
    drawn = np.square(np.maximum(rng.normal(size=(100_000, 9)) @ root.T @ within.T, 0)).sum(axis=1)
    assert drawn.mean() == pytest.approx(mean, rel=0.03)
    assert drawn.var() == pytest.approx(variance, rel=0.1)
    assert 0.0005 < (drawn > found.limit).mean() < 0.006


def test_workers_who_never_differ_are_under_any_limit():
    left, right = np.triu_indices(4, 1)
    found = dependence._tested(np.zeros(6), np.zeros((6, 6)), left, right, 4, dependence.PairResidual(0, 1, 0.0, 6))
    assert (found.beyond, found.p_value) == (False, 1.0)


def test_a_unanimous_crowd_is_not_dependent():
    """Rounding leaves a little of the variance of agreement; nothing is left to test."""
    data = labels_of([dict.fromkeys(range(5), t % 2) for t in range(60)], 5)
    mixture = stack_confusions(np.full(2, 0.5), np.tile([[0.99, 0.01], [0.01, 0.99]], (5, 1, 1)))
    found = dependence.joint_agreement(data, mixture)
    assert not found.beyond
    assert found.largest.z < found.largest.limit


def test_the_limit_of_a_pair_is_that_of_the_largest_of_all():
    at_limit = dependence.PairResidual(0, 1, dependence.PairResidual(0, 1, 0.0, 15).limit, 15)
    assert at_limit.limit == pytest.approx(norm.isf(0.003 / 15))
    assert at_limit.p_value == pytest.approx(0.003)
    assert dependence.PairResidual(0, 1, 0.0, 15).p_value == 1
