"""Does the seed decide? The number of topics chosen by default, and the topics at one number, over ten seeds.

python benchmarks/seeds_topics.py number
python benchmarks/seeds_topics.py splits --seeds 5
python benchmarks/seeds_topics.py topics --topics 10 --seeds 5

`number`: `TopicModel(random_state=s)` on each corpus, s = 0 … 9. `splits`: the same choice with the documents split
anew for every seed, which `TopicModel` does not do: how much of the number is the corpus', and how much the split's;
beside it the numbers that one split itself calls plausible. `topics`: objectives per token, and the distance (total
variation, after matching) of the topics of every seed to those of the first.

Corpora: bbc_news, m10 and state_union from $LATENTFIT_DATA/pairs (or ../shared/data/pairs), and the docstrings of
installed
packages, one document for each public function, method and class, lower-cased, without words of fewer than five or of
more than three tenths of the documents. A folder of more of them, one `NAME.txt` with a document a line, is --folder.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import data_folder

from latentfit import TopicModel
from latentfit.core.assign import match_classes
from latentfit.io.scan import scan
from latentfit.topics.data.documents import Documents
from latentfit.topics.data.input import read_documents
from latentfit.topics.diagnostics.verdict import distances
from latentfit.topics.select import choose_topics

SHARED = ("bbc_news", "m10", "state_union")
PACKAGES = ("scipy", "sklearn", "pandas", "numpy", "networkx", "polars", "pyarrow", "statsmodels", "dask")
RAREST, COMMONEST, SHORTEST = 5, 0.3, 5


def documented(package: str) -> Iterator[tuple[str, str]]:
    """Names and docstrings of what a package and its public modules define."""
    root = importlib.import_module(package)
    modules = [root]
    for info in pkgutil.iter_modules(getattr(root, "__path__", []), package + "."):
        if not info.name.rpartition(".")[2].startswith("_"):
            try:
                modules.append(importlib.import_module(info.name))
            except Exception:  # a module that needs what is not installed
                continue
    for module in modules:
        for name, thing in vars(module).items():
            home = str(getattr(thing, "__module__", ""))
            if name.startswith("_") or not home.startswith(package):
                continue
            if inspect.isclass(thing) or inspect.isroutine(thing):
                yield f"{home}.{name}", str(thing.__doc__ or "")
            if inspect.isclass(thing):
                for own, member in vars(thing).items():
                    if not own.startswith("_") and inspect.isroutine(member):
                        yield f"{home}.{name}.{own}", str(member.__doc__ or "")


def docstrings(package: str) -> Documents:
    found: dict[str, Any] = dict(documented(package))
    texts = [re.findall(r"[a-z]{3,}", found[name].lower()) for name in sorted(found)]
    texts = list({tuple(text): text for text in texts if text}.values())  # one function under two names is one document
    spread = Counter(word for text in texts for word in set(text))
    kept = {word for word, number in spread.items() if RAREST <= number <= COMMONEST * len(texts)}
    short = [[word for word in text if word in kept] for text in texts]
    return read_documents([text for text in short if len(text) >= SHORTEST])


def corpora(names: list[str], folder: str | None) -> Iterator[tuple[str, Documents]]:
    for name in names:
        if name in SHARED:
            yield name, read_documents(scan(data_folder("pairs") / f"{name}.docs.txt.gz"))
        else:
            try:
                yield f"docstrings of {name}", docstrings(name)
            except ImportError:
                print(f"| {name} | not installed |")
    for path in sorted(Path(folder).glob("*.txt")) if folder else []:
        yield path.stem, read_documents(scan(path))


def told(numbers: list[int]) -> str:
    common = Counter(numbers).most_common()
    return f"{common[0][1]} of {len(numbers)} | " + ", ".join(f"{number} × {times}" for number, times in common)


def number(name: str, documents: Documents, seeds: int) -> None:
    begin, found, verdicts = time.process_time(), [], []
    for seed in range(seeds):
        model = TopicModel(random_state=seed, n_jobs=1).fit(documents)
        found.append(model.n_topics_)
        verdicts.append(model.report_.verdict)
    plausible = (model.selection_ or {}).get("plausible", [model.n_topics_])
    seconds = (time.process_time() - begin) / seeds
    size = f"{documents.n_documents:,} | {documents.n_words:,}"
    print(f"| {name} | {size} | {told(found)} | {plausible} | {dict(Counter(verdicts))} | {seconds:.1f} |", flush=True)


def splits(name: str, documents: Documents, seeds: int) -> None:
    found = [choose_topics(documents, seed, n_jobs=1) for seed in range(seeds)]
    numbers = [one.chosen for one in found]
    inside = sum(one.chosen in (found[0].plausible or (found[0].chosen,)) for one in found)
    print(f"| {name} | {told(numbers)} | {inside} of {seeds} in {list(found[0].plausible)} |", flush=True)


def topics(name: str, documents: Documents, seeds: int, n_topics: int, n_init: int) -> None:
    first, apart, values, winners = None, [], [], []
    for seed in range(seeds):
        model = TopicModel(n_topics, n_init=n_init, random_state=seed, n_jobs=1).fit(documents)
        values.append(model.objective_ / documents.total)
        winners.append(next((note for note in model._notes if "start" in note), ""))
        first = model.topics_ if first is None else first
        between = distances(first, model.topics_)
        apart.append(float(between[np.arange(n_topics), match_classes(-between)].mean()))
    shown = ", ".join(f"{value:.4f}" for value in values)
    print(f"| {name} | {n_topics} | {shown} | {max(apart):.3f} | {Counter(winners).most_common(1)[0]} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["number", "splits", "topics"])
    parser.add_argument("--corpora", default=",".join(SHARED + PACKAGES))
    parser.add_argument("--folder")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--init", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, documents in corpora(asked.corpora.split(","), asked.folder):
        if asked.part == "topics":
            topics(name, documents, asked.seeds, asked.topics, asked.init)
        else:
            {"number": number, "splits": splits}[asked.part](name, documents, asked.seeds)


if __name__ == "__main__":
    main()
