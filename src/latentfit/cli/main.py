"""`latentfit`: the group of commands, loaded one at a time, and the one place where errors become exit codes.

Exit codes: 0 good, 1 written, verdict not ok (--strict), 2 usage, 3 bad data, 4 a file cannot be read
or written, 70 a bug of Latentfit's own, 130 interrupted, 143 told to end (SIGTERM).
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from latentfit import __version__
from latentfit.core.errors import LatentfitError, ModelFileError, nearest
from latentfit.core.registry import COMMANDS as FAMILY_COMMANDS
from latentfit.core.registry import Command

COMMANDS = {
    **FAMILY_COMMANDS,
    "predict": Command("predict", "latentfit.cli.predict", "Use a saved model on new data"),
    "report": Command(
        "report", "latentfit.cli.report", "The page of a saved model: what was found, and what the checks say"
    ),
    "demo": Command("demo", "latentfit.cli.demo", "The main job on built-in data, no network"),
    "completion": Command("completion", "latentfit.cli.main", "Print the completion script of a shell"),
}
"""Commands of the families, and those that belong to none."""
FILE_WORDS = ("FILE", "DIR")
"""Metavars of options that name files."""
ENDED = 128 + signal.SIGTERM
"""Exit code of a command that was told to end, as a shell counts it."""


class LazyGroup(click.Group):
    """Imports a command's module when it is asked for: `latentfit --help` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name].module), cmd_name)
        return _dressed(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}; {nearest(args[0], list(COMMANDS), 'the commands are')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Your data"):
            for command in COMMANDS.values():
                if command.example:  # not wrapped: it is to be copied
                    formatter.write(f"  {command.name:<13}{command.summary}\n{'':15}{command.example}\n")
        with formatter.section("And then"):
            formatter.write_dl([(one.name, one.summary) for one in COMMANDS.values() if not one.example])


def _dressed(command: click.Command) -> click.Command:
    """The command with its examples at the end of its help, and with files where a shell should offer files."""
    text, mark, examples = inspect.cleandoc(command.help or "").rpartition("\b\n")
    if mark:
        command.help, command.epilog = text.rstrip(), f"For example:\n\n\b\n{examples}"
    for parameter in command.params:
        named = str(parameter.name).endswith(("file", "files")) or parameter.metavar in FILE_WORDS
        if (named or parameter.name == "out") and parameter.type is click.STRING:
            parameter.type = click.Path()
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="latentfit")
def latentfit() -> None:
    """Discrete latent variable models by the method of moments and EM.

    Reads .csv, .tsv, .jsonl (each also with .gz), .parquet, or - for CSV on standard input; writes tables, a model and
    a summary into a folder. `latentfit demo` shows it at work, `latentfit COMMAND -h` lists its options.
    """


def run() -> None:
    """Entry point: runs the command and turns what can go wrong into a sentence and an exit code."""
    for name in ("stdin", "stdout", "stderr"):  # one that the shell closed has nothing to say and nobody who hears
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    code = main(sys.argv[1:])
    if code == ENDED:  # some programs say it twice; what was half done is being removed
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code)


def _end(number: int, frame: object) -> NoReturn:
    """As an error, SIGTERM has files that only this run needs removed; by itself it would leave them."""
    raise SystemExit(ENDED)


def main(arguments: list[str], command: click.Command | None = None, prog_name: str = "latentfit") -> int:
    """The exit code of a command line; errors of any `command` become sentences here."""
    command = latentfit if command is None else command
    try:
        return int(command.main(arguments, prog_name=prog_name, standalone_mode=False, obj=list(arguments)) or 0)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _fail(130, "interrupted; finished files were kept, unfinished ones removed")
    except click.ClickException as error:
        error.show()
        return 2
    except click.exceptions.Exit as error:
        return int(error.exit_code)
    except SystemExit as error:
        if error.code == ENDED:
            return _fail(ENDED, "told to end; finished files were kept, unfinished ones removed")
        return 0  # so click says that the reader of our output left: not our error
    except MemoryError:
        return _fail(3, "the data needs more memory than there is; give fewer rows or columns, or --engine stream")
    except OSError as error:
        return _fail(4, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    except ModelFileError as error:
        return _fail(4, str(error))
    except LatentfitError as error:
        return _fail(3, str(error))
    except Exception as error:
        if os.environ.get("LATENTFIT_TRACEBACK"):
            traceback.print_exc()
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return _fail(
            70, f"this is a bug of Latentfit ({said}); run it again with LATENTFIT_TRACEBACK=1 set, and report it"
        )


def _fail(code: int, sentence: str) -> int:
    with suppress(OSError):  # of a full disk that stderr goes to
        print(f"latentfit: {sentence}", file=sys.stderr)
    return code


# -----------------------------------------------------------------------------
# `latentfit completion`: what a shell runs to complete commands, options and files.


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion of a shell; put the line for yours where the shell starts.

    \b
    eval "$(latentfit completion bash)"                                   # in ~/.bashrc
    eval "$(latentfit completion zsh)"                                    # in ~/.zshrc
    latentfit completion fish > ~/.config/fish/completions/latentfit.fish     # once
    """
    from latentfit.cli.main import latentfit

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(latentfit, {}, "latentfit", "_LATENTFIT_COMPLETE").source())
    return 0
