"""`latentfit hmm`: hidden states behind sequences of symbols."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from latentfit.cli import options
from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import Reading
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.hmm.data import Sequences
    from latentfit.hmm.estimator import CategoricalHMM
    from latentfit.io.scan import Scan

SHOWN = 8
"""Symbols shown of every state: those it shows most beyond their frequency."""


@click.command()
@click.argument("files", metavar="SEQUENCES…", nargs=-1, required=True)
@click.option("--states", type=int, help="Number of states; found from the data by default.")
@click.option("--max-states", type=int, help="The largest number tried where --states is not given; 20 by default.")
@click.option("--init", type=click.Choice(["auto", "spectral", "random"]), default="auto", show_default=True)
@click.option("--smoothing", type=float, help="Pseudo-observations per state; chosen on sequences left out by default.")
@click.option("--letters", is_flag=True, help="In a text file every character is a symbol, not every word.")
@click.option(
    "--gap", "missing_symbols", multiple=True, metavar="SYMBOL", help="A symbol that means: not observed. Repeatable."
)
@options.column_options(*ESTIMATORS["CategoricalHMM"].roles)
@options.table_options
@options.max_iter_option
@options.reading_options
@options.strict_option
@options.output_options("latentfit-hmm", report=True)
def hmm(
    files: tuple[str, ...], states: int | None, max_states: int | None, init: str, smoothing: float | None,
    letters: bool, missing_symbols: tuple[str, ...], sequence: str | None, symbol: str | None, time: str | None,
    engine: str, memory: int | None, threads: int | None, strict: bool, reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Hidden states behind sequences of symbols: words, letters, bases, events.

    SEQUENCES is a table with the columns sequence and symbol, rows in order of time unless a column tells the time (an
    empty symbol is a missing value), or a text file (.txt, .txt.gz) with one sequence per line, words between blanks.
    Writes states.csv (sequence, position, symbol, state, probability) and parameters.csv (kind, from, to, probability).
    Several files, globs, folders and addresses (s3://…) of one kind are read one after the other.

    \b
    latentfit hmm visits.csv --out states
    latentfit hmm genome.txt --letters --gap N --states 2
    """
    from latentfit.cli.rows import counted_files
    from latentfit.core.estimator import model_state
    from latentfit.hmm.data import ALIASES
    from latentfit.hmm.diagnostics import number_is_rejected
    from latentfit.hmm.estimator import CategoricalHMM, parameter_columns, state_tables

    console = Terminal(quiet)
    model = CategoricalHMM(
        states, max_states=max_states, init=init, smoothing="auto" if smoothing is None else smoothing,  # type: ignore[arg-type]
        random_state=seed, n_jobs=threads, **options.at_most(max_iter),
    )  # fmt: skip
    with options.settings():
        model._check_settings()
    chosen = options.chosen_columns(sequence=sequence, symbol=symbol, time=time)
    with counted_files(files, engine, memory, console, reading, ALIASES, also=chosen.values()) as counted:
        data = _read(counted, called(files[0]), letters, missing_symbols, chosen)
    with console.doing("fitting"):
        model.fit(data)
        model._letters = letters if _is_text(counted) else None
        report = model.report_
        entropy = model.entropy_rate(random_state=seed)
    results = Results(out, format_, console, no_report=no_report)
    results.batches("states", state_tables(model, data), main=True)
    results.table("parameters", parameter_columns(model.chain_, model.symbols_))
    results.model("CategoricalHMM", *model_state(model))
    more = {
        "n_sequences": data.n_sequences, "n_symbols": data.n_symbols, "weights": model.weights_.tolist(),
        "smoothing": model.smoothing_, "entropy_rate": entropy.rate,
    }  # fmt: skip
    summary = summarise(model, report, data.n_steps, model.n_states_, seed=seed, inputs=files) | more
    facts = (
        f"{number_of(data.n_sequences, 'sequences')}, {number_of(data.n_steps, 'steps')}, "
        f"{number_of(data.n_symbols, 'symbols')}, {number_of(model.n_states_, 'states')}"
        f"{' fitted, which the data do not show' if number_is_rejected(report) else ''}; "
        f"{summary['log_likelihood'] / max(data.n_observed, 1):.4f} nats per observation, entropy rate "
        f"of the model {entropy.rate:.3f}"
    )
    page = partial(results.report, model, summary, input=data)
    seen = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen, page=page)


def _read(
    counted: Any, name: str, letters: bool, missing_symbols: tuple[str, ...] = (), columns: dict[str, str] | None = None
) -> Sequences:
    """Sequences of counted files: texts with one per line, or tables."""
    from latentfit.core.errors import DataError
    from latentfit.hmm.data import lines_to_sequences, read_sequences

    if _is_text(counted):
        lines = (lines for _, lines in counted.lines())
        return lines_to_sequences(lines, letters=letters, missing_symbols=missing_symbols, what=name)
    if letters:
        raise DataError(f"--letters is for text files, and {name} is a table; leave it out, or give a .txt file")
    return with_missing(read_sequences(counted, columns=columns, what=name), missing_symbols)


def _is_text(counted: Any) -> bool:
    """Whether counted files hold one sequence per line."""
    from latentfit.io.scan import Scan

    return isinstance(counted, Scan) and counted.text


def with_missing(data: Sequences, missing_symbols: tuple[str, ...]) -> Sequences:
    """The same sequences, the named symbols read as missing."""
    from dataclasses import replace

    observed = np.array([str(symbol) not in missing_symbols for symbol in data.symbols.tolist()], bool)
    recode = np.append(np.where(observed, np.cumsum(observed) - 1, -1), -1).astype(np.int32)
    return replace(data, codes=recode[data.codes], symbols=data.symbols[observed])


def show(model: CategoricalHMM, console: Terminal) -> None:
    """The states and what they show."""
    frequencies = model.weights_ @ model.emissions_
    rows = []
    for state, shown in enumerate(model.emissions_):
        lift = shown * np.log(np.maximum(shown, 1e-300) / np.maximum(frequencies, 1e-300))
        top = np.argsort(-lift if model.n_states_ > 1 else -shown, kind="stable")[:SHOWN]
        stay = model.transitions_[state, state]
        words = " ".join(str(one) for one in model.symbols_[top])
        rows.append([str(state), f"{model.weights_[state]:.3f}", f"{stay:.3f}", words])
    console.table("states", ["state", "share", "stays", "shows most"], rows)


def read_known(
    model: CategoricalHMM, path: str, columns: dict[str, str], console: Terminal, reading: Reading
) -> Sequences:
    """Sequences of a file under the symbols of a model; lines are split as those of its fit were."""
    from latentfit.cli.rows import counted_files
    from latentfit.hmm.data import ALIASES, read_sequences

    with counted_files((path,), "memory", None, console, reading, ALIASES, also=columns.values()) as counted:
        letters = _is_text(counted) and (_are_letters(model, counted) if model._letters is None else model._letters)
        data = _read(counted, called(path), letters, columns=columns)
        return read_sequences(data, symbols=model.symbols_, what=called(path))


def _are_letters(model: CategoricalHMM, scan: Scan) -> bool:
    """Whether letters are meant where the fit did not say: symbols of one character, and no blanks between them."""
    symbols = [str(symbol) for symbol in model.symbols_.tolist()]
    if any(len(symbol) > 1 for symbol in symbols):
        return False
    return " " in symbols or not any(len(line.split()) > 1 for _, lines in scan.lines() for line in lines)


def predict_states(model: CategoricalHMM, request: PredictRequest) -> int:
    """States of new sequences: states.csv, as `latentfit hmm` writes it."""
    from latentfit.hmm.estimator import state_tables

    data = read_known(model, request.data_file, request.columns, request.console, request.reading)
    request.results.batches("states", state_tables(model, data), main=True)
    facts = f"{number_of(data.n_sequences, 'sequences')}, {number_of(data.n_steps, 'steps')}: their states predicted"
    return request.conclude(data.n_steps, facts, log_likelihood=model.score(data))


def read_input(
    model: CategoricalHMM, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(model, path, columns, console, reading)}
