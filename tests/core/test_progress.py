"""Progress is told where work is long, and nothing that is computed depends on who listens."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from latentfit import (
    Admixture,
    BernoulliMixture,
    CategoricalHMM,
    DawidSkene,
    LatentClass,
    LatentClassClassifier,
    MixtureFractions,
    TopicModel,
)
from latentfit.cli.progress_bar import Bars, amount, clock, speed, times
from latentfit.core.progress import MAX_PREDICTED, Stage, candidate_numbers, counted, iterations_left, stage, watched_by
from latentfit.labels.select import simulate_plan
from latentfit.simulate import crowd


class Heard:
    def __init__(self):
        self.what, self.details, self.open = [], [], 0

    def opened(self, one):
        self.what.append(one.what)
        self.open += 1

    def moved(self, one):
        self.details.append(one.detail)

    def closed(self, one):
        self.open -= 1


RNG = np.random.default_rng(0)
YES = (RNG.random((120, 8)) < np.where(RNG.integers(0, 2, (120, 1)), 0.85, 0.15)).astype(int)
WALKS = {
    "clusters": lambda: BernoulliMixture().fit(YES).frequencies_,
    "classes": lambda: LatentClass().fit(YES).weights_,
    "classes per label": lambda: LatentClassClassifier().fit(YES[:, 1:], YES[:, 0]).predict_proba(YES[:, 1:]),
    "populations": lambda: Admixture().fit(YES[:40] + YES[40:80]).ancestry_,
    "parts": lambda: MixtureFractions().fit(np.random.default_rng(1).random((12, 9))).fractions_,
    "states": lambda: CategoricalHMM().fit([list(row) for row in YES]).transitions_,
}


@pytest.mark.parametrize("things", WALKS)
def test_a_fit_says_which_number_it_tries_and_is_the_same_fit(things):
    alone = WALKS[things]()
    heard = Heard()
    with watched_by(heard):
        watched = WALKS[things]()
    assert np.array_equal(alone, watched)
    assert heard.open == 0
    assert f"how many {things}" in heard.what
    assert any(detail.startswith(f"2 {things}") for detail in heard.details)
    if things != "populations":  # so few people are fitted by least squares, without EM
        assert any("iteration" in detail and "gain" in detail for detail in heard.details)


def test_topics_and_replays_tell_their_stages():
    heard = Heard()
    done = crowd(40, 8, 2, labels_per_task=6, random_state=0)
    with watched_by(heard):
        TopicModel(2).fit(YES)
        simulate_plan(done.labels, done.truth, seeds=1, proportions=(0.5, 0.7))
    assert {"data", "number", "factor", "refine", "replaying"} <= set(heard.what)
    assert "plan, replay 1" in heard.details


def test_a_walk_that_is_left_early_is_closed():
    heard = Heard()
    with watched_by(heard), stage("outer"):
        for number in candidate_numbers([1, 2, 3], "things"):
            if number == 2:
                break
        assert heard.open == 1
        assert list(counted("ab", "letters", 2, "letters")) == ["a", "b"]
    assert heard.open == 0
    assert heard.details[:2] == ["1 things", "2 things"]


def test_passes_are_foretold_from_falling_gains():
    assert iterations_left(1e-4, 1e-3, 2e-6) == 2
    assert iterations_left(1e-7, 1e-3, 1e-6) == 0
    assert iterations_left(1e-4, 1e-4, 1e-6) == MAX_PREDICTED
    assert iterations_left(1e-4, 1e-3, 0.0) == MAX_PREDICTED


def test_the_line_tells_amount_speed_and_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("latentfit.core.progress.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bars = Bars(console)
    with watched_by(bars), stage("reading"), stage("rows of a file", 4_000, "rows") as told:
        assert str(bars.line()) == ""  # too early to say anything
        now[0] += 10.0
        told.at(1_000, "half way soon")
        assert (amount(told), speed(told), times(told)) == ("1,000/4,000 rows", "100/s", "0:10, 0:30 left")
        console.print(bars.line())
        shown = console.file.getvalue()
        assert all(words in shown for words in ("reading · rows of a file", "1,000/4,000 rows", "0:30 left"))
    assert bars.open == []
    assert clock(3_725) == "1:02:05"
    assert times(Stage("no end", begin=now[0] - 5)) == "0:05"
    assert speed(Stage("slow", None, "fits", 1, begin=now[0] - 5)) == "0.2/s"


def test_verbose_prints_a_line_a_stage_and_with_two_a_line_a_pass(capsys):
    labels = crowd(60, 8, 2, labels_per_task=4, random_state=0).labels
    DawidSkene(verbose=1).fit(labels)
    one = capsys.readouterr()
    DawidSkene(verbose=2).fit(labels)
    two = capsys.readouterr()
    assert one.out == two.out == ""
    assert [line.partition(":")[0] for line in one.err.splitlines()] == ["data", "moments", "factor", "refine"]
    assert "iterations" in one.err
    assert "objective" not in one.err
    assert "EM 1: objective" in two.err
    LatentClass(verbose=1).fit(YES)
    said = capsys.readouterr().err.splitlines()
    assert "how many classes: 2 classes" in said
