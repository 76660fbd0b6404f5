"""`./dev reproduce`: a paper's table or figure next to ours."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from latentfit.cli.console import Terminal
from latentfit.cli.main import main as command_line
from latentfit.cli.options import writable
from latentfit.core.errors import nearest


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--repeats", type=click.IntRange(min=1), help="Repeats of what is random; the paper's by default.")
@click.option("--quick", is_flag=True, help="Few repeats, without what takes long.")
@click.option(
    "--out", default="latentfit-reproduce", show_default=True, callback=writable, help="Folder for results.csv."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The one seed.")
@click.option("--quiet", is_flag=True, help="No talk on stderr.")
def reproduce(key: str, repeats: int | None, quick: bool, out: str, seed: int, quiet: bool) -> int:
    """A paper's table or figure next to ours: the table on stdout, its rows in results.csv.

    Finished tables, and pieces of long ones, are kept in progress.jsonl: the same command goes on where it was
    interrupted, and more repeats add to the pieces that are there.

    \b
    ./dev reproduce crowd:table4              # error and seconds on two real crowds
    ./dev reproduce crowd --quick             # all tables and figures of the paper, briefly
    ./dev reproduce all                       # every key of all papers
    """
    from reproduction import KEYS, keys_of, table, words

    chosen = keys_of(key)
    if not chosen:
        raise click.UsageError(f"there is no table or figure {key!r}; {nearest(key, words(), 'the keys are')}")
    console, folder = Terminal(quiet), Path(out)
    data = table.find_data()
    run = table.Run(repeats, quick, seed, data, console.say, table.Progress(folder / "progress.jsonl"))
    outcomes: dict[str, table.Outcome] = {}
    figures, written = table.figure_names(chosen), [folder / "results.csv"]
    missing: list[str] = []
    for at, name in enumerate(chosen):
        begin = time.perf_counter()
        with console.counting(f"{name} ({at + 1} of {len(chosen)})"):
            outcomes[name] = run.outcome(name, KEYS[name])
        click.echo(table.render(name, outcomes[name]) + "\n")
        console.say(f"{name}: {time.perf_counter() - begin:.1f} s")
        table.write_rows(outcomes, folder)  # after every key: an interrupted run leaves what it has
        if (curves := outcomes[name].curves) is not None:
            files, lacking = table.write_curves(curves, folder / figures[name])
            written, missing = written + files, missing + lacking
    if any(table.lacked(outcome.rows) for outcome in outcomes.values()):
        console.say(f"some rows lack data; it is looked for in {data or 'the folder that LATENTFIT_DATA names'}")
    for sentence in missing:
        console.say(sentence)
    console.say("wrote " + ", ".join(map(str, written)))
    return 0


def main(arguments: list[str]) -> int:
    """The exit code of a command line."""
    return command_line(arguments, reproduce, "./dev reproduce")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
