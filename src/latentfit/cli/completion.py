"""`latentfit completion`: what a shell runs to complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


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
