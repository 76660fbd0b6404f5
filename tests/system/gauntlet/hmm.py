"""Sequences of symbols as users meet them: hidden states that are there, and ones that are not."""

from __future__ import annotations

import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from latentfit import CategoricalHMM
from tests.system.gauntlet.scenario import WARNED, Scenario

FOLDER = Path(os.environ.get("LATENTFIT_DATA", Path(__file__).parents[4] / "shared" / "data")) / "pairs"
"""Where the real sequences are; their scenarios exist only with them."""
WEATHER = ["sun", "cloud", "rain", "fog", "snow", "storm", "hail", "wind"]


def walk(rng, transitions, length):
    """States of one sequence, the first drawn evenly."""
    reach = np.cumsum(transitions, axis=1)
    states = np.empty(length, int)
    states[0] = rng.integers(len(transitions))
    for step, uniform in enumerate(rng.random(length - 1), start=1):
        states[step] = min(int((reach[states[step - 1]] <= uniform).sum()), len(transitions) - 1)
    return states


def shown(rng, emissions, states):
    """A symbol per step."""
    reach = np.cumsum(emissions, axis=1)[states]
    return np.minimum((reach <= rng.random(len(states))[:, None]).sum(axis=1), emissions.shape[1] - 1)


def sticky(n_states, stay):
    """Transitions that keep a state with probability `stay` and go anywhere else evenly."""
    away = (1 - stay) / (n_states - 1)
    return np.full((n_states, n_states), away) + (stay - away) * np.eye(n_states)


def apart(rng, n_states, n_symbols, own=0.7):
    """Emissions: a proportion `own` on symbols that belong to one state, the rest on all of them."""
    shared = rng.dirichlet(np.full(n_symbols, 3.0))
    emissions = np.tile((1 - own) * shared, (n_states, 1))
    for state in range(n_states):
        members = np.arange(n_symbols) % n_states == state
        emissions[state, members] += own * rng.dirichlet(np.full(members.sum(), 3.0))
    return emissions


def drawn(rng, transitions, emissions, lengths):
    """Sequences of such lengths, as lists of numbers."""
    return [shown(rng, emissions, walk(rng, transitions, length)).tolist() for length in lengths]


# ----------------------------------------------------------------------- sound


def dice(seed):
    """A casino that changes between a fair and a loaded die."""
    rng = np.random.default_rng([1, seed])
    emissions = np.array([[1 / 6] * 6, [0.06, 0.06, 0.06, 0.06, 0.06, 0.7]])
    (rolls,) = drawn(rng, sticky(2, 0.95), emissions, [6000])
    return CategoricalHMM().fit(np.array(rolls))


def many_sequences(seed):
    """Three states behind sixty sequences of a hundred."""
    rng = np.random.default_rng([2, seed])
    return CategoricalHMM().fit(drawn(rng, sticky(3, 0.8), apart(rng, 3, 20), [100] * 60))


def number_given(seed):
    """The same with the right number given, and words for symbols."""
    rng = np.random.default_rng([3, seed])
    walks = drawn(rng, sticky(2, 0.85), apart(rng, 2, 8), [150] * 30)
    return CategoricalHMM(2).fit([[WEATHER[symbol] for symbol in walk] for walk in walks])


def gaps(seed):
    """A tenth of the observations missing."""
    rng = np.random.default_rng([4, seed])
    walks = drawn(rng, sticky(2, 0.85), apart(rng, 2, 10), [200] * 30)
    return CategoricalHMM().fit([[s if rng.random() > 0.1 else None for s in walk] for walk in walks])


def event_log(seed):
    """A table user, timestamp, event whose rows are in no order."""
    rng = np.random.default_rng([5, seed])
    walks = drawn(rng, sticky(2, 0.8), apart(rng, 2, 8), rng.integers(20, 60, 120))
    users = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    times = np.concatenate([np.arange(len(walk)) for walk in walks])
    events = np.array([WEATHER[symbol] for walk in walks for symbol in walk])
    order = rng.permutation(len(users))
    table = pa.table({"user": users[order], "timestamp": times[order], "event": events[order]})
    return CategoricalHMM().fit(table)


def short_sequences(seed):
    """Eight hundred sequences of four to twelve steps."""
    rng = np.random.default_rng([6, seed])
    return CategoricalHMM().fit(drawn(rng, sticky(2, 0.8), apart(rng, 2, 10, 0.8), rng.integers(4, 13, 800)))


def circle(seed):
    """Four states that follow one another in a circle, and are left most of the time."""
    rng = np.random.default_rng([7, seed])
    transitions = 0.2 * np.eye(4) + 0.75 * np.roll(np.eye(4), 1, axis=1) + 0.05 / 4
    return CategoricalHMM().fit(drawn(rng, transitions, apart(rng, 4, 16), [200] * 40))


def uneven(seed):
    """One state with three quarters of the steps."""
    rng = np.random.default_rng([8, seed])
    transitions = np.array([[0.95, 0.05], [0.15, 0.85]])
    return CategoricalHMM().fit(drawn(rng, transitions, apart(rng, 2, 12), [250] * 32))


def bases(seed):
    """Two kinds of stretches in a sequence of bases."""
    rng = np.random.default_rng([25, seed])
    emissions = np.array([[0.38, 0.12, 0.12, 0.38], [0.12, 0.38, 0.38, 0.12]])
    transitions = np.array([[0.99, 0.01], [0.03, 0.97]])
    return CategoricalHMM(2).fit(
        "".join("ACGT"[code] for code in shown(rng, emissions, walk(rng, transitions, 15_000)))
    )


def stages(seed):
    """Three stages of a disease, none of which is left backwards."""
    rng = np.random.default_rng([26, seed])
    transitions = np.array([[0.9, 0.1, 0], [0, 0.9, 0.1], [0, 0, 1]])
    emissions, walks = apart(rng, 3, 9, 0.75), []
    for _ in range(300):
        walks.append(shown(rng, emissions, walk(rng, transitions, 24)).tolist())
    return CategoricalHMM(3).fit(walks)


def many_symbols(seed):
    """Four states, sixty symbols, the number given."""
    rng = np.random.default_rng([27, seed])
    return CategoricalHMM(4).fit(drawn(rng, sticky(4, 0.7), apart(rng, 4, 60), [300] * 50))


def vowels(seed):
    """Letters of an English book and two states: vowels and consonants, which say little of the next letter."""
    rng = np.random.default_rng([9, seed])
    letters = genesis()
    begin = int(rng.integers(len(letters) - 40_000))
    return CategoricalHMM(2).fit(list(letters[begin : begin + 40_000]))


@cache
def genesis():
    """The letters of the book."""
    with gzip.open(FOLDER / "genesis_kjv_letters.seq.txt.gz", "rt") as file:
        return file.read().strip("\n")


# --------------------------------------------------------------------- unsound


def independent(seed):
    """Independent symbols."""
    rng = np.random.default_rng([11, seed])
    return CategoricalHMM().fit(rng.choice(12, 5000, p=rng.dirichlet(np.full(12, 2.0))))


def independent_number_given(seed):
    """Independent symbols, and three states asked for."""
    rng = np.random.default_rng([12, seed])
    return CategoricalHMM(3).fit(rng.choice(12, 5000, p=rng.dirichlet(np.full(12, 2.0))))


def shuffled(seed):
    """Sequences with structure whose steps were shuffled: the column of times was lost."""
    rng = np.random.default_rng([13, seed])
    symbols = np.concatenate(drawn(rng, sticky(3, 0.8), apart(rng, 3, 15), [100] * 50))
    return CategoricalHMM().fit(rng.permutation(symbols), lengths=[100] * 50)


def too_many_asked(seed):
    """Five states asked for where there are two."""
    rng = np.random.default_rng([14, seed])
    return CategoricalHMM(5).fit(drawn(rng, sticky(2, 0.85), apart(rng, 2, 10), [150] * 30))


def two_steps(seed):
    """Sequences of two steps, which fit many models."""
    rng = np.random.default_rng([15, seed])
    return CategoricalHMM(2).fit(drawn(rng, sticky(2, 0.85), apart(rng, 2, 10), [2] * 3000))


def id_column(seed):
    """Nearly every symbol occurs once: a column of ids was taken for the symbols."""
    rng = np.random.default_rng([16, seed])
    return CategoricalHMM(2).fit(rng.integers(0, 4000, 2000))


def one_sentence(seed):
    """One sequence three hundred times."""
    rng = np.random.default_rng([17, seed])
    (sentence,) = drawn(rng, sticky(3, 0.8), apart(rng, 3, 15), [25])
    return CategoricalHMM().fit([sentence] * 300)


def duplicated(seed):
    """An export that wrote every sequence twice."""
    rng = np.random.default_rng([18, seed])
    return CategoricalHMM().fit(2 * drawn(rng, sticky(2, 0.85), apart(rng, 2, 10), [80] * 40))


def kinds_of_users(seed):
    """Two kinds of users that never change: a mixture of users, no states that come and go."""
    rng = np.random.default_rng([19, seed])
    emissions, kinds = apart(rng, 2, 10), rng.integers(0, 2, 80)
    return CategoricalHMM().fit([shown(rng, emissions, np.full(60, kind)).tolist() for kind in kinds])


def limit_binds(seed):
    """Six clear states, and at most three tried."""
    rng = np.random.default_rng([20, seed])
    return CategoricalHMM(max_states=3).fit(drawn(rng, sticky(6, 0.8), apart(rng, 6, 18, 0.85), [200] * 30))


def stopped_early(seed):
    """Two iterations of EM."""
    rng = np.random.default_rng([21, seed])
    return CategoricalHMM(3, max_iter=2).fit(drawn(rng, sticky(3, 0.8), apart(rng, 3, 20, 0.4), [100] * 40))


def tiny(seed):
    """Thirty steps."""
    rng = np.random.default_rng([22, seed])
    return CategoricalHMM(2).fit(drawn(rng, sticky(2, 0.8), apart(rng, 2, 6), [30]))


def rare_state(seed):
    """An alarm that came three times."""
    rng = np.random.default_rng([23, seed])
    states = np.zeros(4000, int)
    for begin in (500, 1700, 3100):
        states[begin : begin + 40] = 1
    emissions = np.array([[0.4, 0.3, 0.3, 0.0, 0.0], [0.05, 0.05, 0.1, 0.4, 0.4]])
    return CategoricalHMM(2).fit(shown(rng, emissions, states))


def heavy_overlap(seed):
    """States that show nearly the same symbols, from few steps: others in the other half."""
    rng = np.random.default_rng([24, seed])
    return CategoricalHMM(4).fit(drawn(rng, sticky(4, 0.6), apart(rng, 4, 20, 0.25), [100] * 20))


STRUCTURE = "dependence"
FEWER = "last_state|distinct_emissions|transition_rank|stability|state_visits"

SCENARIOS = [
    Scenario("a fair and a loaded die", dice),
    Scenario("three states, sixty sequences", many_sequences),
    Scenario("two states, the number given", number_given),
    Scenario("a tenth of the observations missing", gaps),
    Scenario("an event log in no order", event_log),
    Scenario("eight hundred short sequences", short_sequences),
    Scenario("states in a circle", circle),
    Scenario("one state with most of the steps", uneven),
    Scenario("two kinds of stretches of bases", bases),
    Scenario("stages of a disease", stages),
    Scenario("sixty symbols, the number given", many_symbols),
    *([Scenario("letters of a book, two states asked for", vowels, WARNED, "pair_fit")] if FOLDER.is_dir() else []),
    Scenario("independent symbols", independent, WARNED, STRUCTURE),
    Scenario("independent symbols, three states asked for", independent_number_given, ("not identifiable",), STRUCTURE),
    Scenario("steps shuffled", shuffled, WARNED, STRUCTURE),
    Scenario("five states asked for, two there", too_many_asked, WARNED, FEWER),
    Scenario("sequences of two steps", two_steps, ("not identifiable",), "three_steps"),
    Scenario("ids taken for symbols", id_column, ("not identifiable",), "observations_per_symbol"),
    Scenario("one sequence three hundred times", one_sentence, WARNED, "duplicates"),
    Scenario("every sequence twice", duplicated, WARNED, "duplicates"),
    Scenario("two kinds of users that never change", kinds_of_users, WARNED, "state_visits"),
    Scenario("six states, three tried", limit_binds, WARNED, "search_limit"),
    Scenario("two iterations of EM", stopped_early, WARNED, "converged"),
    Scenario("thirty steps", tiny, WARNED, "dependence|last_state|sample_size|stability"),
    Scenario("a state that came three times", rare_state, WARNED, "state_visits"),
    Scenario("states that hardly differ, four asked for", heavy_overlap, WARNED, FEWER),
]
