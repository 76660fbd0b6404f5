"""Communities side by side: Latentfit, the Bethe Hessian, scikit-learn's spectral clustering and Leiden.

    pip install ".[bench]" leidenalg igraph
    python benchmarks/communities.py overlap --repeats 5         # simulated graphs, degrees 3 to 20, K = 2 and 5
    python benchmarks/communities.py real --seeds 10             # graphs with known groups: NMI
    python benchmarks/communities.py number --repeats 10         # K = 1 to 10 found
    python benchmarks/communities.py threshold --repeats 10      # overlap and verdict across the detection threshold
    python benchmarks/communities.py time                        # a million edges beside scipy's svds

Overlap is (share right after the best match − 1/K) / (1 − 1/K): 0 is guessing. Peers are told K, except Leiden, which
maximises modularity; the Bethe Hessian gets the better of plain and unit rows (by k-means, ten draws each: by truth, so
that the rival is as good as it can be). Seconds are CPU seconds. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from harness import data_folder
from scipy.sparse.linalg import eigsh, svds
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import normalized_mutual_info_score

from latentfit import BlockModel
from latentfit.communities.select import choose_blocks
from latentfit.engine.limits import one_blas_thread
from latentfit.simulate import BlockGraph, block_graph
from reproduction.pairs_communities import overlap

REAL = ("karate", "football", "polblogs", "eurosis", "news_5cl1_0.1")
NODES, POWER, FIRST_SEED = 3000, 2.5, 100


def bethe_hessian(matrix: sp.csr_array, K: int, unit: bool) -> np.ndarray:
    degrees = np.asarray(matrix.sum(axis=1)).reshape(-1)
    r = np.sqrt((degrees**2).sum() / degrees.sum() - 1)
    H = sp.csr_array(sp.diags_array(degrees + r**2 - 1) - r * matrix)
    vectors = eigsh(H, k=K, which="SA")[1]
    if unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return KMeans(K, n_init=10, random_state=0).fit_predict(vectors)


def spectral_clustering(matrix: sp.csr_array, K: int) -> np.ndarray:
    model = SpectralClustering(K, affinity="precomputed", random_state=0)
    indices, offsets = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return model.fit_predict(sp.csr_matrix((matrix.data, indices, offsets), shape=matrix.shape))


def leiden(matrix: sp.csr_array, seed: int = 0) -> np.ndarray:
    import igraph
    import leidenalg

    at = sp.triu(matrix).tocoo()
    graph = igraph.Graph(n=matrix.shape[0], edges=np.column_stack([at.row, at.col]).tolist())
    found = leidenalg.find_partition(graph, leidenalg.ModularityVertexPartition, seed=seed, n_iterations=-1)
    return np.array(found.membership)


def timed(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


def run_all(made: BlockGraph) -> tuple[list[float], list[float]]:
    """Overlaps and CPU seconds of Latentfit, the Bethe Hessian with plain and unit rows, spectral clustering,
    Leiden."""
    A, K = made.matrix, len(made.affinity)
    runs: list[Callable[[], np.ndarray]] = [
        lambda: BlockModel(K).fit(A).labels_,
        lambda: bethe_hessian(A, K, False),
        lambda: bethe_hessian(A, K, True),
        lambda: spectral_clustering(A, K),
        lambda: leiden(A),
    ]
    results = [timed(run) for run in runs]
    return [overlap(made.blocks, labels) for labels, _ in results], [seconds for _, seconds in results]


def compare_overlap(degrees: list[float], sizes: list[int], strengths: list[float], repeats: int) -> None:
    print(
        "| K | degree | strength | degrees | Latentfit | Bethe Hessian | spectral | Leiden | Latentfit − best | CPU s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for K in sizes:
        for power in (None, POWER):
            for degree in degrees:
                for strength in strengths:
                    if strength >= degree:
                        continue
                    rows, took = [], []
                    for repeat in range(repeats):
                        seed = FIRST_SEED + repeat
                        made = block_graph(NODES, K, degree, strength=strength, power=power, random_state=seed)
                        found, seconds = run_all(made)
                        rows.append([found[0], max(found[1:3]), found[3], found[4]])
                        took.append([seconds[0], seconds[1], seconds[3], seconds[4]])
                    mean, cost = np.mean(rows, axis=0), np.mean(took, axis=0)
                    cells = " | ".join(f"{value:.3f}" for value in mean)
                    times = ", ".join(f"{value:.2f}" for value in cost)
                    kind = "Poisson" if power is None else f"power law {power}"
                    ahead = mean[0] - mean[1:].max()
                    head = f"| {K} | {degree:g} | {strength:g} | {kind}"
                    print(f"{head} | {cells} | {ahead:+.3f} | {times} |", flush=True)


def read_real(name: str) -> tuple[sp.csr_array, np.ndarray]:
    folder = data_folder("pairs")
    with gzip.open(folder / f"{name}.labels.txt.gz", "rt") as stream:
        truth = np.unique([line.strip() for line in stream], return_inverse=True)[1]
    with gzip.open(folder / f"{name}.edges.txt.gz", "rt") as stream:
        edges = np.loadtxt(stream, np.int64)
    ends = (np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]]))
    matrix = sp.coo_array((np.ones(2 * len(edges)), ends), shape=(len(truth), len(truth))).tocsr()
    return sp.csr_array(matrix), truth


def compare_real(names: list[str], seeds: int) -> None:
    print("| graph | groups | K found | Latentfit | K told: Latentfit | Bethe Hessian | spectral | Leiden | its K |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in names:
        A, truth = read_real(name)
        K = int(truth.max()) + 1

        def nmi(found: np.ndarray, truth: np.ndarray = truth) -> float:
            return float(normalized_mutual_info_score(truth, found))

        free, told, rival, numbers = [], [], [], []
        for seed in range(seeds):
            model = BlockModel(random_state=seed).fit(A)
            free.append(nmi(model.labels_))
            told.append(nmi(BlockModel(K, random_state=seed).fit(A).labels_))
            theirs = leiden(A, seed)
            rival.append(nmi(theirs))
            numbers.append(theirs.max() + 1)
        peers = [nmi(bethe_hessian(A, K, True)), nmi(spectral_clustering(A, K))]
        rows.append([np.mean(free), np.mean(told), *peers, np.mean(rival)])
        ours, knowing, theirs_ = (f"{np.mean(each):.3f} ± {np.std(each):.3f}" for each in (free, told, rival))
        print(
            f"| {name} | {K} | {model.n_blocks_} | {ours} | {knowing} | {peers[0]:.3f} | {peers[1]:.3f} | {theirs_} | "
            f"{np.mean(numbers):.1f} |",
            flush=True,
        )
    mean = np.mean(rows, axis=0)
    print(f"| mean | | | {mean[0]:.3f} | {mean[1]:.3f} | {mean[2]:.3f} | {mean[3]:.3f} | {mean[4]:.3f} | |")


def number_found(repeats: int) -> None:
    print("| nodes | degree | strength | degrees | right, K = 2–10 | one too few | K = 1 split |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    every, split = [], []
    for n, degree, strength in [(1000, 10, 3), (2000, 5, 2), (2000, 12, 2), (3000, 8, 2), (3000, 20, 3)]:
        for power in (None, POWER):
            found = np.array([
                [K, choose_blocks(
                    block_graph(n, K, degree, strength=strength, power=power, random_state=FIRST_SEED + repeat).matrix
                ).chosen]
                for repeat in range(repeats) for K in range(1, 11)
            ])  # fmt: skip
            one, more = found[found[:, 0] == 1], found[found[:, 0] > 1]
            every += (found[:, 0] == found[:, 1]).tolist()
            split += (one[:, 1] > 1).tolist()
            proportions = [
                (more[:, 1] == more[:, 0]).mean(),
                (more[:, 1] == more[:, 0] - 1).mean(),
                (one[:, 1] > 1).mean(),
            ]
            kind = "Poisson" if power is None else f"power law {power}"
            cells = " | ".join(f"{share:.2f}" for share in proportions)
            print(f"| {n} | {degree} | {strength} | {kind} | {cells} |", flush=True)
    print(f"all: right {np.mean(every):.3f} of {len(every)}, K = 1 split {np.mean(split):.3f} of {len(split)}")


def threshold(repeats: int) -> None:
    print("| K | strength | overlap | expected by the model | not identifiable | caution | trusted |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for K in (2, 4):
        for strength in (0.0, 0.3, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0):
            seen, hoped, verdicts = [], [], []
            for repeat in range(repeats):
                made = block_graph(NODES, K, 5.0, strength=strength, random_state=FIRST_SEED + repeat)
                model = BlockModel(K).fit(made.matrix)
                seen.append(overlap(made.blocks, model.labels_))
                hoped.append(model.report_.quantities["expected_overlap"])
                verdicts.append(model.report_.verdict)
            proportions = [verdicts.count(word) / repeats for word in ("not identifiable", "caution", "ok")]
            cells = " | ".join(f"{share:.2f}" for share in proportions)
            print(f"| {K} | {strength} | {np.mean(seen):.3f} | {np.mean(hoped):.3f} | {cells} |", flush=True)


def timing() -> None:
    print("| nodes | edges | K | svds, s | Latentfit, s | read | start | fit | ratio without reading | overlap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for n, K in [(100_000, 5), (300_000, 5), (100_000, 2), (100_000, 10)]:
        made = block_graph(n, K, 2e6 / n, strength=3.0, random_state=1)
        begin = time.perf_counter()
        svds(made.matrix, k=K)
        base = time.perf_counter() - begin
        begin = time.perf_counter()
        model = BlockModel(K, n_jobs=1).fit(made.matrix)
        whole = time.perf_counter() - begin
        part = model._clock.seconds
        stages = " | ".join(f"{part[name]:.2f}" for name in ("data", "factor", "refine"))
        ratio = (whole - part["data"]) / base
        found, edges = overlap(made.blocks, model.labels_), made.matrix.nnz // 2
        print(f"| {n} | {edges} | {K} | {base:.2f} | {whole:.2f} | {stages} | {ratio:.1f} | {found:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["overlap", "real", "number", "threshold", "time"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--graphs", nargs="+", default=list(REAL))
    parser.add_argument("--degrees", default="3,5,8,12,20")
    parser.add_argument("--blocks", default="2,5")
    parser.add_argument("--strengths", default="1.5,2.5,4")
    options = parser.parse_args()
    numbers = [[float(value) for value in text.split(",")] for text in (options.degrees, options.strengths)]
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.part == "overlap":
            compare_overlap(numbers[0], [int(K) for K in options.blocks.split(",")], numbers[1], options.repeats)
        elif options.part == "real":
            compare_real(options.graphs, options.seeds)
        elif options.part == "number":
            number_found(options.repeats)
        elif options.part == "threshold":
            threshold(options.repeats)
        else:
            timing()


if __name__ == "__main__":
    main()
