"""The page of ancestry: a bar for everyone, what was chosen by cross-validation, how far populations are apart."""

from __future__ import annotations

import numpy as np

from latentfit.admixture.data.genotypes import Genotypes
from latentfit.admixture.diagnostics.verdict import is_shown
from latentfit.admixture.estimator import Admixture
from latentfit.core.kernels import Floats
from latentfit.report.assemble import count, fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import bars, drawn_bars, heat_map, lines, listed, stacked
from latentfit.report.page import Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Cabreros & Storey 2017: ALStructure, a likelihood-free estimator of population structure (the initialisation).",
    "Alexander, Novembre & Lange 2009: Fast model-based estimation of ancestry in unrelated individuals. Genome "
    "Research (the likelihood).",
    "Alexander & Lange 2011: Enhancements to the ADMIXTURE algorithm for individual ancestry estimation. BMC "
    "Bioinformatics (cross-validation).",
    "Jaffe, Weiss, Carmi, Kluger & Nadler 2018: Learning Binary Latent Variable Models: A Tensor Eigenpair Approach. "
    "ICML.",
)


def page_of(fitted: Admixture, context: Context) -> Page:
    """Verdict, bars, populations, cross-validation."""
    report = fitted.report_
    proportions, names = people_of(fitted, context.data.get("input"))
    return page_about(
        report,
        context,
        title=_title(fitted, len(proportions)),
        family="ancestry",
        figures=_figures(fitted, proportions),
        picture=_bars(fitted, proportions, names),
        sections=[
            _populations(fitted, proportions, names),
            _number(fitted),
            fit_section(fitted, context, squares=not fitted._likelihood),
            numbers_section(
                report,
                "The model assumes unlinked SNPs, unrelated people, and that some people are near the vertex or the "
                "face of every population: without them frequencies are extrapolated.",
            ),
            next_section(report, *_advice(fitted)),
        ],
        papers=PAPERS,
        lead=f"{int(fitted.used_.sum()):,} of {len(fitted.used_):,} SNPs shaped the fit.",
    )


def _title(fitted: Admixture, n_people: int) -> str:
    """The number of populations is announced as found only where no check rejected it."""
    K = fitted.n_populations_
    number = f"{K} population{'s' if K > 1 else ''}"
    if is_shown(fitted.report_):
        return f"Ancestry of {n_people:,} people from {number}"
    return f"Ancestry of {n_people:,} people: {number} fitted, another number than the calls show"


def people_of(fitted: Admixture, given: Genotypes | None) -> tuple[Floats, list[str]]:
    """Proportions of the people of the fit, or of others when those are given; and their names."""
    samples = fitted.samples_
    if given is None or given.samples.tolist() == samples.tolist():
        return fitted.ancestry_, [str(name) for name in samples.tolist()]
    return fitted.transform(given), [str(name) for name in given.samples.tolist()]


def _figures(fitted: Admixture, proportions: Floats) -> list[Figure]:
    how = "by cross-validation" if fitted.selection_ else "as given"
    known = fitted.report_.quantities
    unmixed = float((proportions.max(axis=1) > 0.9).mean())
    error = known.get("standard_error")
    third = Figure("SNPs", count(fitted.used_.sum()), "shaped the fit")
    if error is not None and fitted.n_populations_ > 1:
        third = Figure("Standard error", f"± {error:.3f}", "of the median person's proportions")
    return [
        Figure("Populations", str(fitted.n_populations_), how),
        Figure("Hardly mixed", f"{unmixed:.0%}", "of people have over 90 % from one population"),
        third,
    ]


def _bars(fitted: Admixture, proportions: Floats, names: list[str]) -> Chart:
    drawn, total = drawn_bars(proportions), len(proportions)
    spec = stacked(
        proportions[drawn], [names[at] for at in drawn],
        [str(k) for k in range(fitted.n_populations_)], bar="person", part="population", value="share",
    )  # fmt: skip
    cut = "" if len(drawn) == total else f" {len(drawn):,} of {total:,} people are drawn, evenly taken from all."
    return Chart(
        spec, f"One bar per person, one colour per population, the largest population first.{cut}", "Proportions"
    )


def _populations(fitted: Admixture, proportions: Floats, names: list[str]) -> Section:
    rows = []
    for k in range(fitted.n_populations_):
        top = np.argsort(-proportions[:, k], kind="stable")[:3]
        most = ", ".join(f"{names[at]} {proportions[at, k]:.0%}" for at in top)
        rows.append([k, float(proportions[:, k].mean()), int((proportions[:, k] > 0.9).sum()), most])
    blocks: list[Block] = [
        Chart(
            bars(
                range(len(rows)),
                proportions.mean(axis=0).tolist(),
                value="mean proportion",
                name="population",
                percent=True,
            ),
            "How much of all genomes comes from each population.",
            "Sizes",
        )
    ]
    distance = fitted.report_.quantities.get("distance")
    if distance is not None and fitted.n_populations_ > 1:
        blocks.append(
            Chart(
                heat_map(
                    distance, range(len(distance)), range(len(distance)), row="population", column="population ",
                    value="F_ST",
                ),
                "F_ST between populations, from their fitted frequencies: 0 alike, 1 nothing in common.",
                "How far apart they are",
            )
        )  # fmt: skip
    blocks.append(
        DataTable(
            ["population", Column("mean proportion", ".1%"), Column("people above 90 %"), "most of it"], rows,
            "Populations have numbers, the largest first; who is most of each says what it stands for.",
        )
    )  # fmt: skip
    blocks.append(_people(proportions, names))
    return Section("Populations", blocks)


def _people(proportions: Floats, names: list[str]) -> DataTable:
    mixed = np.argsort(proportions.max(axis=1), kind="stable")[: listed(proportions.shape[1])]
    columns: list[str | Column] = ["person", *(Column(f"{k}", ".1%") for k in range(proportions.shape[1]))]
    rows = [[names[at], *proportions[at].tolist()] for at in mixed]
    return DataTable(columns, rows, "Proportions, the most mixed people first.", "People", total=len(proportions))


def _number(fitted: Admixture) -> Section:
    path = fitted._path
    if path is None:
        table = f"{fitted.n_populations_} populations were given; without --populations the number is estimated."
        return Section("How many populations", [Note(table)])
    points = [{"x": k, "y": error} for k, error in zip(path.n_populations, path.error, strict=True)]
    chart = lines(points, x="populations", y="nats per hidden call", whole_x=True, marked=float(path.chosen))
    rows = [
        [k, error, gain, gain_error]
        for k, error, gain, gain_error in zip(path.n_populations, path.error, path.gain, path.gain_error, strict=True)
    ]
    return Section(
        "How many populations",
        [
            Chart(chart, "Error on calls that were hidden from the fit; the smallest was chosen.", "Cross-validation"),
            DataTable(
                ["populations", Column("error", ".5f"), Column("gain", ".5f"), Column("± of the gain", ".5f")], rows,
                "Nats per hidden call, and what one population more gains.",
            ),
        ],
    )  # fmt: skip


def _advice(fitted: Admixture) -> list[str]:
    table = [
        "ancestry.csv holds the proportions, out.K.Q and out.K.P the same as ADMIXTURE writes them; latentfit predict "
        "gives proportions of new people under these populations."
    ]
    if fitted._path is None and fitted.n_populations_ > 1:
        table.append("Compare with one population fewer and one more: latentfit.admixture.plot matches their colours.")
    return table
