"""`tacit topics`: what documents are about."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.common import (
    Results,
    Talk,
    called,
    conclude,
    counted_files,
    is_long,
    of_model,
    output_options,
    reading_options,
    summarise,
)

if TYPE_CHECKING:
    from tacit.data.documents import Documents
    from tacit.models.topic_model import TopicModel

SHOWN = 8
"""Words of a topic shown on the screen."""


@click.command()
@click.argument("files", metavar="DOCUMENTS…", nargs=-1, required=True)
@click.option("--topics", "n_topics", type=int, help="Number of topics; found from the documents by default.")
@click.option("--max-topics", type=int, help="Largest number of topics that is found.")
@click.option("--words", "words_file", metavar="FILE", help="Names of the columns of a Matrix Market file, one a line.")
@click.option("--init", "init_file", metavar="FILE", help="Topics to start from: a topics.csv, or a model.tacit.")
@click.option("--document", metavar="COLUMN", help="Column that holds the document.")
@click.option("--word", metavar="COLUMN", help="Column that holds the word.")
@click.option("--count", metavar="COLUMN", help="Column that holds the count.")
@reading_options
@click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'trusted'.")
@output_options("tacit-topics", report=True)
def topics(
    files: tuple[str, ...], n_topics: int | None, max_topics: int | None, words_file: str | None,
    init_file: str | None, document: str | None, word: str | None, count: str | None, engine: str,
    memory: int | None, threads: int | None, strict: bool, out: str,
    format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Topics of documents, their words, and their shares in every document.

    DOCUMENTS is a table with the columns document, word and count, a text with one document a line (.txt, .txt.gz), or
    a Matrix Market file with one row per document (.mtx). Writes topics.csv (topic, word, probability, rank) and
    documents.csv (document, topic, proportion); documents of a text are called by the numbers of their lines. Several
    files, globs, folders and addresses (s3://…) of one kind are read one after the other.

    \b
    tacit topics news.txt.gz --out topics
    tacit topics counts.csv --topics 20
    tacit topics 'corpus/*.parquet' --engine stream
    tacit predict more.txt --model topics/model.tacit
    """
    from tacit.models.base import model_state
    from tacit.models.topic_model import TopicModel
    from tacit.models.topic_tables import document_columns, topic_columns

    talk = Talk(quiet)
    roles = {role: name for role, name in (("document", document), ("word", word), ("count", count)) if name}
    with talk.heeding_warnings():
        if is_long(files, engine, memory) and not _is_matrix(files):
            documents = scan_documents(files, words_file, roles, talk)
        else:
            with talk.doing("reading"):
                documents = read_document_file(files[0], words_file, roles)
        init = "auto" if init_file is None else read_init(init_file)
    model = TopicModel(n_topics, init=init, max_topics=max_topics, random_state=seed, n_jobs=threads)
    with talk.doing("fitting"), talk.heeding_warnings():
        model.fit(documents)
        report = model.report_
    results = Results(out, format_, talk, no_report=no_report)
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
        f"{summary['n_rows']:,} documents, {summary['n_words']:,} words, {summary['n_tokens']:,.0f} tokens, "
        f"{model.n_topics_} topics"
    )
    page = partial(results.report, model, summary, input=documents)
    seen = partial(show, summary, talk)
    return conclude(summary, facts, talk, results, json_=json_, strict=strict, show=seen, page=page)


def _is_matrix(files: tuple[str, ...]) -> bool:
    """Whether it is a Matrix Market file, which is read whole, alone."""
    from tacit.errors import DataError
    from tacit.io.document_file import kind_of

    matrices = [name for name in files if kind_of(name) == "mtx"]
    if matrices and len(files) > 1:
        raise DataError(f"{matrices[0]} is a Matrix Market file, and only one is read; give it alone")
    return bool(matrices)


def scan_documents(
    files: tuple[str, ...], words_file: str | None, columns: dict[str, str], talk: Talk
) -> Documents:
    """Documents of long files, counted while reading."""
    from tacit.data.document_input import read_documents

    if words_file is not None:
        raise _own_words(files[0])
    with counted_files(files, talk) as found:
        return read_documents(found, columns=columns)


def _own_words(path: str) -> Exception:
    from tacit.errors import DataError

    return DataError(f"--words names the columns of a Matrix Market file, and {path} has words of its own; leave it")


def read_document_file(path: str, words_file: str | None, columns: dict[str, str]) -> Documents:
    """Documents of a file of any kind; `words_file` names the columns of a Matrix Market file."""
    from tacit.data.document_input import is_long, read_documents, rename_words
    from tacit.errors import DataError
    from tacit.io.document_file import kind_of, read_matrix_market, read_text
    from tacit.io.read import read_columns

    kind = kind_of(path)
    if kind == "txt":
        return read_documents(read_text(path))
    if kind == "mtx":
        documents = read_documents(read_matrix_market(path))
        return documents if words_file is None else rename_words(documents, read_text(words_file), words_file)
    if words_file is not None:
        raise _own_words(path)
    table = read_columns(path)
    if not is_long(table, columns):
        raise DataError(
            f"{called(path)} has the columns {table.column_names[:8]}; give document, word and count, or say which "
            "they are with --document, --word and --count; a text in every row belongs into a .txt, one document a line"
        )
    return read_documents(table, columns=columns)


def read_init(path: str) -> Any:
    """Topics to start from: a fitted model, or a table (topic, word, probability)."""
    from tacit.io.read import read_columns
    from tacit.models import load

    return load(path) if path.endswith(".tacit") else read_columns(path)


def show(summary: dict[str, Any], talk: Talk) -> None:
    """The topics and their words."""
    rows = [
        [str(k), f"{weight:.1%}", "–" if npmi is None else f"{npmi:.2f}", " ".join(words[:SHOWN])]
        for k, (weight, npmi, words) in enumerate(
            zip(summary["weights"], summary["coherence"], summary["top_words"], strict=True)
        )
    ]
    talk.table("topics", ["topic", "share", "NPMI", "top words"], rows)


def predict_topics(
    model: TopicModel, data_file: str, model_file: str, talk: Talk, results: Results, json_: bool
) -> int:
    """Shares of the topics in new documents: documents.csv, as `tacit topics` writes it."""
    from tacit.models.topic_tables import document_columns

    with talk.doing("reading"), talk.heeding_warnings():
        documents = read_document_file(data_file, None, {})
        if not isinstance(model.words_[0], str) or isinstance(documents.words[0], str):
            shares = model.transform(documents)
        else:  # a matrix without names: its columns are the model's words, in their order
            shares = model.transform(documents.matrix)
    results.table("documents", document_columns(documents.names, shares), main=True)
    return conclude(of_model(model_file, len(shares)), f"{len(shares):,} documents", talk, results, json_=json_)
