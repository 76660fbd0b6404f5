"""`latentfit topics`: what documents are about."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli import options
from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import Reading
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.topics.data.documents import Documents
    from latentfit.topics.estimator import TopicModel

SHOWN = 8
"""Words of a topic shown on the screen."""


@click.command()
@click.argument("files", metavar="DOCUMENTS…", nargs=-1, required=True)
@click.option(
    "--topics", "n_topics", type=options.HIDDEN, help="Number of topics; found from the documents by default."
)
@click.option("--max-topics", type=options.HIDDEN, help="Largest number of topics that is found.")
@click.option(
    "--words", "words_file", metavar="FILE", help="Names of the columns of a Matrix Market file, one per line."
)
@click.option("--init", "init_file", metavar="FILE", help="Topics to start from: a topics.csv, or a model.latent.")
@options.column_options(*ESTIMATORS["TopicModel"].roles)
@options.table_options
@options.max_iter_option
@options.reading_options
@options.strict_option
@options.output_options("latentfit-topics", report=True)
def topics(
    files: tuple[str, ...], n_topics: int | None, max_topics: int | None, words_file: str | None,
    init_file: str | None, document: str | None, word: str | None, count: str | None, engine: str,
    memory: int | None, threads: int | None, strict: bool, reading: Reading, max_iter: int | None,
    out: str,
    format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Topics of documents, their words, and their proportions in every document.

    DOCUMENTS is a table with the columns document, word and count, a text with a document per line (.txt, .txt.gz), or
    a Matrix Market file with one row per document (.mtx). Writes topics.csv (topic, word, probability, rank) and
    documents.csv (document, topic, proportion); documents of a text are called by the numbers of their lines, and in a
    folder of texts every file is a document, called by its name. Several files, globs, folders of tables and addresses
    (s3://…) of one kind are read one after the other.

    \b
    latentfit topics news.txt.gz --out topics
    latentfit topics counts.csv --topics 20
    latentfit topics 'corpus/*.parquet' --engine stream
    latentfit predict more.txt --model topics/model.latent
    """
    from latentfit.cli.rows import counted_files
    from latentfit.core.errors import DataError
    from latentfit.core.estimator import model_state
    from latentfit.topics.data.input import ALIASES
    from latentfit.topics.diagnostics.verdict import number_statement
    from latentfit.topics.estimator import TopicModel, document_columns, topic_columns

    console = Terminal(quiet)
    roles = options.chosen_columns(document=document, word=word, count=count)
    if _is_matrix(files):
        with console.doing("reading"):
            documents = _read_matrix(files[0], words_file)
    else:
        if words_file is not None:
            raise DataError(
                f"--words names the columns of a Matrix Market file, and {files[0]} has words of its own; leave it"
            )
        with counted_files(files, engine, memory, console, reading, ALIASES, also=roles.values()) as counted:
            documents = _read(counted, called(files[0]), roles)
    init = "auto" if init_file is None else read_init(init_file)
    model = TopicModel(
        n_topics, init=init, max_topics=max_topics, random_state=seed, n_jobs=threads, **options.at_most(max_iter)
    )
    with console.doing("fitting"):
        model.fit(documents)
        report = model.report_
    results = Results(out, format_, console, no_report=no_report)
    results.table("topics", topic_columns(model.words_, model.topics_), main=True)
    results.table("documents", document_columns(model.documents_, model.proportions_))
    results.model("TopicModel", *model_state(model))
    more = {
        "n_words": documents.n_words, "n_tokens": documents.total, "weights": model.weights_.tolist(),
        "top_words": [[str(word) for word in words] for words in model.top_words(10)],
        "coherence": [None if value != value else value for value in model.coherence_.tolist()],
    }  # fmt: skip
    inputs = [*files, words_file, init_file]
    summary = summarise(model, report, documents.n_documents, model.n_topics_, seed=seed, inputs=inputs) | more
    facts = (
        f"{number_of(summary['n_rows'], 'documents')}, {number_of(summary['n_words'], 'words')}, "
        f"{number_of(summary['n_tokens'], 'tokens')}, {number_statement(report, model.n_topics_)}"
    )
    page = partial(results.report, model, summary, input=documents)
    seen = partial(show, summary, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen, page=page)


def _is_matrix(files: tuple[str, ...]) -> bool:
    """Whether it is a Matrix Market file, which is read whole, alone."""
    from latentfit.core.errors import DataError
    from latentfit.io.matrix_market import is_matrix_market

    matrices = [name for name in files if is_matrix_market(name)]
    if matrices and len(files) > 1:
        raise DataError(f"{matrices[0]} is a Matrix Market file, and only one is read; give it alone")
    return bool(matrices)


def _read_matrix(path: str, words_file: str | None) -> Documents:
    """Documents of a Matrix Market file; `words_file` names its columns, one per line."""
    from latentfit.io.matrix_market import read_matrix_market
    from latentfit.io.text_lines import stream_lines
    from latentfit.topics.data.input import read_documents, rename_words

    documents = read_documents(read_matrix_market(path))
    if words_file is None:
        return documents
    return rename_words(documents, [line for batch in stream_lines(words_file) for line in batch], words_file)


def _read(counted: Any, name: str, columns: dict[str, str]) -> Documents:
    """Documents of counted files: texts with one per line, or tables with one row per document and word."""
    from latentfit.core.errors import DataError
    from latentfit.topics.data.input import is_named, read_documents

    if not is_named(counted, columns):
        raise DataError(
            f"{name} has the columns {counted.column_names[:8]}; give document, word and count, or say which "
            "they are with --document, --word and --count; where a column holds a text in every row, name it alone "
            "with --columns"
        )
    return read_documents(counted, columns=columns)


def read_known(path: str, columns: dict[str, str], console: Terminal, reading: Reading) -> Documents:
    """Documents of a file of any kind, for a model that knows their words."""
    from latentfit.cli.rows import counted_files
    from latentfit.topics.data.input import ALIASES

    if _is_matrix((path,)):
        return _read_matrix(path, None)
    with counted_files((path,), "memory", None, console, reading, ALIASES, also=columns.values()) as counted:
        return _read(counted, called(path), columns)


def read_init(path: str) -> Any:
    """Topics to start from: a fitted model, or a table (topic, word, probability)."""
    from latentfit.core.registry import load
    from latentfit.io.read import read_columns

    return load(path) if path.endswith((".latent", ".tacit")) else read_columns(path)


def show(summary: dict[str, Any], console: Terminal) -> None:
    """The topics and their words."""
    rows = [
        [str(k), f"{weight:.1%}", "–" if npmi is None else f"{npmi:.2f}", " ".join(words[:SHOWN])]
        for k, (weight, npmi, words) in enumerate(
            zip(summary["weights"], summary["coherence"], summary["top_words"], strict=True)
        )
    ]
    console.table("topics", ["topic", "share", "NPMI", "top words"], rows)


def predict_topics(model: TopicModel, request: PredictRequest) -> int:
    """Proportions of the topics in new documents: documents.csv, as `latentfit topics` writes it."""
    from latentfit.topics.estimator import document_columns

    with request.console.doing("reading"):
        documents = read_known(request.data_file, request.columns, request.console, request.reading)
        if not isinstance(model.words_[0], str) or isinstance(documents.words[0], str):
            proportions = model.transform(documents)
        else:  # a matrix without names: its columns are the model's words, in their order
            proportions = model.transform(documents.matrix)
    request.results.table("documents", document_columns(documents.names, proportions), main=True)
    return request.conclude(len(proportions), number_of(len(proportions), "documents"))


def read_input(
    model: TopicModel, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(path, columns, console, reading)}
