"""Sequences of symbols as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pandas as pd

from latentfit import CategoricalHMM
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator


def walk(rng: Generator, start: Any, moves: Any, shows: Any, n_sequences: int, length: int) -> np.ndarray:
    """Codes of so many sequences of one length, shape (sequence, step)."""
    start, moves, shows = (np.cumsum(np.asarray(part, dtype=float), axis=-1) for part in (start, moves, shows))
    states = (rng.random((n_sequences, 1)) > start[:-1]).sum(axis=1)
    codes = np.zeros((n_sequences, length), dtype=int)
    for step in range(length):
        codes[:, step] = (rng.random((n_sequences, 1)) > shows[states][:, :-1]).sum(axis=1)
        states = (rng.random((n_sequences, 1)) > moves[states][:, :-1]).sum(axis=1)
    return codes


def in_words(codes: np.ndarray, words: list[str]) -> list[list[str]]:
    """Sequences as lists of text."""
    return [[words[code] for code in sequence] for sequence in codes]


# ---------------------------------------------------------------- sound


def diary(seed: int) -> CategoricalHMM:
    """Activity diaries of 80 people, 100 hours each, three moods, six activities."""
    rng = np.random.default_rng([seed, 701])
    moves = [[0.9, 0.07, 0.03], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]]
    shows = [[0.5, 0.3, 0.05, 0.05, 0.05, 0.05], [0.05, 0.1, 0.5, 0.25, 0.05, 0.05], [0.1, 0.05, 0.05, 0.1, 0.3, 0.4]]
    words = ["sleep", "rest", "work", "travel", "sport", "friends"]
    return CategoricalHMM(3).fit(in_words(walk(rng, [0.6, 0.3, 0.1], moves, shows, 80, 100), words))


def uneven_lengths(seed: int) -> CategoricalHMM:
    """Two attention states of 150 subjects who stop after 30 to 90 trials; the number of states is not given."""
    rng = np.random.default_rng([seed, 702])
    moves, shows = [[0.93, 0.07], [0.15, 0.85]], [[0.7, 0.2, 0.05, 0.05], [0.1, 0.2, 0.3, 0.4]]
    codes = walk(rng, [0.8, 0.2], moves, shows, 150, 90)
    lengths = rng.integers(30, 91, size=150)
    words = ["correct", "slow", "error", "none"]
    return CategoricalHMM().fit([part[:n] for part, n in zip(in_words(codes, words), lengths, strict=True)])


def gc_content(seed: int) -> CategoricalHMM:
    """One DNA sequence of 20,000 bases with GC-rich islands of 150 bases on average."""
    rng = np.random.default_rng([seed, 703])
    moves = [[1 - 1 / 500, 1 / 500], [1 / 150, 1 - 1 / 150]]
    shows = [[0.33, 0.17, 0.17, 0.33], [0.12, 0.38, 0.38, 0.12]]
    return CategoricalHMM(2).fit("".join("ACGT"[code] for code in walk(rng, [1, 0], moves, shows, 1, 20_000)[0]))


def lost_readings(seed: int) -> CategoricalHMM:
    """Forty sensors, 300 readings each, one in five lost at random."""
    rng = np.random.default_rng([seed, 704])
    moves = [[0.95, 0.04, 0.01], [0.06, 0.9, 0.04], [0.02, 0.1, 0.88]]
    shows = [[0.8, 0.15, 0.04, 0.01], [0.08, 0.77, 0.1, 0.05], [0.02, 0.08, 0.35, 0.55]]
    codes = walk(rng, [0.7, 0.2, 0.1], moves, shows, 40, 300)
    words = np.array(["low", "middle", "high", "alarm"], dtype=object)[codes]
    words[rng.random(words.shape) < 0.2] = None
    return CategoricalHMM(3).fit([list(sequence) for sequence in words])


def word_classes(seed: int) -> CategoricalHMM:
    """600 sentences of an artificial language: four word classes, 40 words, Zipf frequencies inside classes."""
    rng = np.random.default_rng([seed, 705])
    moves = [[0.02, 0.9, 0.06, 0.02], [0.05, 0.05, 0.2, 0.7], [0.3, 0.1, 0.05, 0.55], [0.5, 0.05, 0.4, 0.05]]
    shows = np.zeros((4, 40))
    for state in range(4):
        shows[state, state * 10 : state * 10 + 10] = 1 / np.arange(1, 11)
    shows = 0.98 * shows / shows.sum(axis=1, keepdims=True) + 0.02 / 40
    codes = walk(rng, [0.6, 0.1, 0.25, 0.05], moves, shows, 600, 20)
    return CategoricalHMM(4).fit(in_words(codes, [f"word{i}" for i in range(40)]))


def funnel(seed: int) -> CategoricalHMM:
    """Visits to a shop: looking, comparing, buying; nobody goes back, and sequences are short."""
    rng = np.random.default_rng([seed, 706])
    moves = [[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]]
    shows = [[0.6, 0.3, 0.08, 0.01, 0.01], [0.1, 0.2, 0.6, 0.09, 0.01], [0.02, 0.03, 0.05, 0.5, 0.4]]
    codes = walk(rng, [0.95, 0.05, 0.0], moves, shows, 800, 15)
    return CategoricalHMM(3).fit(in_words(codes, ["home", "search", "detail", "cart", "pay"]))


def sleep_frame(seed: int) -> CategoricalHMM:
    """Hypnograms as a frame with id, time and symbol in random order of rows, three stages, number not given."""
    rng = np.random.default_rng([seed, 707])
    moves = [[0.92, 0.06, 0.02], [0.04, 0.92, 0.04], [0.03, 0.07, 0.9]]
    shows = [[0.8, 0.12, 0.04, 0.02, 0.02], [0.05, 0.1, 0.7, 0.1, 0.05], [0.03, 0.05, 0.1, 0.22, 0.6]]
    codes = walk(rng, [0.9, 0.1, 0.0], moves, shows, 30, 200)
    frame = pd.DataFrame({
        "sequence": np.repeat([f"night {i}" for i in range(30)], 200),
        "time": np.tile(np.arange(200), 30),
        "symbol": np.array(["alpha", "theta", "spindle", "delta", "rapid"])[codes.ravel()],
    })  # fmt: skip
    return CategoricalHMM().fit(frame.iloc[rng.permutation(len(frame))].reset_index(drop=True))


def rare_faults(seed: int) -> CategoricalHMM:
    """A machine that is faulty 6 % of the time, for thirty steps on average, in a log of 25,000 steps."""
    rng = np.random.default_rng([seed, 708])
    moves, shows = [[0.998, 0.002], [0.033, 0.967]], [[0.85, 0.1, 0.04, 0.01], [0.2, 0.2, 0.3, 0.3]]
    codes = walk(rng, [1, 0], moves, shows, 25, 1000)
    return CategoricalHMM(2).fit(in_words(codes, ["idle", "run", "warn", "stop"]))


# ---------------------------------------------------------------- unsound


def no_order_three_asked(seed: int) -> CategoricalHMM:
    """Independent symbols, three states asked for."""
    rng = np.random.default_rng([seed, 801])
    codes = rng.choice(5, size=(40, 100), p=[0.35, 0.25, 0.2, 0.15, 0.05])
    return CategoricalHMM(3).fit(in_words(codes, list("abcde")))


def no_order_unasked(seed: int) -> CategoricalHMM:
    rng = np.random.default_rng([seed, 802])
    codes = rng.choice(4, size=(50, 80), p=[0.4, 0.3, 0.2, 0.1])
    return CategoricalHMM().fit(in_words(codes, list("abcd")))


def pairs_only(seed: int) -> CategoricalHMM:
    """Two observations per person: pairs determine a product of matrices, not its factors."""
    rng = np.random.default_rng([seed, 803])
    moves, shows = [[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]
    return CategoricalHMM(2).fit(in_words(walk(rng, [0.6, 0.4], moves, shows, 1500, 2), ["good", "fair", "bad"]))


def sixty_steps(seed: int) -> CategoricalHMM:
    """One sequence of sixty symbols, three states: sixteen parameters and a handful of transitions."""
    rng = np.random.default_rng([seed, 804])
    moves = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]
    shows = [[0.5, 0.3, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.1, 0.1, 0.3, 0.5]]
    return CategoricalHMM(3).fit(in_words(walk(rng, [0.4, 0.3, 0.3], moves, shows, 1, 60), list("abcd")))


def visible_chain(seed: int) -> CategoricalHMM:
    """The symbols themselves are a Markov chain in a ring of seven; nothing is hidden, and two states cannot say it."""
    rng = np.random.default_rng([seed, 805])
    moves = 0.72 * np.roll(np.eye(7), 1, axis=1) + 0.04
    return CategoricalHMM(2).fit(in_words(walk(rng, np.full(7, 1 / 7), moves, np.eye(7), 40, 150), list("abcdefg")))


def every_sequence_ten_times(seed: int) -> CategoricalHMM:
    """Twelve recordings, each exported ten times."""
    rng = np.random.default_rng([seed, 806])
    moves, shows = [[0.9, 0.1], [0.15, 0.85]], [[0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]
    codes = np.repeat(walk(rng, [0.6, 0.4], moves, shows, 12, 70), 10, axis=0)
    return CategoricalHMM(2).fit(in_words(codes[rng.permutation(120)], list("abcd")))


def too_many_states(seed: int) -> CategoricalHMM:
    """Two states, seven asked for."""
    rng = np.random.default_rng([seed, 807])
    moves, shows = [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.1, 0.2, 0.3, 0.35]]
    return CategoricalHMM(7).fit(in_words(walk(rng, [0.6, 0.4], moves, shows, 30, 100), list("abcde")))


def fast_and_slow(seed: int) -> CategoricalHMM:
    """Half of the animals change state at every other step, the others every fifty; one chain describes neither."""
    rng = np.random.default_rng([seed, 808])
    shows = [[0.75, 0.15, 0.07, 0.03], [0.03, 0.07, 0.15, 0.75]]
    fast = walk(rng, [0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], shows, 40, 150)
    slow = walk(rng, [0.5, 0.5], [[0.98, 0.02], [0.02, 0.98]], shows, 40, 150)
    return CategoricalHMM(2).fit(in_words(np.vstack([fast, slow]), ["rest", "walk", "feed", "fly"]))


def new_instrument(seed: int) -> CategoricalHMM:
    """From the middle of the file on a new instrument swaps two of its codes: the states are mixtures of both."""
    rng = np.random.default_rng([seed, 809])
    moves, shows = [[0.92, 0.08], [0.1, 0.9]], [[0.6, 0.05, 0.25, 0.1], [0.05, 0.6, 0.1, 0.25]]
    codes = walk(rng, [0.5, 0.5], moves, shows, 60, 100)
    swapped = np.array([1, 0, 2, 3])
    codes[30:] = swapped[codes[30:]]
    return CategoricalHMM(2).fit(in_words(codes, ["A", "B", "C", "D"]))


def four_states_from_yes_no(seed: int) -> CategoricalHMM:
    """Four states that show only yes or no, 2,000 steps: which four cannot be told."""
    rng = np.random.default_rng([seed, 810])
    moves = np.full((4, 4), 0.06) + 0.76 * np.eye(4)
    shows = [[0.9, 0.1], [0.65, 0.35], [0.4, 0.6], [0.15, 0.85]]
    return CategoricalHMM(4).fit(in_words(walk(rng, np.full(4, 0.25), moves, shows, 20, 100), ["no", "yes"]))


def state_seen_once(seed: int) -> CategoricalHMM:
    """A third state that was visited for some ten of 3,000 steps and looks like the second one."""
    rng = np.random.default_rng([seed, 811])
    moves, shows = [[0.93, 0.07], [0.1, 0.9]], [[0.7, 0.2, 0.05, 0.05], [0.1, 0.2, 0.4, 0.3]]
    codes = walk(rng, [0.6, 0.4], moves, shows, 30, 100)
    codes[7, 40:50] = rng.choice(4, size=10, p=[0.05, 0.15, 0.3, 0.5])
    return CategoricalHMM(3).fit(in_words(codes, list("abcd")))


def shuffled_letters(seed: int) -> CategoricalHMM:
    """Real letters of a book in random order: vowels and consonants no longer alternate."""
    rng = np.random.default_rng([seed, 812])
    with gzip.open(data_folder() / "pairs" / "genesis_kjv_letters.seq.txt.gz", "rt") as lines:
        letters = np.array(list(lines.read().strip()[:15_000]))
    return CategoricalHMM(2).fit("".join(rng.permutation(letters)))


NOTHING = "no structure|nothing|one state|fewer|independen|chance|merge|spurious|noise|order of|no hidden|alike"
UNSTABLE = "stab|resampl|agree|too many|initiali|halves|empty|local opt"
SMALL = "few|short|small|rare|not enough|too little|rests on|parameters"
MISFIT = "misfit|not fit|goodness|depend|residual|bigram|trigram|pairs of|lag|order|more states|explain|predict"

UNEQUAL = f"{MISFIT}|sequences differ|heterogen|population|half|halves|drift"
TWICE = "duplic|identical|copies|repeat|same sequence"

SCENARIOS: list[Scenario] = [
    # 8,000 steps for three states with distinct emissions.
    Scenario("diaries, three moods", diary),
    # Lengths do not depend on states.
    Scenario("subjects who stop early, number not given", uneven_lengths),
    # Some thirty islands, each long enough to be seen.
    Scenario("GC-rich islands in 20,000 bases", gc_content),
    # Missing at random steps carry no bias.
    Scenario("sensors with lost readings", lost_readings),
    # Word classes hardly share words.
    Scenario("four word classes, 40 words", word_classes),
    # Zero transitions are zero in truth; 800 visits.
    Scenario("a funnel without return", funnel),
    # The frame's time column orders the steps.
    Scenario("hypnograms as a frame, number not given", sleep_frame),
    # About fifty faults of thirty steps.
    Scenario("faults in 6 % of the time", rare_faults),
    # Any states are noise.
    Scenario("independent symbols, three states asked for", no_order_three_asked, WARNED, f"{NOTHING}|{UNSTABLE}"),
    # Nothing was found, and the user has to be told.
    Scenario("independent symbols, number not given", no_order_unasked, WARNED, NOTHING),
    # Three consecutive observations are needed.
    Scenario("sequences of two steps", pairs_only, WARNED, f"identif|three|{SMALL}|length|trigram|consecutive"),
    # A state has twenty observations.
    Scenario("one sequence of sixty steps", sixty_steps, WARNED, f"{SMALL}|{UNSTABLE}"),
    # The model misses the most visible thing in the data.
    Scenario("a visible chain, two states asked for", visible_chain, WARNED, MISFIT),
    # Twelve recordings are taken for 120.
    Scenario("every sequence ten times", every_sequence_ten_times, WARNED, TWICE),
    # Five states describe noise.
    Scenario("two states, seven asked for", too_many_states, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}"),
    # One transition matrix for two populations.
    Scenario("fast and slow animals in one file", fast_and_slow, WARNED, UNEQUAL),
    # Emissions changed in the middle.
    Scenario("a new instrument swaps two codes", new_instrument, WARNED, UNEQUAL),
    # The likelihood is flat in most directions.
    Scenario(
        "four states from yes and no", four_states_from_yes_no, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}|identif|rank"
    ),
    # Ten steps do not describe a state.
    Scenario("a state seen once", state_seen_once, WARNED, f"{SMALL}|{NOTHING}|{UNSTABLE}"),
]

if (folder := data_folder()) is not None and (folder / "pairs" / "genesis_kjv_letters.seq.txt.gz").is_file():
    # The order of the letters was the only information.
    SCENARIOS.append(Scenario("letters of a book, shuffled", shuffled_letters, WARNED, f"{NOTHING}|{UNSTABLE}"))
