"""Is the number of blocks that is chosen by default the same for every seed, and are the blocks?

    pip install ".[bench]" networkx
    python benchmarks/seeds_communities.py                 # ten seeds of real graphs

Graphs: those of $LATENTFIT_DATA (or ../shared/data), and those that come with networkx. The number is counted in the
spectrum and is a function of the graph; the agreement of the divisions of different seeds (adjusted Rand index, the
least and the mean over pairs with the first seed) hangs on the initialisations.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable

import networkx as nx
import numpy as np
import scipy.sparse as sp
from communities import REAL, read_real
from sklearn.metrics import adjusted_rand_score

from latentfit import BlockModel
from latentfit.engine.limits import one_blas_thread

SEEDS = 10


def of_networkx(make: Callable[[], nx.Graph]) -> Callable[[], sp.csr_array]:
    return lambda: sp.csr_array(nx.to_scipy_sparse_array(make(), dtype=float))


GRAPHS: dict[str, Callable[[], sp.csr_array]] = {
    **{name: (lambda name=name: read_real(name)[0]) for name in REAL},
    "davis": of_networkx(nx.davis_southern_women_graph),
    "florentine": of_networkx(nx.florentine_families_graph),
    "les miserables": of_networkx(nx.les_miserables_graph),
    "krackhardt kite": of_networkx(nx.krackhardt_kite_graph),
    "karate, weighted": of_networkx(nx.karate_club_graph),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    options = parser.parse_args()
    steady = 0
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print("| graph | nodes | edges | blocks by seed | least, mean agreement | verdict | CPU s a fit, its report |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name in options.graphs:
            graph = GRAPHS[name]()
            begin = time.process_time()
            fits = [BlockModel(random_state=seed, n_jobs=1).fit(graph) for seed in range(options.seeds)]
            took = (time.process_time() - begin) / len(fits)
            begin = time.process_time()
            verdict = fits[0].report_.verdict
            report = time.process_time() - begin
            alike = [adjusted_rand_score(fits[0].labels_, fit.labels_) for fit in fits[1:]] or [1.0]
            found = [fit.n_blocks_ for fit in fits]
            (_, times), *_ = Counter(found).most_common(1)
            steady += times >= 0.9 * len(found)
            print(
                f"| {name} | {graph.shape[0]} | {graph.nnz // 2} | {' '.join(map(str, found))} | {min(alike):.2f}, "
                f"{np.mean(alike):.2f} | {verdict} | {took:.2f}, {report:.2f} |",
                flush=True,
            )
    print(f"the same number for nine of ten seeds on {steady} of {len(options.graphs)} graphs")


if __name__ == "__main__":
    main()
