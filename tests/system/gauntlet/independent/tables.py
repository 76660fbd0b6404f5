"""Latent class tables as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from latentfit import LatentClass
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator

FEELINGS = ["never", "seldom", "sometimes", "often", "always"]


def draw_codes(rng: Generator, classes: np.ndarray, profiles: np.ndarray) -> np.ndarray:
    """One answer per row from the profile (class, category) of the row's class."""
    draws = rng.random(len(classes))[:, None] > np.cumsum(profiles, axis=1)[classes][:, :-1]
    return draws.sum(axis=1)


def answers(rng: Generator, classes: np.ndarray, profiles: list[np.ndarray], words: list[list[str]]) -> pd.DataFrame:
    """A table of text, items q1, q2, … independent given the class."""
    columns = {}
    for item, (profile, named) in enumerate(zip(profiles, words, strict=True), start=1):
        columns[f"q{item}"] = np.array(named, dtype=object)[draw_codes(rng, classes, profile)]
    return pd.DataFrame(columns)


def binary(yes: np.ndarray) -> list[np.ndarray]:
    """Profiles of yes/no items from P(yes | class) of shape (class, item); category 1 is yes."""
    return [np.column_stack([1 - column, column]) for column in np.asarray(yes).T]


def blank(rng: Generator, table: pd.DataFrame, share: float) -> pd.DataFrame:
    """Answers lost at random."""
    return table.mask(rng.random(table.shape) < share)


# ---------------------------------------------------------------- sound


SYMPTOMS = np.array(
    [
        [0.06, 0.08, 0.05, 0.10, 0.07, 0.12, 0.05, 0.09, 0.06, 0.08],
        [0.85, 0.78, 0.80, 0.70, 0.82, 0.15, 0.10, 0.20, 0.12, 0.10],
        [0.12, 0.20, 0.10, 0.15, 0.10, 0.84, 0.75, 0.80, 0.70, 0.78],
    ]
)


def symptom_checklist(seed: int) -> LatentClass:
    """Three syndromes on ten symptoms, number of classes not given."""
    rng = np.random.default_rng([seed, 101])
    classes = rng.choice(3, size=3000, p=[0.6, 0.25, 0.15])
    return LatentClass().fit(answers(rng, classes, binary(SYMPTOMS), [["no", "yes"]] * 10))


def routed_health_survey(seed: int) -> LatentClass:
    """Follow-up questions are asked only of those who smoke, or drink; the rest is left blank."""
    rng = np.random.default_rng([seed, 102])
    classes = rng.choice(3, size=3000, p=[0.50, 0.30, 0.20])
    yes = np.array(
        [
            [0.10, 0.60, 0.85, 0.80, 0.10, 0.75],
            [0.85, 0.85, 0.15, 0.75, 0.20, 0.10],
            [0.60, 0.15, 0.30, 0.10, 0.90, 0.65],
        ]
    )
    follow = [
        np.array([[0.80, 0.15, 0.05], [0.15, 0.25, 0.60], [0.50, 0.40, 0.10]]),
        np.array([[0.70, 0.20, 0.10], [0.20, 0.60, 0.20], [0.10, 0.20, 0.70]]),
    ]
    words = [["no", "yes"]] * 6 + [["less than 10", "10 to 20", "over 20"], ["beer", "wine", "spirits"]]
    table = answers(rng, classes, binary(yes) + follow, words)
    table["q7"] = table["q7"].where(table["q1"] == "yes")
    table["q8"] = table["q8"].where(table["q2"] == "yes")
    return LatentClass(3).fit(blank(rng, table, 0.02))


def weighted_poll(seed: int) -> LatentClass:
    """A poll with design weights (one stratum sampled three times as densely) and raking noise."""
    rng = np.random.default_rng([seed, 103])
    classes = rng.choice(3, size=2000, p=[0.5, 0.3, 0.2])
    stratum = rng.random(2000) < np.array([0.2, 0.5, 0.8])[classes]
    profiles = [
        np.array([[0.75, 0.15, 0.10], [0.10, 0.80, 0.10], [0.20, 0.15, 0.65]]),
        np.array([[0.65, 0.20, 0.10, 0.05], [0.10, 0.15, 0.70, 0.05], [0.10, 0.15, 0.15, 0.60]]),
        np.array([[0.80, 0.20], [0.25, 0.75], [0.60, 0.40]]),
        np.array([[0.20, 0.80], [0.30, 0.70], [0.90, 0.10]]),
        np.array([[0.70, 0.20, 0.10], [0.20, 0.70, 0.10], [0.15, 0.15, 0.70]]),
        np.array([[0.15, 0.85], [0.80, 0.20], [0.45, 0.55]]),
        np.array([[0.60, 0.30, 0.10], [0.15, 0.25, 0.60], [0.25, 0.60, 0.15]]),
    ]
    words = [["left", "right", "none"], ["a", "b", "c", "d"], ["yes", "no"], ["yes", "no"]]
    words += [["less", "same", "more"], ["agree", "disagree"], ["often", "rarely", "never"]]
    weight = np.where(stratum, 1.0, 3.0) * rng.lognormal(0.0, 0.25, 2000) * 20_000
    return LatentClass(3).fit(blank(rng, answers(rng, classes, profiles, words), 0.04), sample_weight=weight)


def likert_types(seed: int) -> LatentClass:
    """Five-point items; the types prefer different things, so that no order of the types holds for all items."""
    rng = np.random.default_rng([seed, 104])
    classes = rng.choice(4, size=2500, p=[0.4, 0.3, 0.2, 0.1])
    centre = np.array(
        [
            [3.2, 3.0, 2.8, 1.0, 0.8, 0.9, 2.0, 1.2],
            [0.8, 1.0, 0.9, 3.1, 3.2, 2.9, 1.0, 3.0],
            [2.9, 3.2, 1.0, 3.0, 1.0, 3.2, 3.4, 0.6],
            [0.6, 0.8, 3.3, 0.8, 3.3, 0.7, 0.5, 0.7],
        ]
    )
    profiles = []
    for column in centre.T:
        close = np.exp(-0.5 * ((np.arange(5) - column[:, None]) / 0.8) ** 2)
        profiles.append(close / close.sum(axis=1, keepdims=True))
    return LatentClass(4).fit(answers(rng, classes, profiles, [FEELINGS] * 8))


def tests_without_gold(seed: int) -> LatentClass:
    """Six imperfect diagnostic tests, prevalence 12 %, each patient given four to six of them."""
    rng = np.random.default_rng([seed, 105])
    ill = (rng.random(4000) < 0.12).astype(int)
    found = np.array([[0.03, 0.06, 0.02, 0.08, 0.05, 0.10], [0.92, 0.85, 0.78, 0.90, 0.70, 0.88]])
    table = answers(rng, ill, binary(found), [["negative", "positive"]] * 6)
    return LatentClass(2).fit(blank(rng, table, 0.15))


def panel_dropout(seed: int) -> LatentClass:
    """Missing at random: who was dissatisfied in the first wave answers the second one less often."""
    rng = np.random.default_rng([seed, 106])
    classes = rng.choice(3, size=3000, p=[0.5, 0.35, 0.15])
    yes = np.array(
        [
            [0.85, 0.80, 0.75, 0.20, 0.80, 0.75, 0.70, 0.15],
            [0.25, 0.20, 0.70, 0.75, 0.20, 0.25, 0.75, 0.80],
            [0.15, 0.75, 0.15, 0.30, 0.10, 0.70, 0.10, 0.85],
        ]
    )
    table = answers(rng, classes, binary(yes), [["no", "yes"]] * 8)
    leaves = rng.random(3000) < np.where(table["q1"] == "no", 0.6, 0.1)
    table.loc[leaves, ["q5", "q6", "q7", "q8"]] = None
    return LatentClass(3).fit(table)


def web_log(seed: int) -> LatentClass:
    """100,000 visits, eight yes/no events of very different frequency, two kinds of visitor."""
    rng = np.random.default_rng([seed, 107])
    buys = (rng.random(100_000) < 0.2).astype(int)
    happens = np.array(
        [[0.90, 0.30, 0.05, 0.02, 0.40, 0.10, 0.01, 0.15], [0.60, 0.75, 0.45, 0.30, 0.15, 0.55, 0.2, 0.4]]
    )
    return LatentClass(2).fit(answers(rng, buys, binary(happens), [["no", "yes"]] * 8))


def voters(seed: int) -> LatentClass:
    """Four nominal groups of uneven size, items of three to five categories, 1,500 rows, number not given."""
    rng = np.random.default_rng([seed, 108])
    classes = rng.choice(3, size=1500, p=[0.6, 0.28, 0.12])
    profiles, words = [], []
    for item in range(9):
        size = 3 + item % 3
        base = np.full((3, size), 0.3 / (size - 1))
        # Group g prefers a category of its own in every item, except that two groups share every third item.
        favourite = [0, 1, 1] if item % 3 == 1 else [item % size, (item + 1) % size, (item + 2) % size]
        base[np.arange(3), favourite] = 0.7
        profiles.append(base)
        words.append([f"option {letter}" for letter in "abcde"[:size]])
    return LatentClass().fit(blank(rng, answers(rng, classes, profiles, words), 0.05))


# ---------------------------------------------------------------- unsound


def trait(seed: int, n_rows: int = 2000, n_items: int = 10) -> pd.DataFrame:
    """Right or wrong answers of a school test: one ability, items of different difficulty and discrimination (2PL)."""
    rng = np.random.default_rng([seed, 201])
    ability = rng.normal(size=n_rows)
    slope, difficulty = rng.lognormal(0.4, 0.25, n_items), np.linspace(-1.6, 1.6, n_items)
    right = rng.random((n_rows, n_items)) < 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
    return pd.DataFrame(np.where(right, "right", "wrong"), columns=[f"item {i}" for i in range(n_items)])


def school_test(seed: int) -> LatentClass:
    return LatentClass().fit(trait(seed))


def attitude_scale(seed: int) -> LatentClass:
    """One attitude measured by eight four-point items (graded response); three classes are asked for."""
    rng = np.random.default_rng([seed, 202])
    attitude = rng.normal(size=1800)
    columns = {}
    for item in range(8):
        noise = rng.logistic(size=1800)
        cuts = np.array([-1.8, 0.0, 1.8]) + rng.normal(0, 0.3)
        columns[f"q{item}"] = np.array(["no", "rather no", "rather yes", "yes"], dtype=object)[
            np.searchsorted(cuts, 1.9 * attitude + noise)
        ]
    return LatentClass(3).fit(pd.DataFrame(columns))


def four_tests_three_states(seed: int) -> LatentClass:
    """Four yes/no tests cannot identify three classes (Goodman 1974: rank 13 of 14), of however many patients."""
    rng = np.random.default_rng([seed, 203])
    classes = rng.choice(3, size=5000, p=[0.5, 0.3, 0.2])
    found = np.array([[0.1, 0.2, 0.1, 0.15], [0.85, 0.2, 0.8, 0.3], [0.9, 0.8, 0.3, 0.85]])
    return LatentClass(3).fit(answers(rng, classes, binary(found), [["no", "yes"]] * 4))


def reworded_item(seed: int) -> LatentClass:
    """Two pairs of questions ask the same thing in other words; two true classes, number not given."""
    rng = np.random.default_rng([seed, 204])
    classes = (rng.random(2500) < 0.4).astype(int)
    yes = np.array([[0.2, 0.3, 0.25, 0.35, 0.2, 0.3], [0.75, 0.7, 0.8, 0.75, 0.65, 0.7]])
    table = answers(rng, classes, binary(yes), [["no", "yes"]] * 6)
    for source in ("q1", "q4"):
        again = rng.random(2500) < 0.65
        fresh = np.where(rng.random(2500) < np.array([0.25, 0.7])[classes], "yes", "no")
        table[f"{source} again"] = table[source].where(again, fresh)
    return LatentClass().fit(table)


def unrelated_items(seed: int) -> LatentClass:
    """Items that have nothing to do with one another, three classes asked for."""
    rng = np.random.default_rng([seed, 205])
    columns = {f"q{i}": rng.choice(["a", "b", "c"], size=1500, p=[0.5, 0.3, 0.2]) for i in range(8)}
    return LatentClass(3).fit(pd.DataFrame(columns))


def unrelated_items_unasked(seed: int) -> LatentClass:
    """The same without a number: whatever is returned, there are no types."""
    rng = np.random.default_rng([seed, 206])
    columns = {f"q{i}": np.where(rng.random(2000) < 0.1 + 0.08 * i, "yes", "no") for i in range(9)}
    return LatentClass().fit(pd.DataFrame(columns))


def merged_three_times(seed: int) -> LatentClass:
    """A join repeated every respondent three times: 900 rows, 300 people, 14 items of four categories."""
    rng = np.random.default_rng([seed, 207])
    classes = rng.choice(2, size=300, p=[0.6, 0.4])
    profiles = [rng.dirichlet(np.full(4, 3.0), size=2) for _ in range(14)]
    people = answers(rng, classes, profiles, [["a", "b", "c", "d"]] * 14)
    return LatentClass(2).fit(people.loc[np.repeat(np.arange(300), 3)].sample(frac=1, random_state=seed))


def forty_people(seed: int) -> LatentClass:
    """Forty people, twelve items of four weakly related categories, three classes: more parameters than people."""
    rng = np.random.default_rng([seed, 208])
    classes = rng.choice(3, size=40, p=[0.5, 0.3, 0.2])
    profiles = [rng.dirichlet(np.full(4, 4.0), size=3) for _ in range(12)]
    return LatentClass(3).fit(answers(rng, classes, profiles, [["a", "b", "c", "d"]] * 12))


def rare_type(seed: int) -> LatentClass:
    """Two true types of 60 and 40 % and one of 0.6 % that hardly differs: some five people of 800."""
    rng = np.random.default_rng([seed, 209])
    classes = rng.choice(3, size=800, p=[0.6, 0.394, 0.006])
    yes = np.array([[0.2] * 4 + [0.8] * 3, [0.75] * 4 + [0.3] * 3, [0.75] * 2 + [0.5] * 3 + [0.3] * 2])
    return LatentClass(3).fit(answers(rng, classes, binary(yes), [["no", "yes"]] * 7))


def reversed_coding(seed: int) -> LatentClass:
    """The second fieldwork institute coded five of eight items the other way round; two classes are asked for."""
    rng = np.random.default_rng([seed, 210])
    classes = (rng.random(2000) < 0.35).astype(int)
    yes = np.array([[0.2, 0.3, 0.15, 0.6, 0.25, 0.7, 0.3, 0.2], [0.7, 0.8, 0.6, 0.2, 0.75, 0.25, 0.7, 0.65]])
    table = answers(rng, classes, binary(yes), [["no", "yes"]] * 8)
    swap = {"no": "yes", "yes": "no"}
    table.loc[1000:, ["q2", "q3", "q5", "q7", "q8"]] = table.loc[1000:, ["q2", "q3", "q5", "q7", "q8"]].replace(swap)
    return LatentClass(2).fit(table)


def repeated_interviews(seed: int) -> LatentClass:
    """Every person was interviewed four times and mostly said the same; the rows are not independent."""
    rng = np.random.default_rng([seed, 211])
    classes = rng.choice(2, size=250, p=[0.55, 0.45])
    profiles = [rng.dirichlet(np.full(3, 1.5), size=2) for _ in range(12)]
    words = [["low", "middle", "high"]] * 12
    person = answers(rng, classes, profiles, words)
    waves = []
    for _ in range(4):
        again = rng.random(person.shape) < 0.85
        waves.append(person.where(again, answers(rng, classes, profiles, words)))
    return LatentClass(2).fit(pd.concat(waves).sort_index(kind="stable").reset_index(drop=True))


def factorial_design(seed: int) -> LatentClass:
    """Every combination of the attributes of a car exactly once: a design, not a population with types."""
    cars = pd.read_csv(data_folder() / "tables" / "car.csv").drop(columns="class")
    return LatentClass(2, random_state=seed).fit(cars.sample(frac=1, random_state=seed))


def too_many_types(seed: int) -> LatentClass:
    """Two types, six asked for: four of the classes describe noise, other ones in every sample."""
    rng = np.random.default_rng([seed, 212])
    classes = (rng.random(1200) < 0.45).astype(int)
    yes = np.array([[0.15, 0.2, 0.3, 0.25, 0.7, 0.8, 0.6, 0.2], [0.8, 0.7, 0.75, 0.8, 0.2, 0.3, 0.2, 0.65]])
    return LatentClass(6).fit(answers(rng, classes, binary(yes), [["no", "yes"]] * 8))


PAIRS = "pair|depend|residual|associat|same thing|fit|copies|duplicate"
NOTHING = r"no structure|no class|one class|single class|fewer|independen|chance|merge|not improve|spurious|K = 1|noise"
TRAIT = "trait|one.dimension|item.response|continu|order"
REPEATED = "duplic|identical|copies|repeat|equal rows|same row"
UNSTABLE = "stab|resampl|agree|too many|initiali"
SMALL = "few|small|rare|sample size|not enough|too little|rests on|parameters|overlap|told apart"

SCENARIOS: list[Scenario] = [
    # Three well separated syndromes, 3,000 patients: the planted profiles come back.
    Scenario("symptom checklist, number not given", symptom_checklist),
    # Blank because of the routing is missing at random: the gate questions are in the model.
    Scenario("routed follow-up questions", routed_health_survey),
    # Design weights change estimates; Kish's effective number is still over 1,500.
    Scenario("poll with design weights", weighted_poll),
    # Types cross over between items, so a single trait is no rival.
    Scenario("five-point items, four crossing types", likert_types),
    # Six tests identify two classes (Hui and Walter need three), 480 ill patients.
    Scenario("diagnostic tests without gold standard", tests_without_gold),
    # Missingness depends on an answer that is in the table.
    Scenario("panel dropout after a dissatisfied first wave", panel_dropout),
    # Round number of rows, separated classes; nothing is special about 100,000.
    Scenario("100,000 visits, two kinds of visitor", web_log),
    # Nominal types of 60, 28 and 12 %, nine items: recovered within sampling error.
    Scenario("voter types, number not given", voters),
    # One ability makes classes that are slices of a continuum.
    Scenario("school test (2PL), number not given", school_test, WARNED, TRAIT),
    # Graded responses to one attitude: ordered classes again.
    Scenario("attitude scale (graded response)", attitude_scale, WARNED, TRAIT),
    # Many parameter sets give exactly the same table.
    Scenario("four tests, three states", four_tests_three_states, WARNED[1:], "identif|rank|unique|Jacobian"),
    # Local dependence is read as more types.
    Scenario("two questions asked twice in other words", reworded_item, WARNED, PAIRS),
    # Any three classes are noise.
    Scenario("unrelated items, three types asked for", unrelated_items, WARNED, NOTHING),
    # There is nothing to report.
    Scenario("unrelated items, number not given", unrelated_items_unasked, WARNED, NOTHING + "|nothing|found no"),
    # Standard errors are too small by the root of three.
    Scenario("every respondent three times", merged_three_times, WARNED, REPEATED),
    # 110 parameters from 40 people.
    Scenario("forty people, twelve items", forty_people, WARNED, SMALL + "|" + NOTHING),
    # The third type cannot be described from five people.
    Scenario("a type of 0.6 % among 800", rare_type, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}"),
    # The classes are the two institutes.
    Scenario("second half coded in reverse", reversed_coding, WARNED, PAIRS + "|half|halves|drift|more classes"),
    # 250 people are taken for 1,000.
    Scenario("four interviews per person", repeated_interviews, WARNED, REPEATED + "|alike|neighbo|not independent"),
    # The classes of a six-class fit to two types differ from sample to sample.
    Scenario("two types, six asked for", too_many_types, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}|identif"),
]

if (folder := data_folder()) is not None and (folder / "tables" / "car.csv").is_file():
    # All attributes are independent by design.
    SCENARIOS.append(Scenario("full factorial design (car.csv)", factorial_design, WARNED, NOTHING + "|duplic|design"))
