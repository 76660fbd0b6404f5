"""Topics beside scikit-learn's LDA: held-out likelihood, coherence, seconds; the number of topics; growing corpora.

python benchmarks/topics.py peers --corpora bbc_news,m10,state_union --topics 10,20 --splits 3
python benchmarks/topics.py number --repeats 20
python benchmarks/topics.py time

`peers`: four fifths of the documents are fitted. Of every other document half of the tokens, drawn once for everybody,
give its shares (each program's own `transform`), the other half is predicted: nats per token. Coherence is NPMI of the
ten top words over the fitted documents. Seconds are CPU seconds of `fit` on one thread, the choice of pseudo-counts
included. scikit-learn runs with its defaults (batch, 10 passes) and with 50 passes. The corpora are looked for in
$LATENTFIT_DATA/pairs, or ../shared/data/pairs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from harness import data_folder
from sklearn.decomposition import LatentDirichletAllocation

from latentfit import TopicModel
from latentfit.engine.limits import one_blas_thread
from latentfit.io.scan import scan
from latentfit.simulate import topic_documents
from latentfit.topics.data.documents import Documents
from latentfit.topics.data.input import read_documents
from latentfit.topics.diagnostics.coherence import npmi_coherence
from latentfit.topics.select import choose_topics

TEST_SHARE = 0.2
WORLDS = {
    "500 words, 1,000 documents of 60": {"n_documents": 1000, "n_words": 500, "length": 60},
    "1,000 words, Zipf, denser shares": {
        "n_documents": 1000, "n_words": 1000, "length": 60, "alpha": 0.3, "spread": 0.05, "zipf": 0.8,
    },
    "2,000 words, Zipf, documents of 30": {
        "n_documents": 2000, "n_words": 2000, "length": 30, "spread": 0.05, "zipf": 1.0,
    },
    "500 words, 300 documents of 30": {"n_documents": 300, "n_words": 500, "length": 30},
    "the same, weights 1/rank": {"n_documents": 300, "n_words": 500, "length": 30, "uneven": True},
    "500 words, 120 documents of 20, topics that overlap": {
        "n_documents": 120, "n_words": 500, "length": 20, "spread": 0.5,
    },
}  # fmt: skip
Fitted = tuple[np.ndarray, Callable[[Documents], np.ndarray]]


def fit_latentfit(documents: Documents, n_topics: int, seed: int) -> Fitted:
    model = TopicModel(n_topics, random_state=seed, n_jobs=1).fit(documents)
    return model.topics_, model.transform


def fit_sklearn(passes: int) -> Callable[[Documents, int, int], Fitted]:
    def fit(documents: Documents, n_topics: int, seed: int) -> Fitted:
        model = LatentDirichletAllocation(n_topics, max_iter=passes, random_state=seed)
        model.fit(sp.csr_matrix(documents.matrix))
        topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
        return topics, lambda some: model.transform(sp.csr_matrix(some.matrix))

    return fit


METHODS: dict[str, Callable[[Documents, int, int], Fitted]] = {
    "latentfit": fit_latentfit,
    "sklearn, 10 passes": fit_sklearn(10),
    "sklearn, 50 passes": fit_sklearn(50),
}


def predicted(topics: np.ndarray, proportions: np.ndarray, hidden: Documents) -> float:
    """Nats per hidden token."""
    cells = hidden.matrix.tocoo()
    chance = (proportions[cells.row] * topics.T[cells.col]).sum(axis=1)
    return float((cells.data * np.log(np.maximum(chance, 1e-300))).sum() / cells.data.sum())


def peers(corpora: list[str], numbers: list[int], splits: int, methods: list[str]) -> None:
    folder = data_folder("pairs")
    print("| corpus | K | method | held-out nats | NPMI | CPU s | times latentfit's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in corpora:
        path = folder / f"{name}.docs.txt.gz"
        if not path.exists():
            print(f"| {name} | – | skipped: no {path} | | | | |")
            continue
        documents = read_documents(scan(path))
        for number in numbers:
            rows: dict[str, list[list[float]]] = {method: [] for method in methods}
            for split in range(splits):
                order = np.random.default_rng(split).permutation(documents.n_documents)
                cut = int(TEST_SHARE * len(order))
                test, train = documents.take(np.sort(order[:cut])), documents.take(np.sort(order[cut:]))
                given, hidden = test.split(0.5, 100 + split)
                for method in methods:
                    begin = time.process_time()
                    topics, transform = METHODS[method](train, number, split)
                    seconds = time.process_time() - begin
                    score = predicted(topics, transform(given), hidden)
                    rows[method].append([score, float(np.nanmean(npmi_coherence(train, topics))), seconds])
            for method, found in rows.items():
                score, npmi, seconds = np.mean(found, axis=0)
                ratio = seconds / np.mean(rows["latentfit"], axis=0)[2] if "latentfit" in rows else np.nan
                shown = f"{score:.4f} | {npmi:.3f} | {seconds:.2f} | {ratio:.1f}"
                print(f"| {name} | {number} | {method} | {shown} |", flush=True)


def number(repeats: int, last: int) -> None:
    print("| documents | K | right | too few | too many |")
    print("| --- | --- | --- | --- | --- |")
    for name, world in list(WORLDS.items())[-last:]:
        for true in range(1, 11):
            found = []
            for repeat in range(repeats):
                weights = 1 / np.arange(1.0, true + 1) if "uneven" in world else None
                shape = {key: value for key, value in world.items() if key != "uneven"}
                made = topic_documents(n_topics=true, weights=weights, random_state=1000 * true + repeat, **shape)
                found.append(choose_topics(read_documents(made.counts), 0).chosen)
            right, few = np.mean(np.array(found) == true), np.mean(np.array(found) < true)
            print(f"| {name} | {true} | {right:.2f} | {few:.2f} | {1 - right - few:.2f} |", flush=True)


def timing() -> None:
    print("| documents | words | tokens | K | latentfit CPU s | sklearn, 10 passes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for documents, words, number_ in (
        (2_000, 2_000, 10),
        (10_000, 10_000, 10),
        (50_000, 20_000, 10),
        (10_000, 10_000, 50),
    ):
        made = read_documents(topic_documents(documents, words, number_, length=100, zipf=0.8, random_state=0).counts)
        seconds = []
        for method in ("latentfit", "sklearn, 10 passes"):
            if method != "latentfit" and documents > 10_000:
                seconds.append(float("nan"))
                continue
            begin = time.process_time()
            METHODS[method](made, number_, 0)
            seconds.append(time.process_time() - begin)
        size = f"{documents:,} | {words:,} | {made.total:,.0f} | {number_}"
        print(f"| {size} | {seconds[0]:.2f} | {seconds[1]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["peers", "number", "time"])
    parser.add_argument("--corpora", default="bbc_news,m10,state_union")
    parser.add_argument("--topics", default="10")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--methods", default="; ".join(METHODS), help="separated by '; '")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--last", type=int, default=0, help="only so many of the last worlds of `number`")
    options = parser.parse_args()
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.part == "peers":
            numbers = [int(number) for number in options.topics.split(",")]
            peers(options.corpora.split(","), numbers, options.splits, options.methods.split("; "))
        elif options.part == "number":
            number(options.repeats, options.last)
        else:
            timing()


if __name__ == "__main__":
    main()
