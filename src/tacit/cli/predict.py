"""`tacit predict`: a saved model on new data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tacit.cli.common import Results, Talk, chosen_columns, column_options, conclude, of_model, output_options

if TYPE_CHECKING:
    from tacit.models.bernoulli_mixture import BernoulliMixture
    from tacit.models.binary_factors import BinaryFactors
    from tacit.models.latent_class import LatentClass
    from tacit.models.latent_class_classifier import LatentClassClassifier


@click.command()
@click.argument("data_file", metavar="DATA")
@click.option("--model", "model_file", required=True, metavar="FILE", help="A model.tacit file.")
@click.option("--target", metavar="COLUMN", help="Column of a table to predict from the others.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows of a table.")
@column_options
@output_options("tacit-predict")
def predict(
    data_file: str, model_file: str, target: str | None, id_: str | None,
    task: str | None, worker: str | None, label: str | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool,
) -> int:  # fmt: skip
    """Use a saved model on new data: predictions.csv (task or row id, value, probability);
    fractions.csv of a model of mixtures, ancestry.csv of a model of populations, documents.csv of topics,
    communities.csv of a block model, states.csv of a hidden Markov model; how likely pairs are.

    \b
    tacit predict new_votes.csv --model consensus/model.tacit
    tacit predict new_rows.csv --model classes/model.tacit --target income
    """
    from tacit.cli.labels import read_label_file, tell_reading
    from tacit.data.label_input import read_labels
    from tacit.data.names import match
    from tacit.errors import DataError
    from tacit.models import (
        Admixture,
        BernoulliMixture,
        BinaryFactors,
        BlockModel,
        CategoricalHMM,
        DawidSkene,
        LatentClass,
        LatentClassClassifier,
        MixtureFractions,
        PairMatrix,
        TopicModel,
        load,
    )

    talk = Talk(quiet)
    with talk.doing("reading"):
        model = load(model_file)
    if isinstance(model, BernoulliMixture | LatentClass | LatentClassClassifier):
        return predict_rows(model, data_file, model_file, target, id_, talk, Results(out, format_, talk), json_)
    if isinstance(model, BinaryFactors):
        return predict_switches(model, data_file, model_file, target, id_, talk, Results(out, format_, talk), json_)
    if isinstance(model, Admixture):
        from tacit.cli.admixture import predict_ancestry

        return predict_ancestry(model, data_file, model_file, id_, talk, Results(out, format_, talk), json_)
    if isinstance(model, MixtureFractions):
        from tacit.cli.fractions import predict_fractions

        return predict_fractions(model, data_file, model_file, id_, talk, Results(out, format_, talk), json_)
    if isinstance(model, BlockModel):
        from tacit.cli.communities import predict_communities

        return predict_communities(model, data_file, model_file, talk, Results(out, format_, talk), json_)
    if isinstance(model, CategoricalHMM):
        from tacit.cli.hmm import predict_states

        return predict_states(model, data_file, model_file, talk, Results(out, format_, talk), json_)
    if isinstance(model, PairMatrix):
        from tacit.cli.pairs import predict_pairs

        return predict_pairs(model, data_file, model_file, talk, Results(out, format_, talk), json_)
    if isinstance(model, TopicModel):
        from tacit.cli.topics import predict_topics

        return predict_topics(model, data_file, model_file, talk, Results(out, format_, talk), json_)
    if not isinstance(model, DawidSkene):
        raise DataError(f"{model_file} holds a {type(model).__name__}, which predicts from no file; load it in Python")
    columns = chosen_columns(task, worker, label) or model.columns
    with talk.doing("reading"):
        source = read_label_file(data_file)[0]
        data = read_labels(source, columns=columns, abstain=model.abstain)
    tell_reading(source, columns, talk)
    unseen = data.class_names[match(data.class_names, model.classes_, "label") < 0].tolist()
    if unseen:
        shown = ", ".join(map(repr, unseen[:3])) + (f" and {len(unseen) - 3} more" if len(unseen) > 3 else "")
        talk.say(f"note: {shown} are no labels that the model knows; they were left out")
    with talk.doing("predicting"):
        posterior = model.predict_proba(data)
    results = Results(out, format_, talk)
    values = model.classes_[posterior.argmax(axis=1)]
    answers = {"task": data.task_names, "value": values, "probability": posterior.max(axis=1)}
    results.table("predictions", answers, main=True)
    summary = of_model(model_file, data.n_rows)
    return conclude(summary, f"{data.n_rows:,} tasks labelled", talk, results, json_=json_)


def predict_rows(
    model: BernoulliMixture | LatentClass | LatentClassClassifier, data_file: str, model_file: str,
    target: str | None, id_: str | None, talk: Talk, results: Results, json_: bool,
) -> int:  # fmt: skip
    """The class or label of every row, or the most probable value of one column given the others."""
    from tacit.cli.rows import read_rows, under
    from tacit.errors import DataError
    from tacit.models import BernoulliMixture, LatentClass

    if target is not None:
        if not isinstance(model, LatentClass):
            kind = type(model).__name__
            what = "clusters" if isinstance(model, BernoulliMixture) else "its own label"
            raise DataError(f"{model_file} holds a {kind}, which predicts {what}; leave --target out")
        model.joint_.index(target)
    with talk.doing("reading"):
        rows = read_rows(data_file, id_)
    names = getattr(model, "classes_", None)  # hidden classes have numbers for names
    with talk.doing("predicting"), talk.heeding_warnings():
        data = under(model, rows.all, target)
        if isinstance(model, LatentClass) and target is not None:
            values, chance = model.predict_column(data, target)
        else:
            beliefs = model.predict_proba(data)
            best, chance = beliefs.argmax(axis=1), beliefs.max(axis=1)
            values = best if names is None else names[best]
    results.table("predictions", {rows.id_name: rows.ids, "value": values, "probability": chance}, main=True)
    what = target or ("their class" if names is None else "their label")
    summary = of_model(model_file, data.num_rows, target=target)
    return conclude(summary, f"{data.num_rows:,} rows: {what} predicted", talk, results, json_=json_)


def predict_switches(
    model: BinaryFactors, data_file: str, model_file: str,
    target: str | None, id_: str | None, talk: Talk, results: Results, json_: bool,
) -> int:  # fmt: skip
    """Which switches are on in every row: switches.csv, as `tacit factors` writes it."""
    from tacit.cli.factors import switch_values
    from tacit.cli.long_rows import named_answers
    from tacit.cli.rows import read_rows
    from tacit.errors import DataError

    if target is not None:
        raise DataError(f"{model_file} holds a BinaryFactors, which predicts switches; leave --target out")
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("the model was fitted on a matrix without column names; fit it on a file or a frame")
    rows = read_rows(data_file, id_)
    missing = [name for name in map(str, names) if name not in rows.all.column_names]
    if missing:
        raise DataError(f"the file has no column {missing[0]!r}, which the model knows; add it")
    data = rows.all.select([str(name) for name in names])
    results.table("switches", named_answers(rows, switch_values(model, data)), main=True)
    summary = of_model(model_file, data.num_rows, target=target)
    return conclude(summary, f"{data.num_rows:,} rows: their switches predicted", talk, results, json_=json_)
