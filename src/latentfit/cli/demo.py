"""`latentfit demo`: the main job on built-in data."""

from __future__ import annotations

import click

from latentfit.cli.console import Terminal
from latentfit.cli.options import output_options, strict_option
from latentfit.cli.results import Results


@click.command()
@strict_option
@output_options("latentfit-demo", report=True)
def demo(strict: bool, out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool) -> int:
    """Ten weak classifiers label handwritten digits; Latentfit finds the digits without seeing the truth.

    \b
    latentfit demo
    """
    from latentfit.labels.cli import write_crowd
    from latentfit.labels.data.input import read_labels
    from latentfit.labels.estimator import CrowdSettings, fit_crowd
    from latentfit.labels.simulate import digits_crowd

    console = Terminal(quiet)
    console.say("Ten weak classifiers (trees, neighbours, naive Bayes), each trained on a few dozen digits and seeing")
    console.say(
        "a part of the pixels, label half of 1,397 handwritten digits each. Latentfit sees only their labels.\n"
    )
    with console.doing("training the annotators"):
        crowd = digits_crowd(seed)
    results = Results(out, format_, console, no_report=no_report)
    results.batches("labels", [crowd.labels])
    results.batches("truth", [crowd.truth])
    with console.doing("fitting"):
        fitted = fit_crowd(read_labels(crowd.labels), CrowdSettings(seed=seed))
    code = write_crowd(fitted, {"random_state": seed}, crowd.truth, results, json_, strict, [])
    workers = fitted.worker_columns()
    order = sorted(range(len(workers["worker"])), key=lambda i: workers["accuracy"][i])
    best, worst = workers["worker"][order[-1]], workers["worker"][order[0]]
    console.say(f"\nbest annotator: {best}; worst: {worst}")
    if results.folder is not None:
        folder = results.folder
        console.say(f"look at {folder}/consensus.{format_} (a label and its probability for every digit),")
        if not no_report:
            console.say(f"open {folder}/report.html in a browser (what was found, what the checks say),")
        console.say(
            f"{folder}/workers.{format_} (how good each annotator is, with intervals) and {folder}/summary.json;"
        )
        console.say(
            f"the same on your own file: latentfit labels votes.csv --out results (try {folder}/labels.{format_})"
        )
    return code
