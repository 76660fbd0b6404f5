"""`latentfit query`: a question to a saved model, the answer on stdout."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("question")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
def query(model_file: str, question: str, json_: bool) -> int:
    """Ask the joint distribution: P(…) probability, E(…) expectation, H(…) entropy, I(…; …) information.

    \b
    latentfit query classes/model.latent "P(safety=high, doors | price=low)"
    latentfit query classes/model.latent "E(age | income=high)" --json
    """
    from latentfit.cli.rows import load_table_model
    from latentfit.tables.estimator.query import ask

    answer = ask(load_table_model(model_file).joint_, question)
    for note in answer.notes if not json_ else ():
        click.echo(f"note: {note}", err=True)
    click.echo(json.dumps(answer.as_dict()) if json_ else str(answer))
    return 0
