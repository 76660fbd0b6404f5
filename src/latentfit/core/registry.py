"""The model families: the only list of them. One row names a family's estimators, commands and report page.

Modules are named as text and imported when asked for, so that neither ``import latentfit`` nor ``latentfit --help``
imports scikit-learn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latentfit.core.estimator import LatentModel


@dataclass(frozen=True)
class Estimator:
    """An estimator: its module, and how the commands ``predict`` and ``report`` use a saved model of it."""

    name: str
    module: str
    predictor: str
    """`module:function` called with the model and the request of ``latentfit predict``."""
    reader: str | None
    """`module:function` that reads a data file for the report; None: its report uses no data."""
    predicts: str
    """What it predicts, as messages say it."""
    roles: tuple[str, ...] = ("id",)
    """Roles of the columns that its data files may have."""
    has_page: bool = True
    """Whether the page of its family is made for it; otherwise it gets the plain page."""


@dataclass(frozen=True)
class Command:
    """A command: its module, one line of help, and for commands that fit an example to copy."""

    name: str
    module: str
    summary: str
    example: str = ""


@dataclass(frozen=True)
class Family:
    """A model family: its package `latentfit.<name>`, whose module `page` has `page_of(fitted, context)`."""

    name: str
    estimators: tuple[Estimator, ...]
    commands: tuple[Command, ...]
    simulates: bool = True
    """Whether it has a module `simulate`."""


ROWS = "latentfit.cli.rows:predict_rows", "latentfit.cli.rows:read_table_input"
"""Predictor and reader of estimators of table rows."""
FAMILIES = (
    Family("labels", (
        Estimator("DawidSkene", "latentfit.labels.estimator.dawid_skene", "latentfit.labels.cli:predict_tasks",
                  "latentfit.labels.cli:read_input", "the labels of tasks", ("task", "worker", "label")),
    ), (
        Command("labels", "latentfit.labels.cli", "Consensus labels from noisy annotators",
                "latentfit labels votes.csv --out consensus            # columns task, worker, label"),
        Command("plan", "latentfit.labels.cli", "Which labels to ask for next",
                "latentfit plan votes.csv --budget 500"),
    )),
    Family("tables", (
        Estimator("LatentClass", "latentfit.tables.estimator.latent_class", *ROWS, "classes"),
        Estimator("LatentClassClassifier", "latentfit.tables.estimator.classifier", *ROWS, "its own label",
                  has_page=False),
        Estimator("LatentClassImputer", "latentfit.tables.estimator.latent_class", *ROWS, "classes", has_page=False),
    ), (
        Command("table", "latentfit.tables.cli", "Latent classes and the joint distribution of a categorical table",
                "latentfit table survey.csv --id person --out classes  # any categories"),
        Command("impute", "latentfit.tables.cli", "Fill the missing values of a table with a saved model"),
        Command("query", "latentfit.tables.cli", "Ask a saved model for probabilities, expectations, information"),
        Command("sample", "latentfit.cli.sample", "Draw rows from a saved model"),
    ), simulates=False),
    Family("clusters", (
        Estimator("BernoulliMixture", "latentfit.clusters.estimator", *ROWS, "clusters"),
    ), (
        Command("cluster", "latentfit.clusters.cli", "Clusters of yes/no rows, their number found",
                "latentfit cluster symptoms.csv --id patient           # 0/1, true/false or yes/no"),
    )),
    Family("factors", (
        Estimator("BinaryFactors", "latentfit.factors.estimator",
                  "latentfit.factors.cli:predict_switches",
                  "latentfit.factors.cli:read_input", "switches"),
    ), (
        Command("factors", "latentfit.factors.cli", "Binary latent factors behind rows of numbers",
                "latentfit factors expression.csv --id sample          # numbers"),
    )),
    Family("admixture", (
        Estimator("Admixture", "latentfit.admixture.estimator", "latentfit.admixture.cli:predict_ancestry",
                  "latentfit.admixture.cli:read_input", "ancestry"),
    ), (
        Command("admixture", "latentfit.admixture.cli", "Ancestry proportions from genotypes",
                "latentfit admixture panel.bed --populations 4"),
    )),
    Family("fractions", (
        Estimator("MixtureFractions", "latentfit.fractions.estimator", "latentfit.fractions.cli:predict_fractions",
                  "latentfit.fractions.cli:read_input", "fractions"),
    ), (
        Command("fractions", "latentfit.fractions.cli",
                "In which fractions samples are mixed of parts, such as cell types",
                "latentfit fractions blood.csv --reference cells.csv"),
    ), simulates=False),
    Family("pairs", (
        Estimator("PairMatrix", "latentfit.pairs.estimator", "latentfit.pairs.cli:predict_pairs", None,
                  "how likely pairs are", ()),
    ), ()),
    Family("topics", (
        Estimator("TopicModel", "latentfit.topics.estimator", "latentfit.topics.cli:predict_topics",
                  "latentfit.topics.cli:read_input", "topics", ("document", "word", "count")),
    ), (
        Command("topics", "latentfit.topics.cli", "Topics of documents, and their proportions in every document",
                "latentfit topics news.txt.gz                          # one document per line"),
    )),
    Family("communities", (
        Estimator("BlockModel", "latentfit.communities.estimator", "latentfit.communities.cli:predict_communities",
                  "latentfit.communities.cli:read_input", "communities", ("source", "target", "weight")),
    ), (
        Command("communities", "latentfit.communities.cli", "Communities of a graph, their number found",
                "latentfit communities friends.csv                     # columns source, target"),
    )),
    Family("hmm", (
        Estimator("CategoricalHMM", "latentfit.hmm.estimator", "latentfit.hmm.cli:predict_states",
                  "latentfit.hmm.cli:read_input", "states", ("sequence", "symbol", "time")),
    ), (
        Command("hmm", "latentfit.hmm.cli", "Hidden states behind sequences of symbols",
                "latentfit hmm visits.csv                              # columns sequence, symbol"),
    )),
)  # fmt: skip
ESTIMATORS = {estimator.name: estimator for family in FAMILIES for estimator in family.estimators}
COMMANDS = {command.name: command for family in FAMILIES for command in family.commands}
PAGES = {one.name: f"latentfit.{family.name}.page" for family in FAMILIES for one in family.estimators if one.has_page}


def estimator_class(name: str) -> type[LatentModel]:
    """The class of an estimator, imported now."""
    found: type[LatentModel] = getattr(import_module(ESTIMATORS[name].module), name)
    return found


def function_at(place: str) -> Callable[..., Any]:
    """The function that a row names as `module:function`."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def simulators() -> Iterator[Any]:
    """The modules `simulate` of the families that have one."""
    return (import_module(f"latentfit.{family.name}.simulate") for family in FAMILIES if family.simulates)


def load(path: str | os.PathLike[str]) -> LatentModel:
    """Read a model file; damaged or foreign files raise `ModelFileError`.

    Parameters
    ----------
    path : str or path-like
        A file that `save` or a command wrote (`model.latent`; `model.tacit` of version 0.1.0).

    Returns
    -------
    LatentModel
        The fitted estimator.

    Examples
    --------
    >>> import tempfile
    >>> from latentfit import LatentClass, load
    >>> model = LatentClass(2).fit([["grey", "rain"], ["blue", "sun"]] * 20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.latent")
    ...     again = load(f"{folder}/model.latent")
    >>> type(again).__name__, bool((again.weights_ == model.weights_).all())
    ('LatentClass', True)
    """
    from latentfit import __version__
    from latentfit.core.errors import ModelFileError
    from latentfit.core.model_file import read_model

    file = read_model(path)
    if file.name not in ESTIMATORS:
        raise ModelFileError(
            f"{os.fspath(path)} holds a {file.name!r} model, which latentfit {__version__} does not know; "
            f"known are {', '.join(sorted(ESTIMATORS))}: update latentfit"
        )
    return estimator_class(file.name)._from_file(file, os.fspath(path))
