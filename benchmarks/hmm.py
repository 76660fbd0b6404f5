"""Hidden Markov models beside hmmlearn: likelihood of new sequences, time of a fit, time of one Baum–Welch pass.

python benchmarks/hmm.py simulated --case 2,50,10000      # states, symbols, observations; without --case all of them
python benchmarks/hmm.py real --case letters              # letters, dna, words ($LATENTFIT_DATA, or ../shared/data)
python benchmarks/hmm.py long                             # a million observations, one start of hmmlearn
python benchmarks/hmm.py pass                             # one pass of either
python benchmarks/hmm.py number --repeats 40              # the number of states found

hmmlearn gets ``implementation="scaling"`` and `STARTS` random starts of at most `PASSES` passes (its own tolerance),
the best of which by training likelihood is kept. Latentfit runs with its defaults on one thread. Seconds are CPU
seconds of one fit, the median of up to five where they are short.
Log-likelihoods are nats an observation of sequences neither has seen; symbols that the training lacks are left out.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import data_folder

from latentfit import CategoricalHMM
from latentfit.core.kernels.hmm import chain_sums
from latentfit.engine.limits import one_blas_thread
from latentfit.hmm.data import Sequences, lines_to_sequences, read_sequences
from latentfit.hmm.em.fit import log_likelihood, one_state
from latentfit.hmm.select import choose_states
from latentfit.io.text_lines import stream_lines
from latentfit.simulate import draw_sequences, hidden_markov

STARTS, PASSES = 10, 100
NEW = 50_000
SIMULATED = [(k, m, n) for k in (2, 5) for m in (50, 500, 5000) for n in (10_000, 100_000)]
HEAD = "| data | K | truth | unigram | latentfit | hmmlearn | difference | latentfit s | hmmlearn s | ratio |"
Case = tuple[str, int, Sequences, Sequences, float | None]


def simulated(k: int, m: int, n: int) -> Case:
    made = hidden_markov(n, n_states=k, n_symbols=m, random_state=k * 7919 + m + n)
    test = seen(made.sequences, draw_sequences(made.chain, NEW, 1, np.random.default_rng(1)).sequences)
    truth = log_likelihood(made.chain, test) / test.n_observed
    return f"{m:,} symbols, {n:,}", k, made.sequences, test, truth


def seen(train: Sequences, test: Sequences) -> Sequences:
    """The test without symbols that the training lacks: taken out, because hmmlearn knows no gaps."""
    keep = train.counts()[test.codes] > 0
    counts = np.add.reduceat(keep, test.offsets[:-1]) if len(test.offsets) > 2 else np.array([keep.sum()])
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Sequences(test.codes[keep], offsets, test.symbols, test.names)


def real(name: str) -> Iterator[Case]:
    folder = data_folder("pairs")
    if name == "words":
        text = stream_lines(folder / "ud_ewt_dev.words.txt.gz")
        lines = [line.split() for batch in text for line in batch if line.strip()]
        often = Counter(word for line in lines for word in line)
        data = read_sequences([[word if often[word] > 1 else "<rare>" for word in line] for line in lines])
        cut = int(0.8 * data.n_sequences)
        parts = [
            data.slices(data.offsets[a:b], data.offsets[a + 1 : b + 1]) for a, b in ((0, cut), (cut, data.n_sequences))
        ]
        sizes = (2, 5, 10)
    else:
        stem = {"letters": "genesis_kjv_letters", "dna": "mjannaschii_dna"}[name]
        data = lines_to_sequences(stream_lines(folder / f"{stem}.seq.txt.gz"), letters=True)
        cut = int(0.8 * data.n_steps)
        ends = np.array([0, cut, data.n_steps])
        parts = [data.slices(ends[[part]], ends[[part + 1]]) for part in (0, 1)]
        sizes = (2, 5)
    for k in sizes:
        yield name, k, parts[0], seen(parts[0], parts[1]), None


def hmmlearn_fit(train: Sequences, k: int, starts: int) -> tuple[Any, float]:
    from hmmlearn.hmm import CategoricalHMM as Theirs

    used = np.unique(train.codes)
    codes, lengths = np.searchsorted(used, train.codes)[:, None], np.diff(train.offsets)
    begin, best, most = time.process_time(), None, -np.inf
    for seed in range(starts):
        model = Theirs(k, n_iter=PASSES, implementation="scaling", random_state=seed).fit(codes, lengths)
        found = model.score(codes, lengths)
        if found > most:
            best, most = model, found
    return (used, best), time.process_time() - begin


def compare(case: Case, starts: int = STARTS) -> None:
    name, k, train, test, truth = case
    took: list[float] = []
    while len(took) < 5 and sum(took) < 2:  # short fits several times, because one alone is mostly noise
        begin = time.process_time()
        ours = CategoricalHMM(k, n_jobs=1).fit(train)
        took.append(time.process_time() - begin)
    our_seconds = float(np.median(took))
    (used, theirs), seconds = hmmlearn_fit(train, k, starts)
    new = np.searchsorted(used, test.codes)[:, None], np.diff(test.offsets)
    try:
        held = theirs.score(*new) / test.n_observed
    except ValueError:  # its scaled recursion underflows where a new sequence is all but impossible
        theirs.implementation = "log"
        held = theirs.score(*new) / test.n_observed
    mine = ours.score(test) / test.n_observed
    flat = log_likelihood(one_state(train), test) / test.n_observed
    told = "" if truth is None else f"{truth:.4f}"
    print(
        f"| {name} | {k} | {told} | {flat:.4f} | {mine:.4f} | {held:.4f} | {mine - held:+.4f} | {our_seconds:.2f} | "
        f"{seconds:.1f} | {seconds / our_seconds:.0f} |",
        flush=True,
    )


def one_pass() -> None:
    from hmmlearn.hmm import CategoricalHMM as Theirs

    print("| states | symbols | latentfit, ns an observation | hmmlearn | ratio |\n| --- | --- | --- | --- | --- |")
    for k, m in [(2, 50), (2, 5000), (5, 50), (5, 5000), (10, 500), (20, 500)]:
        made = hidden_markov(100_000, n_states=k, n_symbols=m, random_state=1)
        data, chain = made.sequences, made.chain
        parts = (chain.start, chain.transitions, chain.emissions)
        took = []
        for _ in range(7):
            begin = time.process_time()
            chain_sums(data.chains, *parts)
            took.append(time.process_time() - begin)
        model = Theirs(k, n_iter=4, tol=-np.inf, implementation="scaling", random_state=0, n_features=m)
        begin = time.process_time()
        model.fit(data.codes[:, None])
        theirs = (time.process_time() - begin) / 4
        ns = [1e9 * value / data.n_steps for value in (min(took), theirs)]
        print(f"| {k} | {m} | {ns[0]:.0f} | {ns[1]:.0f} | {ns[1] / ns[0]:.0f} |", flush=True)


def number(repeats: int, first: int) -> None:
    """Right, too few and too many states of simulated chains with 1 to 10."""
    right: Counter[str] = Counter()
    split = [0, 0]
    for repeat in range(first, first + repeats):
        rng = np.random.default_rng([5, repeat])
        k, m = repeat % 10 + 1, int(rng.choice([30, 100, 500]))
        n, overlap = int(rng.choice([20_000, 50_000, 100_000])), float(rng.choice([0.1, 0.3, 0.5]))
        made = hidden_markov(n, n_states=k, n_symbols=m, overlap=overlap, random_state=repeat)
        found = choose_states(made.sequences).chosen
        right["right" if found == k else "too few" if found < k else "too many"] += 1
        split[0] += k == 1
        split[1] += k == 1 and found > 1
        print(f"# {repeat}: {k} states, {m} symbols, {n} observations, overlap {overlap}: {found}", flush=True)
    print(f"{dict(right)} of {repeats}; one state split {split[1]} of {split[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["simulated", "real", "long", "pass", "number"])
    parser.add_argument("--case")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    CategoricalHMM(3).fit(hidden_markov(2000, n_states=3, n_symbols=150).sequences)  # what is imported on first use
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.part == "pass":
            return one_pass()
        if options.part == "number":
            return number(options.repeats, options.first)
        print(f"{HEAD}\n{'| --- ' * HEAD.count(' |')}|")
        if options.part == "long":
            k, m, n = (int(part) for part in (options.case or "5,5000,1000000").split(","))
            return compare(simulated(k, m, n), starts=1)
        if options.part == "real":
            for name in [options.case] if options.case else ["letters", "dna", "words"]:
                for case in real(name):
                    compare(case)
            return None
        cases = [tuple(int(part) for part in options.case.split(","))] if options.case else SIMULATED
        for k, m, n in cases:
            compare(simulated(k, m, n))
    return None


if __name__ == "__main__":
    main()
