"""Is the number of states that is chosen by default the same for every seed?

    python benchmarks/seeds_hmm.py                     # ten seeds of twelve sets of sequences
    python benchmarks/seeds_hmm.py --walk 5            # the walk itself with so many seeds of its own
    python benchmarks/seeds_hmm.py --given 9           # log-likelihoods of so many states, seed by seed

Sets ($LATENTFIT_DATA, or ../shared/data): 20,000 letters of two places of Genesis, of news, abstracts and speeches,
tags,
words and words with rare ones merged of a treebank, bases of a genome; the whole of Genesis and of the genome. It is
a function of the data, so equal numbers say that nothing of the seed is left in it; `--walk` shows how far the number
would hang on the draws of the walk if they were not always the same. `reached` counts seeds within .001 nats per
observation of the best log-likelihood of all seeds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
from harness import data_folder

from latentfit import CategoricalHMM
from latentfit.engine.limits import one_blas_thread
from latentfit.hmm.data import Sequences, lines_to_sequences, read_sequences
from latentfit.hmm.select import choose_states
from latentfit.io.text_lines import stream_lines

SEEDS = 10
LETTERS = 20_000
"""Letters taken of a long text."""


def lines_of(name: str) -> list[str]:
    return [line for batch in stream_lines(data_folder("pairs") / name) for line in batch if line.strip()]


def letters(name: str, first: int = 0, number: int = LETTERS) -> Sequences:
    text = " ".join(lines_of(name))[first : first + number]
    return lines_to_sequences([[text]], letters=True)


def words(name: str, most: int, least: int = 1) -> Sequences:
    lines = [line.split() for line in lines_of(name)[:most]]
    often = Counter(word for line in lines for word in line)
    return read_sequences([[word if often[word] >= least else "<rare>" for word in line] for line in lines])


SETS: dict[str, Callable[[], Sequences]] = {
    "genesis letters, first third": lambda: letters("genesis_kjv_letters.seq.txt.gz", 0),
    "genesis letters, last third": lambda: letters("genesis_kjv_letters.seq.txt.gz", 129_000),
    "news letters": lambda: letters("bbc_news.docs.txt.gz"),
    "abstracts letters": lambda: letters("m10.docs.txt.gz"),
    "speeches letters": lambda: letters("state_union.docs.txt.gz"),
    "treebank tags": lambda: words("ud_ewt_dev.tags.txt.gz", 10**6),
    "treebank tags, first 800": lambda: words("ud_ewt_dev.tags.txt.gz", 800),
    "treebank words": lambda: words("ud_ewt_dev.words.txt.gz", 10**6),
    "treebank words, rare merged": lambda: words("ud_ewt_dev.words.txt.gz", 10**6, least=2),
    "genome bases, a part": lambda: letters("mjannaschii_dna.seq.txt.gz", 100_000),
    "genesis letters": lambda: letters("genesis_kjv_letters.seq.txt.gz", 0, 10**6),
    "genome bases": lambda: letters("mjannaschii_dna.seq.txt.gz", 0, 10**6),
}


def numbers(data: Sequences, seeds: int, walk: int) -> tuple[list[int], float]:
    begin = time.process_time()
    if walk:
        found = [choose_states(data, seed=seed).chosen for seed in range(walk)]
        return found, (time.process_time() - begin) / walk
    found = [CategoricalHMM(random_state=seed, n_jobs=1).fit(data).n_states_ for seed in range(seeds)]
    return found, (time.process_time() - begin) / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--walk", type=int, default=0)
    parser.add_argument("--given", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    steady = 0
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print("| sequences | steps | symbols | found by seed | most common, of all | CPU s a fit |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name in options.sets:
            data = SETS[name]()
            head = f"| {name} | {data.n_steps:,} | {data.n_symbols:,} |"
            if options.given:
                begin = time.process_time()
                fits = [CategoricalHMM(options.given, random_state=n, n_jobs=1).fit(data) for n in range(options.seeds)]
                ends = np.array([fit.log_likelihood_ for fit in fits]) / data.n_observed
                took = (time.process_time() - begin) / len(fits)
                shown = " ".join(f"{end:.4f}" for end in ends)
                reached = int((ends > ends.max() - 1e-3).sum())
                print(f"{head} {shown} | reached {reached} of {len(ends)} | {took:.2f} |", flush=True)
                continue
            found, took = numbers(data, options.seeds, options.walk)
            (number, times), *_ = Counter(found).most_common(1)
            steady += times >= 0.9 * len(found)
            print(f"{head} {' '.join(map(str, found))} | {number}, {times} of {len(found)} | {took:.1f} |", flush=True)
    if not options.given:
        print(f"the same number for nine of ten seeds on {steady} of {len(options.sets)} sets")


if __name__ == "__main__":
    main()
