"""`tacit hmm`: hidden states behind sequences of symbols."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import numpy as np

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
    from tacit.data.sequences import Sequences
    from tacit.io.scan import Scan
    from tacit.models.categorical_hmm import CategoricalHMM

SHOWN = 8
"""Symbols shown of every state: those it shows most beyond their share."""


@click.command()
@click.argument("files", metavar="SEQUENCES…", nargs=-1, required=True)
@click.option("--states", type=int, help="Number of states; found from the data by default.")
@click.option("--init", type=click.Choice(["auto", "spectral", "random"]), default="auto", show_default=True)
@click.option("--smoothing", type=float, help="Pseudo-observations a state; chosen on sequences left out by default.")
@click.option("--letters", is_flag=True, help="In a text file every character is a symbol, not every word.")
@click.option("--gap", "gaps", multiple=True, metavar="SYMBOL", help="A symbol that means: not observed. Repeatable.")
@click.option("--sequence", metavar="COLUMN", help="Column that says which sequence a row belongs to.")
@click.option("--symbol", metavar="COLUMN", help="Column that holds the symbols.")
@reading_options
@click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'trusted'.")
@output_options("tacit-hmm", report=True)
def hmm(
    files: tuple[str, ...], states: int | None, init: str, smoothing: float | None, letters: bool,
    gaps: tuple[str, ...], sequence: str | None, symbol: str | None, engine: str, memory: int | None,
    threads: int | None, strict: bool, out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Hidden states behind sequences of symbols: words, letters, bases, events.

    SEQUENCES is a table with the columns sequence and symbol, rows in order of time (an empty symbol is a gap), or a
    text file (.txt, .txt.gz) with one sequence a line, words between blanks. Writes states.csv (sequence, position,
    symbol, state, probability) and parameters.csv (kind, from, to, probability). Several files, globs, folders and
    addresses (s3://…) of one kind are read one after the other.

    \b
    tacit hmm visits.csv --out states
    tacit hmm genome.txt --letters --gap N --states 2
    """
    from tacit.models.base import model_state
    from tacit.models.categorical_hmm import CategoricalHMM, parameter_columns, state_tables

    talk = Talk(quiet)
    columns = {role: name for role, name in (("sequence", sequence), ("symbol", symbol)) if name}
    if is_long(files, engine, memory):
        with counted_files(files, talk) as found, talk.heeding_warnings():
            data = scan_sequences(found, letters=letters, gaps=gaps, columns=columns)
    else:
        with talk.doing("reading"):
            data = read_sequence_file(files[0], letters=letters, gaps=gaps, columns=columns)
    model = CategoricalHMM(
        states, init=init, smoothing="auto" if smoothing is None else smoothing,  # type: ignore[arg-type]
        random_state=seed, n_jobs=threads,
    )  # fmt: skip
    with talk.doing("fitting"), talk.heeding_warnings():
        model.fit(data)
        report = model.report_
        entropy = model.entropy_rate(random_state=seed)
    results = Results(out, format_, talk, no_report=no_report)
    results.batches("states", state_tables(model, data), main=True)
    results.table("parameters", parameter_columns(model.chain_, model.symbols_))
    results.model("CategoricalHMM", *model_state(model))
    more = {
        "n_sequences": data.n_sequences, "n_symbols": data.n_symbols, "weights": model.weights_.tolist(),
        "smoothing": model.smoothing_, "entropy_rate": entropy.rate,
    }  # fmt: skip
    summary = summarise(model, report, data.n_steps, model.n_states_, seed=seed, inputs=files) | more
    facts = (
        f"{data.n_sequences:,} sequences, {data.n_steps:,} steps, {data.n_symbols:,} symbols, {model.n_states_} "
        f"states; {summary['log_likelihood'] / max(data.n_observed, 1):.4f} nats an observation, entropy rate "
        f"of the model {entropy.rate:.3f}"
    )
    page = partial(results.report, model, summary, input=data)
    seen = partial(show, model, talk)
    return conclude(summary, facts, talk, results, json_=json_, strict=strict, show=seen, page=page)


def read_sequence_file(
    path: str, *, letters: bool = False, gaps: tuple[str, ...] = (), columns: dict[str, str] | None = None
) -> Sequences:
    """Sequences of a file: a text with one a line, or a table."""
    from tacit.data.sequences import lines_to_sequences, read_sequences
    from tacit.io.read import read_columns
    from tacit.io.text_lines import is_text, read_lines

    if is_text(path):
        return lines_to_sequences([read_lines(path)], letters=letters, gaps=gaps, what=path)
    _refuse_letters(letters, path)
    return with_gaps(read_sequences(read_columns(path), columns=columns, what=called(path)), gaps)


def scan_sequences(
    found: Scan, *, letters: bool, gaps: tuple[str, ...], columns: dict[str, str]
) -> Sequences:
    """Sequences of long files, coded while reading."""
    from tacit.data.sequences import lines_to_sequences, read_sequences

    name = found.paths[0]
    if found.text:
        lines = (lines for _, lines in found.lines())
        return lines_to_sequences(lines, letters=letters, gaps=gaps, what=name)
    _refuse_letters(letters, name)
    return with_gaps(read_sequences(found, columns=columns, what=name), gaps)


def _refuse_letters(letters: bool, path: str) -> None:
    from tacit.errors import DataError

    if letters:
        raise DataError(f"--letters is for text files, and {path} is a table; leave it out, or give a .txt file")


def with_gaps(data: Sequences, gaps: tuple[str, ...]) -> Sequences:
    """The same sequences, the named symbols read as gaps."""
    from dataclasses import replace

    kept = np.array([str(symbol) not in gaps for symbol in data.symbols.tolist()], bool)
    recode = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)
    return replace(data, codes=recode[data.codes], symbols=data.symbols[kept])


def show(model: CategoricalHMM, talk: Talk) -> None:
    """The states and what they show."""
    share = model.weights_ @ model.emissions_
    rows = []
    for state, shown in enumerate(model.emissions_):
        lift = shown * np.log(np.maximum(shown, 1e-300) / np.maximum(share, 1e-300))
        top = np.argsort(-lift if model.n_states_ > 1 else -shown, kind="stable")[:SHOWN]
        stay = model.transitions_[state, state]
        words = " ".join(str(one) for one in model.symbols_[top])
        rows.append([str(state), f"{model.weights_[state]:.3f}", f"{stay:.3f}", words])
    talk.table("states", ["state", "share", "stays", "shows most"], rows)


def predict_states(
    model: CategoricalHMM, data_file: str, model_file: str, talk: Talk, results: Results, json_: bool
) -> int:
    """States of new sequences: states.csv, as `tacit hmm` writes it."""
    from tacit.data.sequences import read_sequences
    from tacit.models.categorical_hmm import state_tables

    letters = all(len(str(symbol)) == 1 for symbol in model.symbols_.tolist())
    from tacit.io.text_lines import is_text

    given = read_sequence_file(data_file, letters=letters and is_text(data_file))
    with talk.heeding_warnings():
        data = read_sequences(given, symbols=model.symbols_, what=data_file)
    results.batches("states", state_tables(model, data), main=True)
    summary = of_model(model_file, data.n_steps, log_likelihood=model.score(data))
    facts = f"{data.n_sequences:,} sequences, {data.n_steps:,} steps: their states predicted"
    return conclude(summary, facts, talk, results, json_=json_)
