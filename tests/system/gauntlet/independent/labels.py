"""Crowds and judges as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from latentfit import DawidSkene
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator


def confusions(rng: Generator, accuracies: Sequence[float] | np.ndarray, n_classes: int) -> np.ndarray:
    """Confusion matrices (worker, true, given) of these mean accuracies; errors have favourites, classes differ."""
    made = np.zeros((len(accuracies), n_classes, n_classes))
    for worker, accuracy in enumerate(accuracies):
        right = np.clip(accuracy + rng.normal(0, 0.04, n_classes), 0.02, 0.98)
        for true in range(n_classes):
            others = np.arange(n_classes) != true
            made[worker, true, others] = (1 - right[true]) * rng.dirichlet(np.full(n_classes - 1, 3.0))
            made[worker, true, true] = right[true]
    return made


def votes_of(rng: Generator, truth: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """What every worker would answer to every task, shape (task, worker), independent given the truth."""
    cumulated = np.cumsum(confusion, axis=2)[:, truth, :-1]
    return (rng.random((len(confusion), len(truth), 1)) > cumulated).sum(axis=2).T


def some(rng: Generator, n_tasks: int, per_task: int, activity: np.ndarray) -> np.ndarray:
    """Which worker answers which task: so many per task, drawn without replacement by the activity of the workers."""
    keys = rng.exponential(size=(n_tasks, len(activity))) / activity
    asked = np.zeros(keys.shape, dtype=bool)
    np.put_along_axis(asked, np.argpartition(keys, per_task - 1, axis=1)[:, :per_task], True, axis=1)
    return asked


def long_frame(rng: Generator, votes: np.ndarray, asked: np.ndarray, words: Sequence[str]) -> pd.DataFrame:
    """The votes that were given, one per line in random order, with text ids."""
    task, worker = np.nonzero(asked)
    frame = pd.DataFrame({
        "task": [f"task-{i:05d}" for i in task],
        "worker": [f"w{i:03d}" for i in worker],
        "label": np.array(words, dtype=object)[votes[task, worker]],
    })  # fmt: skip
    return frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)


def everyone(votes: np.ndarray) -> np.ndarray:
    """All workers answer all tasks."""
    return np.ones(votes.shape, dtype=bool)


SENTIMENT = ["negative", "neutral", "positive"]
YES_NO = ["no", "yes"]
ANIMALS = ["cat", "dog", "fox", "wolf"]


# ---------------------------------------------------------------- sound


def sentiment_crowd(seed: int) -> DawidSkene:
    """1,500 tweets, 60 workers, seven labels each; a tenth of the workers guess."""
    rng = np.random.default_rng([seed, 301])
    truth = rng.choice(3, size=1500, p=[0.25, 0.5, 0.25])
    votes = votes_of(rng, truth, confusions(rng, np.r_[rng.beta(16, 5, 54), np.full(6, 0.34)], 3))
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 1500, 7, rng.lognormal(0, 0.4, 60)), SENTIMENT))


def eight_judges(seed: int) -> DawidSkene:
    """Eight language models of different makers judge 800 answers, independently given the truth."""
    rng = np.random.default_rng([seed, 302])
    truth = rng.choice(3, size=800, p=[0.5, 0.3, 0.2])
    votes = votes_of(rng, truth, confusions(rng, [0.9, 0.86, 0.84, 0.8, 0.78, 0.75, 0.72, 0.65], 3))
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), ["worse", "same", "better"]))


def five_radiologists(seed: int) -> DawidSkene:
    """Five readers, 2,500 images, one in eight shows a nodule; a tenth of the readings is missing."""
    rng = np.random.default_rng([seed, 303])
    truth = (rng.random(2500) < 0.125).astype(int)
    seen = np.column_stack([rng.uniform(0.90, 0.97, 5), rng.uniform(0.82, 0.93, 5)])
    confusion = np.stack([np.stack([seen[:, 0], 1 - seen[:, 0]], 1), np.stack([1 - seen[:, 1], seen[:, 1]], 1)], 1)
    votes = votes_of(rng, truth, confusion)
    return DawidSkene().fit(long_frame(rng, votes, rng.random(votes.shape) < 0.9, YES_NO))


def wide_matrix(seed: int) -> DawidSkene:
    """A wide numeric matrix, 14 workers, four classes, 40 % missing at random."""
    rng = np.random.default_rng([seed, 304])
    truth = rng.choice(4, size=1200, p=[0.4, 0.3, 0.2, 0.1])
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.6, 0.85, 14), 4))
    return DawidSkene().fit(np.where(rng.random(votes.shape) < 0.6, votes.astype(float), np.nan))


def right_gold(seed: int) -> DawidSkene:
    """A crowd with 60 known answers that are right."""
    rng = np.random.default_rng([seed, 305])
    truth = rng.choice(3, size=1000, p=[0.45, 0.35, 0.2])
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.6, 0.88, 30), 3))
    known = rng.choice(1000, size=60, replace=False)
    gold = {f"task-{i:05d}": SENTIMENT[truth[i]] for i in known}
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 1000, 7, np.ones(30)), SENTIMENT), gold=gold)


def asked_again_on_disagreement(seed: int) -> DawidSkene:
    """Four labels per task, and four more where the first four were not unanimous: missing at random by design."""
    rng = np.random.default_rng([seed, 306])
    truth = (rng.random(2000) < 0.3).astype(int)
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.72, 0.92, 40), 2))
    asked = some(rng, 2000, 4, np.ones(40))
    first = votes[asked].reshape(2000, 4).mean(axis=1)
    open_tasks = np.flatnonzero((first > 0) & (first < 1))
    asked[open_tasks] |= some(rng, len(open_tasks), 6, np.ones(40))
    return DawidSkene().fit(long_frame(rng, votes, asked, YES_NO))


def stars(seed: int) -> DawidSkene:
    """One to five stars by twelve raters; mistakes go to the neighbouring star."""
    rng = np.random.default_rng([seed, 307])
    truth = rng.choice(5, size=1500, p=[0.1, 0.15, 0.25, 0.3, 0.2])
    distance = np.abs(np.arange(5)[:, None] - np.arange(5))
    confusion = np.stack([np.exp(-decay * distance) for decay in rng.uniform(1.2, 2.4, 12)])
    votes = votes_of(rng, truth, confusion / confusion.sum(axis=2, keepdims=True))
    return DawidSkene().fit(
        long_frame(rng, votes, some(rng, 1500, 9, np.ones(12)), [f"{i} stars" for i in range(1, 6)])
    )


def one_lazy_worker(seed: int) -> DawidSkene:
    """Twelve workers, of whom one always gives the same answer and one guesses; the others are good."""
    rng = np.random.default_rng([seed, 308])
    truth = rng.choice(4, size=900, p=[0.35, 0.3, 0.2, 0.15])
    votes = votes_of(rng, truth, confusions(rng, np.r_[rng.uniform(0.7, 0.88, 10), 0.25, 0.25], 4))
    votes[:, 10] = 0
    return DawidSkene().fit(long_frame(rng, votes, rng.random(votes.shape) < 0.7, ANIMALS))


def large_crowd(seed: int) -> DawidSkene:
    """6,000 tasks, 150 workers of very different activity, five labels per task."""
    rng = np.random.default_rng([seed, 309])
    truth = (rng.random(6_000) < 0.4).astype(int)
    votes = votes_of(rng, truth, confusions(rng, rng.beta(14, 4, 150), 2))
    activity = 1.0 / np.arange(1, 151) ** 0.5
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 6_000, 5, activity), ["ham", "spam"]))


# ---------------------------------------------------------------- unsound


def judges_of_one_family(seed: int) -> DawidSkene:
    """Three of seven judges are versions of one model and repeat its answer, right or wrong, nine times in ten."""
    rng = np.random.default_rng([seed, 401])
    truth = rng.choice(3, size=800, p=[0.4, 0.35, 0.25])
    votes = votes_of(rng, truth, confusions(rng, [0.68, 0.68, 0.68, 0.8, 0.76, 0.74, 0.72], 3))
    for version in (1, 2):
        repeats = rng.random(800) < 0.9
        votes[repeats, version] = votes[repeats, 0]
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), ["worse", "same", "better"]))


def guessing_crowd(seed: int) -> DawidSkene:
    """Everybody guesses with habits of their own; there is no consensus to be found."""
    rng = np.random.default_rng([seed, 402])
    habits = rng.dirichlet(np.full(3, 5.0), size=20)
    votes = np.stack([rng.choice(3, size=800, p=habit) for habit in habits], axis=1)
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 800, 6, np.ones(20)), SENTIMENT))


def two_raters(seed: int) -> DawidSkene:
    """Two raters who disagree on a quarter of 500 tasks: nothing says who is right."""
    rng = np.random.default_rng([seed, 403])
    truth = rng.choice(3, size=500, p=[0.4, 0.35, 0.25])
    votes = votes_of(rng, truth, confusions(rng, [0.9, 0.8], 3))
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), SENTIMENT))


def ring(seed: int) -> DawidSkene:
    """Seven of 25 accounts are one person who guesses and pastes the same guess from every account."""
    rng = np.random.default_rng([seed, 404])
    truth = rng.choice(4, size=900, p=[0.25] * 4)
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.55, 0.75, 25), 4))
    guess = rng.integers(4, size=900)
    for account in range(7):
        votes[:, account] = np.where(rng.random(900) < 0.95, guess, rng.integers(4, size=900))
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 900, 8, np.ones(25)), ANIMALS))


def twenty_tasks(seed: int) -> DawidSkene:
    """Twenty tasks, four raters of moderate quality, four classes."""
    rng = np.random.default_rng([seed, 405])
    truth = rng.integers(4, size=20)
    votes = votes_of(rng, truth, confusions(rng, [0.7, 0.6, 0.6, 0.5], 4))
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), ANIMALS))


def two_offices(seed: int) -> DawidSkene:
    """Two offices share neither tasks nor workers, and the second one reads the code book the other way round."""
    rng = np.random.default_rng([seed, 406])
    truth = (rng.random(1000) < 0.45).astype(int)
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.75, 0.9, 16), 2))
    asked = some(rng, 1000, 5, np.ones(8)).repeat(2, axis=1)
    asked[:500, 1::2], asked[500:, ::2] = False, False
    votes[500:] = 1 - votes[500:]
    return DawidSkene().fit(long_frame(rng, votes, asked, YES_NO))


def wrong_gold(seed: int) -> DawidSkene:
    """The key of the known answers was joined with the wrong rows: 80 answers, right only by chance."""
    rng = np.random.default_rng([seed, 407])
    truth = rng.choice(3, size=1000, p=[0.45, 0.35, 0.2])
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.65, 0.88, 30), 3))
    known = rng.choice(1000, size=80, replace=False)
    gold = {f"task-{i:05d}": SENTIMENT[truth[j]] for i, j in zip(known, np.roll(known, 1), strict=True)}
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 1000, 7, np.ones(30)), SENTIMENT), gold=gold)


def hard_tasks(rng: Generator, n_tasks: int, n_workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Truth and votes where a quarter of the tasks is deceptive: two answers in three are the same wrong one."""
    truth = (rng.random(n_tasks) < 0.4).astype(int)
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.82, 0.95, n_workers), 2))
    deceived = (rng.random(n_tasks) < 0.25)[:, None] & (rng.random(votes.shape) < 0.65)
    return truth, np.where(deceived, 1 - truth[:, None], votes)


def deceptive_tasks(seed: int) -> DawidSkene:
    rng = np.random.default_rng([seed, 408])
    _, votes = hard_tasks(rng, 1200, 10)
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), YES_NO))


def deceptive_tasks_with_gold(seed: int) -> DawidSkene:
    """150 known answers show an error several times the stated one."""
    rng = np.random.default_rng([seed, 409])
    truth, votes = hard_tasks(rng, 1000, 25)
    gold = {f"task-{i:05d}": YES_NO[truth[i]] for i in rng.choice(1000, size=150, replace=False)}
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 1000, 9, np.ones(25)), YES_NO), gold=gold)


def exported_twice(seed: int) -> DawidSkene:
    """Two exports with different task ids were put end to end: every task occurs twice with the same labels."""
    rng = np.random.default_rng([seed, 410])
    truth = rng.integers(4, size=400)
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.45, 0.7, 12), 4))
    votes = np.vstack([votes, votes])
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), ANIMALS))


def very_rare_class(seed: int) -> DawidSkene:
    """A third class of 4 in 1,500 tasks, which the workers recognise half of the time."""
    rng = np.random.default_rng([seed, 411])
    truth = rng.choice(2, size=1500, p=[0.6, 0.4])
    truth[rng.choice(1500, size=4, replace=False)] = 2
    confusion = confusions(rng, rng.uniform(0.75, 0.9, 20), 3)
    confusion[:, 2] = [0.25, 0.25, 0.5]
    confusion[:, :2, 2] = 0.01
    confusion /= confusion.sum(axis=2, keepdims=True)
    votes = votes_of(rng, truth, confusion)
    return DawidSkene().fit(long_frame(rng, votes, some(rng, 1500, 5, np.ones(20)), ["fine", "spam", "illegal"]))


def mostly_one_label(seed: int) -> DawidSkene:
    """One label for 19 of 20 tasks: the quality of 40 workers rests on the few tasks that two of them saw."""
    rng = np.random.default_rng([seed, 412])
    truth = rng.choice(3, size=1200, p=[0.4, 0.35, 0.25])
    votes = votes_of(rng, truth, confusions(rng, rng.uniform(0.55, 0.9, 40), 3))
    asked = some(rng, 1200, 1, np.ones(40))
    asked[:60] |= some(rng, 60, 2, np.ones(40))
    return DawidSkene().fit(long_frame(rng, votes, asked, SENTIMENT))


def scores_as_labels(seed: int) -> DawidSkene:
    """Scores from 0 to 100 taken for 101 classes."""
    rng = np.random.default_rng([seed, 413])
    quality = rng.uniform(10, 90, size=250)
    votes = np.clip(quality[:, None] + rng.normal(0, 8, (250, 5)), 0, 100).round().astype(int)
    return DawidSkene().fit(long_frame(rng, votes, everyone(votes), [str(i) for i in range(101)]))


def shuffled_real_crowd(seed: int) -> DawidSkene:
    """Real crowd `rte`, the labels of every worker shuffled among the worker's tasks: habits without knowledge."""
    rng = np.random.default_rng([seed, 414])
    labels = pd.read_csv(data_folder() / "crowd" / "rte" / "labels.csv")
    labels["label"] = labels.groupby("worker")["label"].transform(lambda given: rng.permutation(given.to_numpy()))
    return DawidSkene().fit(labels)


TOGETHER = "famil|copies|copy|collu|pair|agree|depend|together|group|explain"
FEW = "few|small|rare|not enough|labels per|per task|one label|sample"
GOLD = "gold|known|truth|actual|stated"
NOTHING = "chance|guess|nothing|no better|agree|structure|random"

SCENARIOS: list[Scenario] = [
    # Seven labels per tweet by mostly good workers; spammers get no weight.
    Scenario("sentiment crowd with some guessers", sentiment_crowd),
    # Complete labels by independent judges: the classical case.
    Scenario("eight independent judges", eight_judges),
    # Five readers identify two classes; 300 positive images.
    Scenario("five radiologists, 12 % positive", five_radiologists),
    # Same as a long table, only written otherwise.
    Scenario("wide matrix with 40 % missing", wide_matrix),
    # Known answers agree with the consensus.
    Scenario("sixty right known answers", right_gold),
    # Which tasks get more labels depends on labels that are in the file.
    Scenario("more labels where the first ones disagree", asked_again_on_disagreement),
    # Neighbouring mistakes are what a confusion matrix is for.
    Scenario("one to five stars", stars),
    # The constant worker and the guesser are worth a flag; the consensus does not suffer.
    Scenario("one constant worker and one guesser", one_lazy_worker),
    # Five labels per task, activity by a power law.
    Scenario("6,000 tasks, uneven activity", large_crowd),
    # The family outvotes better judges and is rated best.
    Scenario("three judges of one family", judges_of_one_family, WARNED, TOGETHER),
    # No common signal.
    Scenario("everybody guesses", guessing_crowd, WARNED, NOTHING),
    # With two raters many confusion matrices explain the table equally well.
    Scenario("two raters", two_raters, WARNED, "two|three|identif|few|at least"),
    # The ring agrees on random answers and wins its tasks.
    Scenario("a ring of seven accounts", ring, WARNED, TOGETHER),
    # 12 free parameters per rater from 20 answers.
    Scenario("twenty tasks", twenty_tasks, WARNED, FEW + "|identif"),
    # Nothing in the file links the codes of one office to those of the other.
    Scenario(
        "two offices without overlap, codes swapped",
        two_offices,
        WARNED,
        "part|connect|separate|share|overlap|link|component",
    ),
    # Known answers contradict everybody.
    Scenario("known answers of the wrong rows", wrong_gold, WARNED, GOLD),
    # Errors are shared, so independence given the class fails.
    Scenario("deceptive tasks", deceptive_tasks, WARNED, TOGETHER + "|difficult|hard|decepti|error"),
    # The known answers show what labels alone do not.
    Scenario(
        "deceptive tasks with known answers", deceptive_tasks_with_gold, WARNED, f"{GOLD}|{TOGETHER}|difficult|hard"
    ),
    # 400 tasks are taken for 800.
    Scenario(
        "exported twice under new task ids", exported_twice, WARNED, "duplic|identical|same labels|repeat|twice|copies"
    ),
    # Four tasks do not describe a class.
    Scenario("a class of four tasks", very_rare_class, WARNED, FEW),
    # Sixty tasks tell who is good.
    Scenario("mostly one label per task", mostly_one_label, WARNED, FEW + "|overlap|agree|identif"),
    # Scores are numbers, not classes.
    Scenario("scores from 0 to 100", scores_as_labels, WARNED, f"score|bin|number|classes|{FEW}"),
]

if (folder := data_folder()) is not None and (folder / "crowd" / "rte" / "labels.csv").is_file():
    # No worker knows anything about any task.
    SCENARIOS.append(Scenario("rte, labels shuffled inside workers", shuffled_real_crowd, WARNED, NOTHING))
