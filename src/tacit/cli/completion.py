"""`tacit completion`: what a shell runs to complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion of a shell; put the line for yours where the shell starts.

    \b
    eval "$(tacit completion bash)"                                   # in ~/.bashrc
    eval "$(tacit completion zsh)"                                    # in ~/.zshrc
    tacit completion fish > ~/.config/fish/completions/tacit.fish     # once
    """
    from tacit.cli.main import tacit

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(tacit, {}, "tacit", "_TACIT_COMPLETE").source())
    return 0
