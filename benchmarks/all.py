"""All benchmarks, one after another, and what they printed: docs/evidence/benchmarks/<name>.txt.

    pip install ".[bench,cluster,genetics]" pomegranate stepmix
    python benchmarks/all.py                      # on an idle machine; hours
    python benchmarks/all.py labels pairs-time    # these alone
    python benchmarks/all.py --missing            # those that have no file yet

A file names its command, the day, how busy the machine was when it began, and the versions of Latentfit and its
peers. It is written when the benchmark has ended well: what is there is whole.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
import time
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
COMMANDS = {
    "labels": "labels.py",
    "labels-startup": "labels.py --startup",
    "label-choices": "label_choices.py",
    "known-answers": "known_answers.py",
    "tables": "tables.py",
    "table-starts": "starts.py",
    "start-sample": "start_sample.py",
    "table-optima": "replicated_optima.py",
    "table-seeds": "seeds_tables.py",
    "impute": "impute.py",
    "clusters": "clusters.py",
    "cluster-stability": "cluster_stability.py",
    "cluster-seeds": "seeds_clusters.py",
    "cluster-theory": "cluster_theory.py --repeats 200",
    "factors-recovery": "factors.py recovery --repeats 100 --noise 0.1,0.2,0.4,0.6,0.8",
    "factors-candidates": "factors.py candidates --repeats 24 --rows 100000",
    "factors-number": "factors.py number --repeats 100",
    "factors-time": "factors.py time --switches 4,6,8,10,12 --rows 100000",
    "admixture": "admixture.py --panels hapmap-3 hapmap-4 500x20000",
    "admixture-large": "admixture.py --panels 1000x100000 --seeds 1",
    "pairs-time": "pairs.py",
    "pairs-number": "pairs.py number --repeats 4",
    "topics-peers": "topics.py peers --corpora bbc_news,m10,state_union --topics 10,20 --splits 3",
    "topics-number": "topics.py number --repeats 10",
    "topics-seeds": "seeds_topics.py number",
    "hmm-simulated": "hmm.py simulated",
    "hmm-real": "hmm.py real",
    "hmm-long": "hmm.py long",
    "hmm-pass": "hmm.py pass",
    "hmm-number": "hmm.py number --repeats 180",
    "hmm-seeds": "seeds_hmm.py",
    "communities-overlap": "communities.py overlap --repeats 1",
    "communities-real": "communities.py real",
    "communities-number": "communities.py number",
    "communities-threshold": "communities.py threshold",
    "communities-time": "communities.py time",
    "communities-seeds": "seeds_communities.py",
    "scale": "scale.py",
    "scale-labels": "scale.py --labels 1e6 1e7",
    "scale-factors": "scale.py factors",
    "scale-admixture": "scale.py admixture",
}
PROGRAMS = [
    *("latentfit", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "distributed"),
    *("crowd-kit", "snorkel", "stepmix", "pomegranate", "torch", "fastmixture", "hmmlearn", "leidenalg", "igraph"),
]


def versions() -> str:
    """The programs that are installed, with their versions."""
    found = [f"Python {platform.python_version()}"]
    for name in PROGRAMS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def run(name: str, folder: Path) -> bool:
    """Run one benchmark into its file; whether it ended well."""
    command, path = COMMANDS[name], folder / f"{name}.txt"
    busy, resume_from = os.getloadavg()[0], time.perf_counter()
    done = subprocess.run(
        [sys.executable, *shlex.split(f"benchmarks/{command}")], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    took = time.perf_counter() - resume_from
    print(f"{name}: {took / 60:.1f} minutes{f', exit code {done.returncode}' if done.returncode else ''}", flush=True)
    head = [
        f"$ python benchmarks/{command}",
        f"{date.today():%d %B %Y}, {took:.0f} seconds, {os.cpu_count()} cores, load {busy:.2f} at the beginning",
        versions(),
    ]
    whole = "\n".join([*head, "", done.stdout])
    if done.returncode == 0:
        part = path.with_suffix(".part")
        part.write_text(whole, encoding="utf-8")
        part.replace(path)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(COMMANDS)}")
    parser.add_argument("--missing", action="store_true", help="only those without a file")
    parser.add_argument(
        "--folder", type=Path, default=REPOSITORY / "docs" / "evidence" / "benchmarks", help="where the files go"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - COMMANDS.keys():
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; there are {', '.join(COMMANDS)}")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    there = {path.stem for path in chosen.folder.glob("*.txt")} if chosen.missing else set()
    ended_well = [run(name, chosen.folder) for name in chosen.names or COMMANDS if name not in there]
    return 0 if all(ended_well) else 1


if __name__ == "__main__":
    sys.exit(main())
