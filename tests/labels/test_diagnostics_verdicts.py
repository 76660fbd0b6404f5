"""Of 200 crowds that do not determine the answer at least 99 % are not trusted; of 200 sound ones at most 1 %.

An adversarial majority is left out: renaming the classes turns it into an honest one, so no data can show it.
`python tests/labels/test_diagnostics_verdicts.py 200` prints both rates.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import latentfit
from latentfit.core.verdict import FitReport
from latentfit.labels.data import Labels
from latentfit.simulate import crowd, specialist_crowd
from tests.labels.simulated_crowds import BROKEN, broken, sound
from tests.system.gauntlet.labels import SCENARIOS


def report_of(labels: Labels) -> FitReport:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the verdict is looked at, not the warning that carries it
        return latentfit.DawidSkene(random_state=0, n_jobs=1).fit(labels).report_


def broken_verdicts(n_crowds: int) -> Counter[tuple[str, str]]:
    named = (broken(seed) for seed in range(n_crowds))
    return Counter((name, report_of(labels).verdict) for name, labels in named)


def sound_verdicts(n_crowds: int) -> Counter[str]:
    return Counter(report_of(sound(seed).coded()).verdict for seed in range(n_crowds))


def trusted_share(verdicts: Counter[tuple[str, str]]) -> float:
    return sum(count for (_, verdict), count in verdicts.items() if verdict == "ok") / verdicts.total()


def test_few_broken_and_sound_crowds():
    assert trusted_share(broken_verdicts(2 * len(BROKEN))) == 0
    assert sound_verdicts(12) == {"ok": 12}


@pytest.mark.slow
def test_broken_crowds_are_not_trusted():
    verdicts = broken_verdicts(200)
    assert trusted_share(verdicts) <= 0.01, verdicts


@pytest.mark.slow
def test_sound_crowds_are_trusted():
    verdicts = sound_verdicts(200)
    assert verdicts["ok"] / verdicts.total() >= 0.99, verdicts


@pytest.mark.parametrize(
    ("make", "verdict", "words"),
    [
        ("one_label_a_task", "not identifiable", "No task has labels of two workers"),
        ("two_workers", "not identifiable", "Only 2 workers share tasks"),
        ("two_sides", "not identifiable", "no odd cycle"),
        ("parts", "caution", "parts that share no task"),
        ("guessers", "not identifiable", "do not agree more than their label frequencies make them"),
        ("reference_classes", "caution", "show that some classes differ ("),
        ("passers_by", None, "workers who gave 2 or fewer"),
        ("copied", "caution", "say the same as another one"),
    ],
)
def test_the_reason_names_what_is_wrong(make: str, verdict: str | None, words: str):
    build = next(function for function in BROKEN if function.__name__ == make)
    report = report_of(build(np.random.default_rng(7)))
    assert verdict is None or report.verdict == verdict
    assert any(words in reason for reason in report.reasons), report.reasons
    assert all(reason.endswith(".") for reason in report.reasons)


def two_workers_and_answers(known: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labels of workers who are right with .95 and .6 about 200 tasks, and the answers of some of these."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 200)
    right = rng.random((200, 2)) < (0.95, 0.6)
    given = np.where(right, truth[:, None], 1 - truth[:, None])
    tasks, workers = np.repeat(np.arange(200), 2), np.tile(["good", "poor"], 200)
    votes = pd.DataFrame({"task": tasks, "worker": workers, "label": given.ravel()})
    return votes, pd.DataFrame({"task": np.arange(known), "label": truth[:known]})


@pytest.mark.parametrize(("known", "doubted"), [(150, False), (20, False), (19, True), (0, True)])
def test_known_answers_identify_two_workers(known: int, doubted: bool):
    votes, answers = two_workers_and_answers(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if doubted else "error", latentfit.core.errors.IdentifiabilityWarning)
        report = latentfit.DawidSkene().fit(votes, gold=answers if known else None).report_
    assert (report.verdict == "not identifiable") == doubted
    assert any("nothing says who is right" in reason for reason in report.reasons) == doubted
    assert doubted or not any("gold" in reason for reason in report.reasons)


def test_parts_with_known_answers_name_their_classes_alike():
    """The same workers twice under other names and tasks: nothing joins the two parts but the answers."""
    votes, answers = two_workers_and_answers(60)
    other = votes.assign(task=votes["task"] + 1000, worker="other " + votes["worker"])
    both = pd.concat([votes, other]), pd.concat([answers, answers.assign(task=answers["task"] + 1000)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", latentfit.core.errors.IdentifiabilityWarning)
        reports = [latentfit.DawidSkene().fit(both[0], gold=gold).report_ for gold in (both[1], both[1].iloc[:60])]
    told = [" ".join(report.reasons) for report in reports]
    assert ["parts that share no task" in one for one in told] == [False, True]


def test_a_class_that_hardly_occurs_is_named():
    data = crowd(500, 20, 3, labels_per_task=6, prior=np.array([0.5, 0.499, 0.001]), random_state=0)
    reasons = report_of(data.coded()).reasons
    assert any("too rare to verify (2;" in reason for reason in reasons), reasons


def test_a_crowd_led_by_one_specialist_is_not_trusted_blindly():
    report = report_of(specialist_crowd(1_000, random_state=0).coded())
    assert report.verdict == "caution"


def test_an_unfinished_fit_is_reported():
    data = crowd(300, 20, 3, labels_per_task=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = latentfit.DawidSkene(max_iter=1, tol=1e-12).fit(data.labels).report_
    assert report.verdict == "caution"
    assert "EM stopped" in " ".join(report.reasons)


def test_all_quantities_are_reported():
    found = report_of(crowd(300, 20, 3, labels_per_task=6, random_state=0).coded()).quantities
    assert found["missing_blocks"] > found["missing_blocks_imputed"]
    for name in ("theorem_1_constant_1", "theorem_2_constant_1", "theorem_3_constant_1", "lemma_8", "H"):
        assert all(value is not None for value in found[name].values()), name
    assert found["H"]["rank"] == 3
    assert found["scattered_necessary_test"]["n_directions"] > 3


YES_OR_NO = {"shared_tasks", "converged"}
"""Checks without a number."""
ADVICE = r"\b(ask|add|buy|bring|check|give|merge|raise|remove|keep|let|explain|label|make)\b"


def test_every_check_says_its_number_its_limit_and_what_to_do():
    """The unsound situations of the gauntlet, drawn once."""
    failed = {}
    for scenario in SCENARIOS:
        if not scenario.sound:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checks = scenario.make(0).report_.checks
            assert len({check.name for check in checks}) == len(checks)
            failed |= {check.name: check for check in checks if not check.passed}
    assert len(failed) >= 15, sorted(failed)
    for name, check in failed.items():
        assert check.reason.endswith("."), name
        assert re.search(ADVICE, check.reason), check.reason
        if name not in YES_OR_NO:
            assert None not in (check.value, check.limit), name
            assert re.search(r"\d.*\b(limit|needed|fewer than)\b|\b(limit|needed)\b.*\d", check.reason), check.reason


def test_sound_fits_record_every_check_with_value_and_limit():
    checks = report_of(crowd(400, 15, 3, labels_per_task=6, random_state=0).coded()).checks
    assert all(check.passed and check.reason == "" for check in checks), checks
    names = {check.name for check in checks}
    assert {
        "sample_size", "several_classes", "labels_per_task", "labels_per_worker", "shared_tasks", "three_workers",
        "odd_cycles", "connected", "common_cause", "distinct_classes", "rare_classes", "duplicate_workers",
        "dependent_workers", "joint_agreement", "largest_pair_residual", "overruling_workers", "unexplained_agreement",
        "idle_workers", "expected_error", "copied_tasks", "group_agreement", "distinct_confusions", "stability",
        "converged",
    } == names  # fmt: skip
    assert all(
        check.p_value is not None for check in checks if check.name in ("joint_agreement", "largest_pair_residual")
    )


if __name__ == "__main__":
    print(dict(broken_verdicts(int(sys.argv[1]))))
    print(dict(sound_verdicts(int(sys.argv[1]))))
