"""Label aggregation side by side: Latentfit, crowd-kit and snorkel on the same data, one fresh process each.

    pip install ".[bench]"
    python benchmarks/labels.py                  # all sizes, a few minutes
    python benchmarks/labels.py --sets trec      # one set

    python benchmarks/labels.py --startup        # from process start to files written, on bluebird

Prints seconds of `fit` on a pandas frame already in memory (coding included), the peak memory `fit` adds, the
error where the truth is known, and ratios to crowd-kit. Run it on an idle machine: nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from harness import PeakMemory, data_folder, fresh

MIXED = {"labels_per_task": 10, "kind": "one-coin", "skill": (0.4, 0.95)}  # from near guessing to good
SETS = {
    "bluebird": None,
    "dog52": None,
    "dog": None,
    "rte": None,
    "labelme": None,
    "trec": None,
    "0.5M": {"n_tasks": 50_000, "n_workers": 5_000, "n_classes": 4, **MIXED},
    "2M": {"n_tasks": 200_000, "n_workers": 20_000, "n_classes": 4, **MIXED},
    "2M hard": {"n_tasks": 200_000, "n_workers": 20_000, "n_classes": 4, **MIXED, "skill": (0.25, 0.6)},
    "5M": {"n_tasks": 500_000, "n_workers": 10_000, "n_classes": 5, **MIXED},
}
SYSTEMS = ("latentfit auto", "latentfit majority-em", "latentfit robust", "crowd-kit DawidSkene", "snorkel LabelModel")
MOST_DENSE_CELLS = 2 * 10**8  # snorkel wants a dense task × worker matrix of 8-byte integers, and copies of it


def load(name: str) -> tuple[pd.DataFrame, pd.Series]:
    if SETS[name] is not None:
        from latentfit.simulate import crowd

        made = crowd(**SETS[name], random_state=0)
        return made.labels.to_pandas(), made.truth.to_pandas().set_index("task")["label"]
    folder = data_folder("crowd") / name
    return pd.read_csv(folder / "labels.csv"), pd.read_csv(folder / "truth.csv").set_index("task")["label"]


Answers = Callable[[], tuple[pd.Series, pd.DataFrame]]
"""What a fitted system says afterwards: labels and probabilities by task. Asking is not what is measured."""


def fit_latentfit(method: str, labels: pd.DataFrame) -> Answers:
    from latentfit import DawidSkene

    model = DawidSkene(method=method).fit(labels)
    return lambda: (
        pd.Series(model.labels_, index=model.tasks_["task"]),
        pd.DataFrame(model.probabilities_, index=model.tasks_["task"], columns=model.classes_),
    )


def fit_crowdkit(labels: pd.DataFrame) -> Answers:
    from crowdkit.aggregation import DawidSkene

    model = DawidSkene().fit(labels)
    return lambda: (model.labels_, model.probas_)


def fit_snorkel(labels: pd.DataFrame) -> Answers:
    import torch
    from snorkel.labeling.model import LabelModel

    torch.set_num_threads(os.cpu_count() or 1)
    tasks, task = np.unique(labels["task"], return_inverse=True)
    workers, worker = np.unique(labels["worker"], return_inverse=True)
    matrix = np.full((len(tasks), len(workers)), -1)
    matrix[task, worker] = labels["label"]
    model = LabelModel(cardinality=int(labels["label"].max()) + 1, verbose=False)
    model.fit(matrix, seed=0, progress_bar=False)

    def answers():
        beliefs = model.predict_proba(matrix)
        return pd.Series(beliefs.argmax(axis=1), index=tasks), pd.DataFrame(beliefs, index=tasks)

    return answers


def run(system: str, name: str) -> dict:
    """One system on one set, in this process."""
    labels, truth = load(name)
    warnings.simplefilter("ignore")
    family, _, method = system.partition(" ")
    fit = {"latentfit": lambda frame: fit_latentfit(method, frame), "crowd-kit": fit_crowdkit, "snorkel": fit_snorkel}[
        family
    ]
    fit(labels.head(1000))  # imports and first calls are not what is measured
    with PeakMemory() as memory:
        begin = time.perf_counter()
        answers = fit(labels)
        seconds = time.perf_counter() - begin
    found, beliefs = answers()
    found = found.reindex(truth.index)
    beliefs = beliefs.reindex(columns=sorted(beliefs.columns))  # crowd-kit orders classes by appearance
    chance = beliefs.reindex(truth.index).to_numpy()[np.arange(len(truth)), truth.to_numpy().astype(int)]
    return {
        "seconds": seconds,
        "memory_mb": memory.added,
        "error": float((found != truth).mean() * 100),
        "log_loss": float(-np.log(np.maximum(np.nan_to_num(chance), 1e-15)).mean()),
    }


CROWDKIT_SCRIPT = """
import sys
import pandas as pd
from crowdkit.aggregation import DawidSkene
model = DawidSkene().fit(pd.read_csv(sys.argv[1]))
model.labels_.to_csv(sys.argv[2] + "/consensus.csv")
model.probas_.to_csv(sys.argv[2] + "/probabilities.csv")
model.errors_.to_csv(sys.argv[2] + "/confusion.csv")
"""


def startup(repeats: int = 7) -> None:
    """Median seconds of whole processes: read the file, fit, write the results."""
    source = data_folder("crowd") / "bluebird" / "labels.csv"
    with tempfile.TemporaryDirectory() as folder:
        latentfit = [sys.executable, "-c", "from latentfit.cli.main import run; run()", "labels", str(source)]
        commands = {
            "latentfit labels": [*latentfit, "--out", folder, "--quiet"],
            "crowd-kit script": [sys.executable, "-c", CROWDKIT_SCRIPT, str(source), folder],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                begin = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - begin)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:20} {value:6.2f} s (median of {repeats})")
    print(f"ratio {medians['crowd-kit script'] / medians['latentfit labels']:.1f}x")


def why_not(system: str, name: str) -> str | None:
    size = SETS[name]
    if size and system.startswith("snorkel") and size["n_tasks"] * size["n_workers"] > MOST_DENSE_CELLS:
        need = size["n_tasks"] * size["n_workers"] * 8 / 1e9
        return f"needs a dense {need:.0f} GB matrix"
    if size and system == "latentfit robust":
        return "pair list: for crowds of up to a few thousand workers"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument("--startup", action="store_true", help="whole processes on a small file")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(*options.run)))
        return
    if options.startup:
        startup()
        return
    head = f"{'set':9} {'system':22} {'seconds':>9} {'vs crowd-kit':>13} {'added MB':>9} {'error %':>8} {'log-loss':>9}"
    print(head)
    totals: dict[str, list[float]] = {}
    for name in options.sets:
        results = {}
        for system in sorted(options.systems, key=lambda s: not s.startswith("crowd-kit")):
            if reason := why_not(system, name):
                print(f"{name:9} {system:22} not run: {reason}", flush=True)
                continue
            row = fresh(__file__, "--run", system, name)
            if isinstance(row, str):
                print(f"{name:9} {system:22} {row}", flush=True)
                continue
            results[system] = row
            peer = results.get("crowd-kit DawidSkene")
            ratio = f"{peer['seconds'] / row['seconds']:.1f}x" if peer else "-"
            print(
                f"{name:9} {system:22} {row['seconds']:9.3f} {ratio:>13} {row['memory_mb']:9.0f} "
                f"{row['error']:8.2f} {row['log_loss']:9.3f}",
                flush=True,
            )
            if SETS[name] is None:
                totals.setdefault(system, []).append(row["error"])
    for system, errors in totals.items():
        print(f"mean error on {len(errors)} real crowds: {system:22} {np.mean(errors):6.2f} %")


if __name__ == "__main__":
    main()
