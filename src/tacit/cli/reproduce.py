"""`tacit reproduce`: a paper's table or figure next to ours."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tacit.cli.talk import Talk
from tacit.errors import nearest


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--repeats", type=click.IntRange(min=1), help="Repeats of what is random; the paper's by default.")
@click.option("--quick", is_flag=True, help="Few repeats, without what takes long.")
@click.option("--out", default="tacit-reproduce", show_default=True, help="Folder for results.csv.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The one seed.")
@click.option("--quiet", is_flag=True, help="No talk on stderr.")
def reproduce(key: str, repeats: int | None, quick: bool, out: str, seed: int, quiet: bool) -> int:
    """A paper's table or figure next to ours: the table on stdout, its rows in results.csv.

    Long tables keep finished pieces in progress.jsonl: the same command goes on where it was interrupted, and more
    repeats add to those that are there.

    \b
    tacit reproduce crowd:table4              # error and seconds on two real crowds
    tacit reproduce crowd --quick             # all tables and figures of the paper, briefly
    """
    from tacit.reproduce import KEYS, keys_of
    from tacit.reproduce.table import Outcome, Progress, Run, find_data, render, write_outcomes

    chosen = keys_of(key)
    if not chosen:
        papers = dict.fromkeys(name.partition(":")[0] for name in KEYS)
        hint = nearest(key, [*papers, *KEYS], "the keys are")
        raise click.UsageError(f"there is no table or figure {key!r}; {hint}")
    talk = Talk(quiet)
    data = find_data()
    run = Run(repeats, quick, seed, data, talk.say, Progress(Path(out) / "progress.jsonl"))
    outcomes: dict[str, Outcome] = {}
    for at, name in enumerate(chosen):
        begin = time.perf_counter()
        with talk.counting(f"{name} ({at + 1} of {len(chosen)})"):
            outcomes[name] = KEYS[name](run)
        click.echo(render(name, outcomes[name]) + "\n")
        talk.say(f"{name}: {time.perf_counter() - begin:.1f} s")
    if any(row.note.startswith("skipped: no ") for outcome in outcomes.values() for row in outcome.rows):
        talk.say(f"some rows lack data; it is looked for in {data or 'the folder that TACIT_DATA names'}")
    written, missing = write_outcomes(outcomes, Path(out))
    for sentence in missing:
        talk.say(sentence)
    talk.say("wrote " + ", ".join(map(str, written)))
    return 0
