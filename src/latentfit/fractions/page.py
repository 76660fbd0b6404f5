"""The page of mixtures: what every sample is made of, and what the parts look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.fractions.diagnostics import rejects_number
from latentfit.fractions.estimator import MixtureFractions
from latentfit.fractions.plot import differing_features, sample_fractions
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import bars, distinct, drawn_bars, heat_map, lines, listed, stacked
from latentfit.report.page import Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Jaffe, Weiss, Carmi, Kluger & Nadler 2018: Learning Binary Latent Variable Models: A Tensor Eigenpair Approach. "
    "ICML, Appendix N.",
    "Houseman et al. 2012: DNA methylation arrays as surrogate measures of cell mixture distribution. BMC "
    "Bioinformatics (known profiles).",
)
SHOWN_FEATURES = 40
"""Features of the heat map: more cannot be read in a page."""


def page_of(fitted: MixtureFractions, context: Context) -> Page:
    """Verdict, fractions, profiles. Samples are those of the fit, or `input` when the model is from a file."""
    report, number = fitted.report_, fitted.n_components_
    given = None if hasattr(fitted, "fractions_") else context.data.get("input")
    have_samples = given is not None or hasattr(fitted, "fractions_")
    fractions, names = sample_fractions(fitted, given) if have_samples else (None, [])
    mixed = f"{len(fractions):,} samples" if fractions is not None else "Samples"
    source = "of a reference" if fitted._known else "found in the values alone"
    return page_about(
        report,
        context,
        title=_title(mixed, number, rejected=rejects_number(report)),
        family="fractions",
        figures=_figures(fitted),
        picture=_mean_bars(fitted) if fractions is None else _bars(fitted, fractions, names),
        sections=[
            _profiles(fitted),
            _samples(fitted, fractions, names),
            *([] if fitted._known else [_number(fitted)]),
            fit_section(fitted, context),
            numbers_section(
                report,
                "The model assumes that a sample's values are the mean of its parts' values by their fractions, and "
                "that no other profiles explain the values as well.",
            ),
            next_section(report, *_advice(fitted)),
        ],
        papers=PAPERS,
        lead=f"{len(fitted.features_):,} features; profiles {source}.",
    )


def _title(mixed: str, number: int, *, rejected: bool) -> str:
    """A number of parts that the checks reject is not announced as found."""
    if number == 1:
        return f"{mixed}, no parts found in them"
    return (
        f"{mixed} fitted by {number} parts; the checks do not confirm this number"
        if rejected
        else (f"{mixed} mixed of {number} parts")
    )


def _figures(fitted: MixtureFractions) -> list[Figure]:
    known = fitted.report_.quantities
    errors, apart = known.get("standard_errors"), known.get("distance_of_equal_fits")
    third = Figure("Profiles", "known" if fitted._known else "blind", "from the reference" if fitted._known else "")
    if apart is not None:
        third = Figure("Equally good fits differ", f"by {apart:.3f}", "in a fraction, on average; 0 is best")
    elif errors and fitted.n_components_ > 1:
        third = Figure("Standard error", f"± {max(errors):.3f}", "of the least sure part's fraction")
    how = "of the reference" if fitted._known else "found" if fitted.selection_ else "as given"
    return [
        Figure("Parts", str(fitted.n_components_), how),
        Figure("Left unexplained", f"± {fitted.noise_:.3f}", "of a value, root mean square"),
        third,
    ]


def _bars(fitted: MixtureFractions, fractions: Any, names: list[str]) -> Chart:
    chosen, total = drawn_bars(fractions), len(fractions)
    spec = stacked(
        fractions[chosen], [names[at] for at in chosen], distinct(fitted.parts_.tolist()),
        bar="sample", part="part", value="fraction",
    )  # fmt: skip
    cut = "" if len(chosen) == total else f" {len(chosen):,} of {total:,} samples are drawn, evenly taken from all."
    return Chart(spec, f"One bar per sample, one colour per part.{cut}", "Fractions")


def _mean_bars(fitted: MixtureFractions) -> Chart:
    names = distinct(fitted.parts_.tolist())
    spec = bars(names, fitted.weights_.tolist(), value="mean fraction", name="part", percent=True)
    return Chart(spec, "Mean fractions over the samples of the fit, which the model file does not keep.", "Fractions")


def _profiles(fitted: MixtureFractions) -> Section:
    chosen, total = differing_features(fitted.profiles_, SHOWN_FEATURES), len(fitted.features_)
    cut = "" if len(chosen) == total else f" The {len(chosen)} of {total:,} features that differ most are shown."
    parts, features = distinct(fitted.parts_.tolist()), distinct([fitted.features_[n] for n in chosen])
    spec = heat_map(
        fitted.profiles_[:, chosen], parts, features, row="part", column="feature", value="value", largest=1.0
    )
    blocks: list[Block] = [Chart(spec, f"Values of the pure parts.{cut}", "Profiles")]
    errors = fitted.report_.quantities.get("standard_errors")
    rows = [
        [str(part), float(fitted.weights_[k]), None if errors is None else float(errors[k])]
        for k, part in enumerate(fitted.parts_.tolist())
    ]
    sure = Column("standard error", ".4f", "of a sample's fraction")
    columns: list[str | Column] = ["part", Column("mean fraction", ".1%"), sure]
    blocks.append(DataTable(columns, rows, "How much of a part there is, and its standard error in a sample."))
    return Section("The parts", blocks)


def _samples(fitted: MixtureFractions, fractions: Any, names: list[str]) -> Section:
    if fractions is None:
        tables = "A model file keeps no samples; give the data to latentfit report to see them."
        return Section("The samples", [Note(tables)])
    surest = np.argsort(-fractions.max(axis=1), kind="stable")[: listed(fractions.shape[1])]
    columns: list[str | Column] = ["sample", *(Column(str(part), ".1%") for part in fitted.parts_.tolist())]
    rows = [[names[at], *fractions[at].tolist()] for at in surest]
    table = DataTable(columns, rows, "Fractions, the least mixed samples first.", total=len(fractions))
    return Section("The samples", [table])


def _number(fitted: MixtureFractions) -> Section:
    errors = (fitted.selection_ or {}).get("errors")
    if not errors:
        table = f"{fitted.n_components_} parts were given; without --components the number is estimated."
        return Section("How many parts", [Note(table)])
    rows = [{"x": number, "y": error} for number, error in enumerate(errors, start=1)]
    chart = lines(rows, x="parts", y="mean squared error", whole_x=True, marked=float(fitted.n_components_))
    return Section("How many parts", [Chart(chart, "Error on cells that were left out; the best number was chosen.")])


def _advice(fitted: MixtureFractions) -> list[str]:
    if fitted._known:
        return ["fractions.csv holds the fractions; latentfit predict gives those of new samples under this reference."]
    return [
        "Parts have numbers, not names: compare profiles.csv with known profiles to say what they are, and give them "
        "with --reference in the next run."
    ]
