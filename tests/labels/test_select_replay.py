"""Labels bought by the plan: the errors promised for real crowds, and what the parts of the plan are for."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.errors import DataError
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import from_long
from latentfit.labels.plot import mean_errors, plot_simulation
from latentfit.labels.select import simulate_plan
from latentfit.labels.select.information import committee_posterior
from latentfit.labels.select.replay import _first_labels, _refit
from latentfit.simulate import crowd

DONE = crowd(150, 20, 2, labels_per_task=10, skill=(0.5, 0.95), random_state=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most", "random"), [("rte", 8.2, 12.4), ("dog52", 17.6, 21.1), ("bluebird", 11.2, 13.2)]
)
def test_planned_labels_beat_random_ones_at_two_fifths_of_the_labels(crowd_data, name, most, random):
    """Mean error at 40 % of the labels, five seeds, two random labels a task to begin with."""
    labels, truth = crowd_data(name)
    rows = mean_errors(simulate_plan(labels, truth, proportions=(0.4,)))
    errors = {row["policy"]: 100 * row["error"] for row in rows}
    assert errors["plan"] <= most
    assert errors["plan"] + 1 <= errors["random"]
    assert abs(errors["random"] - random) < 2.5  # the other side of the comparison is not made weak


def test_plan_beats_random_choice_on_a_simulated_crowd():
    rows = mean_errors(simulate_plan(DONE.labels, DONE.truth, seeds=4, proportions=(0.5,)))
    errors = {row["policy"]: row["error"] for row in rows}
    assert errors["plan"] < errors["random"]


def test_replay_is_reproducible_and_counts_labels():
    once, again = (simulate_plan(DONE.labels, DONE.truth, seeds=2, proportions=(0.3, 0.5)) for _ in range(2))
    assert once.equals(again)
    assert once.column_names == ["policy", "seed", "labels", "share", "error"]
    assert once["labels"].to_pylist() == [450, 750] * 4
    assert once["policy"].to_pylist() == ["plan"] * 4 + ["random"] * 4


def test_all_labels_bought_is_the_same_fit_whatever_the_policy_began_with():
    frame = simulate_plan(DONE.labels, DONE.truth, seeds=1, proportions=(1.0,), step=2.0).to_pylist()
    assert frame[0]["labels"] == DONE.labels.num_rows
    assert abs(frame[0]["error"] - frame[1]["error"]) < 0.03


def test_a_replay_begins_with_random_labels_of_every_task():
    data = DONE.coded()
    bought = _first_labels(data, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(data.task_of()[bought], minlength=150), 2)
    assert (bought != _first_labels(data, 2, np.random.default_rng(1))).any()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policies": ("greedy",)}, "policies must be 'plan', 'random' or both"),
        ({"proportions": (1.5,)}, r"proportions must be numbers in \(0, 1\]"),
        ({"seeds": 0}, "first, step and seeds must be > 0"),
        ({"proportions": (0.1,)}, "already 20% of this crowd"),
        ({"truth": {999: 1}}, "no task of the truth occurs"),
        ({"truth": None}, "needs the truth"),
    ],
)
def test_impossible_replays_raise_clear_errors(change, says):
    arguments = {"labels": DONE.labels, "truth": DONE.truth, **change}
    with pytest.raises(DataError, match=says):
        simulate_plan(arguments.pop("labels"), arguments.pop("truth"), **arguments)


@pytest.mark.parametrize("gap", [None, np.nan])
def test_a_missing_truth_is_not_scored(gap):
    known = dict(zip(*(DONE.truth[name].to_pylist() for name in ("task", "label")), strict=True))
    some = {task: label if task < 75 else gap for task, label in known.items()}
    kept = {"seeds": 1, "proportions": (0.4,)}
    fewer = simulate_plan(DONE.labels, {task: label for task, label in known.items() if task < 75}, **kept)
    assert simulate_plan(DONE.labels, some, **kept).equals(fewer)
    unsaid = {task: label if task < 75 else 7 for task, label in known.items()}
    errors = simulate_plan(DONE.labels, unsaid, **kept)["error"].to_pylist()
    wanted = [(1 + error) / 2 for error in fewer["error"].to_pylist()]  # an answer that nobody gave is asked
    assert errors == pytest.approx(wanted)
    with pytest.raises(DataError, match="no task of the truth occurs"):
        simulate_plan(DONE.labels, dict.fromkeys(known, gap))


def test_committee_knows_better_than_one_fit():
    """With four labels a task the committee's beliefs are nearer to the truth than the model's own."""
    better = []
    for seed in range(8):
        made = crowd(200, 40, 2, labels_per_task=4, skill=(0.5, 0.9), random_state=seed)
        data = made.coded()
        mixture, _ = _refit(data, None, 1)
        alone, together = posterior_of(MemoryEngine(data, 1), mixture)[0], committee_posterior(data, mixture, n_jobs=1)
        loss = [-np.log(beliefs[np.arange(200), made.answers]).mean() for beliefs in (alone, together)]
        better.append(loss[0] - loss[1])
    assert np.mean(better) > 0.02


def test_known_answers_do_not_leak_into_the_replay():
    columns = [DONE.labels[name] for name in ("task", "worker", "label")]
    gold = (DONE.truth["task"], DONE.truth["label"])
    told, untold = from_long(*columns, gold=gold), from_long(*columns)
    kept = {"seeds": 1, "proportions": (0.4,)}
    assert simulate_plan(told, DONE.truth, **kept).equals(simulate_plan(untold, DONE.truth, **kept))


def test_picture_shows_both_policies():
    pytest.importorskip("matplotlib")
    frame = simulate_plan(DONE.labels, DONE.truth, seeds=2, proportions=(0.3, 0.5))
    ax = plot_simulation(frame)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["plan", "random"]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [450, 750])
    with pytest.raises(DataError, match="give what simulate_plan returns"):
        plot_simulation(DONE.labels)
