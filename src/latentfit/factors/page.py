"""Report page of binary latent factors: what each adds, how often it is on, and how they were chosen among rivals."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.factors.diagnostics.limits import LIMITS
from latentfit.factors.diagnostics.verdict import is_shown
from latentfit.factors.em.states import pair_moments
from latentfit.factors.estimator import BinaryFactors
from latentfit.factors.plot import candidate_scores, feature_names, moved_features, ranked_scores
from latentfit.factors.theory import combination_text
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about, steps_figure
from latentfit.report.charts import HUE, QUIET, bars, distinct, heat_map, points
from latentfit.report.page import Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Jaffe, Weiss, Carmi, Kluger & Nadler 2018: Learning Binary Latent Variable Models: A Tensor Eigenpair Approach. "
    "ICML.",
    "Kritchman & Nadler 2009: Non-parametric detection of the number of signals. IEEE Transactions on Signal "
    "Processing (the number of switches).",
)
ADVICE = (
    "weights.csv holds what each switch adds, switches.csv which are on in every row; BinaryFactors.transform gives "
    "the same for new rows.",
)
SHOWN_FEATURES = 40
"""Features of the heat map: more cannot be read in a page."""
MOST_TOGETHER = 12
"""Switches up to which it is shown which are on together."""


def page_of(fitted: BinaryFactors, context: Context) -> Page:
    """Verdict, switches, candidates, stability."""
    report = fitted.report_
    known = report.quantities
    rows = context.summary.get("n_rows", known.get("n_rows"))
    spread = "without noise" if fitted.noise_ == 0 else f"plus noise of {fitted.noise_:.3g}"
    lead = f"Every row is taken as the sum of what its switches add, {spread}."
    if rows is not None:
        lead = f"{int(rows):,} rows of {fitted.n_features_in_:,} features. {lead}"
    return page_about(
        report,
        context,
        title=_title(fitted),
        family="switches",
        figures=_figures(fitted, known),
        picture=_weights(fitted),
        sections=[
            _switches(fitted),
            _candidates(fitted),
            fit_section(fitted, context),
            _stability(known),
            numbers_section(
                report,
                "The model assumes that switches add up, that noise is alike in all features, and that no other set of "
                "switches explains the rows as well.",
            ),
            next_section(report, *(ADVICE if report.verdict == "ok" else ())),
        ],
        papers=PAPERS,
        lead=lead,
    )


def _title(fitted: BinaryFactors) -> str:
    """The number of switches is announced as found only where no check rejected it."""
    number, of = fitted.n_components_, f"{fitted.n_features_in_:,} features"
    switches = f"{number} {{}}switch{'es' if number > 1 else ''}"
    if is_shown(fitted.report_):
        return f"{switches.format('hidden ')} behind {of}"
    return f"{switches.format('')} fitted to {of}, another number than the data show"


def _figures(fitted: BinaryFactors, known: dict[str, Any]) -> list[Figure]:
    how = fitted.selection_["by"] if fitted.selection_ else "as given"
    change = known.get("half_sample_change")
    third = steps_figure(fitted.n_iter_, fitted.converged_)
    if change:
        third = Figure(
            "Change on half of the rows", f"{max(change):.0%}", "of the least stable switch's weights; 0 % is best"
        )
    return [
        Figure("Switches", str(fitted.n_components_), how),
        Figure("Noise", f"{fitted.noise_:.3g}", "standard deviation of what switches do not explain"),
        third,
    ]


def _weights(fitted: BinaryFactors) -> Chart:
    features, names = moved_features(fitted.components_, SHOWN_FEATURES), distinct(feature_names(fitted))
    cut = (
        ""
        if len(features) == len(names)
        else f" The {len(features)} of {len(names):,} features that move most are shown."
    )
    spec = heat_map(
        fitted.components_[:, features], range(fitted.n_components_), [names[n] for n in features],
        row="switch", column="feature", value="adds", both_ways=True, cell=32,
    )  # fmt: skip
    return Chart(spec, f"What a switch adds to each feature when it is on: blue adds, red takes away.{cut}", "Weights")


def _switches(fitted: BinaryFactors) -> Section:
    names, on = feature_names(fitted), fitted.switch_probabilities_
    blocks: list[Block] = [
        Chart(
            bars(
                range(len(on)), on.tolist(), value="proportion of rows in which it is on", name="switch", percent=True
            ),
            "The most frequent switch comes first.",
            "How often each is on",
        )
    ]
    if 1 < len(on) <= MOST_TOGETHER:
        blocks.append(
            Chart(
                heat_map(
                    _correlation(fitted.joint_probabilities_, len(on)), range(len(on)), range(len(on)), row="switch",
                    column="switch ", value="correlation", both_ways=True, largest=1.0,
                ),
                "Correlation of two switches over the rows: blue pairs are on together, red ones exclude one another.",
                "Which are on together",
            )
        )  # fmt: skip
    rows = []
    for k, weights in enumerate(fitted.components_):
        top = np.argsort(-np.abs(weights), kind="stable")[:5]
        rows.append([k, float(on[k]), ", ".join(f"{names[n]} {weights[n]:+.3g}" for n in top)])
    table = DataTable(["switch", Column("on", ".1%"), "moves most"], rows, "Switches by how often they are on.")
    return Section("The switches", [*blocks, table])


def _correlation(joint: Floats, d: int) -> Floats:
    together = pair_moments(joint, d)
    mean = np.diag(together)
    covariance = together - np.outer(mean, mean)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return np.asarray(np.clip(covariance / np.outer(spread, spread), -1, 1))


def _candidates(fitted: BinaryFactors) -> Section:
    text = (
        "The third moment of the data proposes candidates; a true switch makes two bumps of its values, one for off "
        "and one for on, and the score says how far a candidate is from that."
    )
    found = candidate_scores(fitted)
    if found is None:
        return Section("How they were chosen", [Note("This model keeps no scores of candidates.")], text)
    ranked = ranked_scores(found)
    rows = [
        {"x": place, "y": score, "name": "candidate", "kind": "chosen" if chosen else "rejected"}
        for place, (score, chosen) in enumerate(ranked, start=1)
    ]
    positive = all(score > 0 for score, _ in ranked)
    table = "Kolmogorov–Smirnov distance" if found.filter == "ks" else "distance from 0 and 1"
    level = "" if found.null_level is None else " A true switch stays below the broken line in 99 of 100 cases."
    chart = points(
        rows, x="candidate, best first", y=table, name="", kinds=("chosen", "rejected"), kind="candidate",
        hues=(HUE, QUIET), log_y=positive, whole_x=True, rule=found.null_level, height=240,
    )  # fmt: skip
    left = len(found.rejected)
    caption = f"{len(found.chosen)} chosen and the {left} best rejected candidates; small is good.{level}"
    blocks: list[Block] = [Chart(chart, caption, "Scores of candidates")]
    fitted_scores = fitted.report_.quantities.get("fitted_scores")
    if fitted_scores:
        rows_ = [[k, score] for k, score in enumerate(fitted_scores)]
        blocks.append(
            DataTable(
                ["switch", Column("distance", ".4f")], sorted(rows_, key=lambda row: -row[1]),
                "After the fit: how far the values of each switch are from two bumps.",
            )
        )  # fmt: skip
    return Section("How they were chosen", blocks, text)


def _stability(known: dict[str, Any]) -> Section:
    blocks: list[Block] = []
    if change := known.get("half_sample_change"):
        chart = bars(
            range(len(change)), [min(value, 2.0) for value in change], value="relative change of its weights",
            name="switch", percent=True, flagged=[value > LIMITS.unstable for value in change],
        )  # fmt: skip
        caption = "Each half of the rows was fitted alone; the worse half counts."
        blocks.append(Chart(chart, caption, "Half of the rows"))
    if rivals := known.get("rivals"):
        rows = [
            [combination_text(r["u"]), r["cost"], r["needed"], "stands" if r["cost"] <= r["needed"] else "is refuted"]
            for r in sorted(rivals, key=lambda r: r["cost"] - r["needed"])
        ]
        blocks.append(
            DataTable(
                ["combination", Column("cost in nats", ".2f"), Column("enough to refute", ".2f"), "outcome"], rows,
                "Combinations of switches that could be switches too, and what they cost in likelihood.",
                "Rivals",
            )
        )  # fmt: skip
    if not blocks:
        blocks = [Note("Stability was not looked at for this fit.")]
    return Section("Stability", blocks)
