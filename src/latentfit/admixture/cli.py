"""`latentfit admixture`: ancestry proportions of people from genotypes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import (
    AS_IT_IS,
    HIDDEN,
    Reading,
    are_streamed,
    at_most,
    checkpoint_settings,
    engine_of,
    engine_options,
    max_iter_option,
    note_unused_cache,
    output_options,
    settings,
    strict_option,
    table_options,
)
from latentfit.cli.results import Results, conclude, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from latentfit.admixture.data.genotypes import Genotypes
    from latentfit.admixture.data.stored import AnyGenotypes, StoredGenotypes
    from latentfit.admixture.estimator import Admixture
    from latentfit.cli.predict import PredictRequest

ID_NAMES = ("sample", "iid", "individual", "person", "id", "name")
"""Names of a column that names the people, when --id does not."""
REFINE: dict[str, Any] = {"auto": "auto", "likelihood": True, "squares": False}
PLINK = (".bed", ".bim", ".fam")
LINES = 65_536
"""SNPs written at a time."""
SHOWN = 8
"""Populations shown on the screen."""


@click.command()
@click.argument("files", metavar="GENOTYPES…", nargs=-1, required=True)
@click.option("--populations", type=HIDDEN, help="Number of populations; found by cross-validation by default.")
@click.option("--init", type=click.Choice(["als", "tensor"]), default="als", show_default=True, help="Initialisation.")
@click.option("--refine", type=click.Choice(list(REFINE)), default="auto", show_default=True,
              help="auto: likelihood from 100 people on, least squares below.")  # fmt: skip
@click.option("--min-maf", type=float, default=0.0, show_default=True,
              help="Leave SNPs with a rarer allele below this out of the fit of proportions.")  # fmt: skip
@click.option("--all-chromosomes", is_flag=True,
              help="Keep a PLINK set's SNPs of sex chromosomes and mitochondria, left out by default.")  # fmt: skip
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the people (CSV); 'sample' or 'iid' by default.")
@table_options
@max_iter_option
@engine_options
@strict_option
@output_options("latentfit-admixture", report=True)
def admixture(
    files: tuple[str, ...], populations: int | None, init: str, refine: str, min_maf: float, all_chromosomes: bool,
    id_: str | None, engine: str, memory: int | None, cache: str | None, threads: int | None, checkpoint: str | None,
    resume: bool, strict: bool, reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Ancestry proportions from genotypes: a PLINK .bed (its .bim and .fam beside it), or a table of 0/1/2 with one
    row per person and one column per SNP, missing values allowed.

    Beside ancestry.csv and frequencies.csv it writes out.K.Q and out.K.P as ADMIXTURE does: people and SNPs in the
    order of the input.

    \b
    latentfit admixture panel.bed --populations 4 --out ancestry
    latentfit admixture genotypes.csv --id sample --min-maf 0.05
    latentfit admixture biobank.bed --engine stream --cache coded --checkpoint fit.latent
    """
    from latentfit.admixture.diagnostics.verdict import is_shown
    from latentfit.admixture.estimator import Admixture
    from latentfit.core.estimator import model_state

    console, checkpointing = Terminal(quiet), checkpoint_settings(checkpoint, resume)
    streamed = are_streamed(files, engine, memory)
    model = Admixture(
        populations, init=init, refine=REFINE[refine], min_maf=min_maf,  # type: ignore[arg-type]
        random_state=seed, n_jobs=threads,
        engine=engine_of(engine, streamed), **at_most(max_iter),
    )  # fmt: skip
    with settings():
        model._check_settings()
    genotypes: AnyGenotypes
    if streamed:
        with console.counting("coding", "people") as progress, console.warnings_as_notes():
            genotypes = _store(files, id_, cache, threads, progress, reading, console, autosomes=not all_chromosomes)
    else:
        note_unused_cache(cache, console)
        with console.doing("reading"):
            genotypes = read_genotype_file(files[0], id_, threads, reading, console, autosomes=not all_chromosomes)
    with console.doing("fitting"):
        model.fit(genotypes, **checkpointing)
        report = model.report_
    results = Results(out, format_, console, no_report=no_report)
    size = model.n_populations_
    results.table("ancestry", _long(model.samples_, model.ancestry_, model.ancestry_se_), main=True)
    results.batches("frequencies", _frequencies(model))
    if populations is None:
        results.batches("cv", [model.cv_])
    _write_matrix(results, f"out.{size}.Q", model.ancestry_, 6)
    _write_matrix(results, f"out.{size}.P", model.frequencies_, 8)  # the floor of frequencies is 10⁻⁷, no zero
    results.model("Admixture", *model_state(model))
    more = {
        "n_snps": genotypes.n_snps,
        "n_snps_used": int(model.used_.sum()),
        "missing": 1 - genotypes.n_calls / (genotypes.n_snps * genotypes.n_samples),
        "proportions": model.ancestry_.mean(axis=0).tolist(),
    }
    summary = summarise(model, report, genotypes.n_samples, size, seed=seed, inputs=_files(files)) | more
    facts = (
        f"{number_of(summary['n_rows'], 'people')}, {summary['n_snps_used']:,} of "
        f"{number_of(summary['n_snps'], 'SNPs')} used, {number_of(size, 'populations')}"
        + ("" if is_shown(report) else " fitted, another number than the calls show")
    )
    page = partial(results.report, model, summary, input=None if streamed else genotypes)
    display = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=display, page=page)


def predict_ancestry(model: Admixture, request: PredictRequest) -> int:
    """Proportions of new people under the populations of a model."""
    with request.console.doing("reading"):
        # which SNPs count the model knows
        genotypes = read_genotype_file(
            request.data_file, request.columns.get("id"), reading=request.reading, autosomes=False
        )
    with request.console.doing("projecting"):
        proportions, errors = model._project(genotypes)
    request.results.table("ancestry", _long(genotypes.samples, proportions, errors), main=True)
    return request.conclude(len(proportions), number_of(len(proportions), "people"))


def _long(samples: Any, proportions: Any, errors: Any) -> dict[str, Any]:
    """One line per person and population."""
    from latentfit.core.frames import long_columns

    names = np.array([str(name) for name in samples.tolist()], object)
    columns = long_columns(("sample", "population", "proportion"), names, np.arange(proportions.shape[1]), proportions)
    return {**columns, "standard_error": errors.ravel()}


def _frequencies(model: Admixture) -> Iterator[Any]:
    """frequencies.csv block by block: snp, used, one column per population."""
    from latentfit.core.frames import build_frame

    for begin in range(0, len(model.snps_), LINES):
        rows = slice(begin, begin + LINES)
        snps = np.array([str(name) for name in model.snps_[rows].tolist()], object)
        wide = {f"population{k}": model.frequencies_[rows, k] for k in range(model.n_populations_)}
        yield build_frame({"snp": snps, "used": model.used_[rows].astype(np.int8), **wide}, "pyarrow")


def _store(
    files: tuple[str, ...], id_: str | None, cache: str | None, threads: int | None, progress: Any, reading: Reading,
    console: Terminal, *, autosomes: bool,
) -> StoredGenotypes:  # fmt: skip
    """Genotypes in a flat file: a PLINK set, or tables of people."""
    from latentfit.admixture.data.stored import store_bed, store_scan
    from latentfit.core.frames import find_column
    from latentfit.io.scan import scan

    if _is_plink(files, id_):
        return store_bed(Path(files[0]).with_suffix(".bed"), cache, threads or 1, autosomes=autosomes)
    people = scan(files, cache=cache, callback=progress, **reading.rules(id_))
    names = people.first_names()
    return store_scan(people, find_column(names, "people", ID_NAMES, id_) or reading.row_names(names, None, console))


def _is_plink(files: tuple[str, ...], id_: str | None) -> bool:
    """Whether the input is a PLINK set; else it is tables of people, which hold no variant calls."""
    from latentfit.core.errors import DataError, FileFormatError

    if not files[0].lower().endswith(PLINK):
        for path in files:
            if path.lower().removesuffix(".gz").endswith((".vcf", ".bcf")):
                raise FileFormatError(
                    f"{path} holds variant calls; write them as a PLINK set: plink2 --vcf {path} --make-bed"
                )
        return False
    if len(files) > 1:
        raise DataError(f"{len(files)} files were named, {files[0]} first; give one PLINK set, or tables of people")
    if id_ is not None:
        raise DataError(f"--id {id_} names a column of a table, and {files[0]} has people in its .fam; leave --id out")
    return True


def read_genotype_file(
    path: str, id_: str | None, threads: int | None = None, reading: Reading = AS_IT_IS,
    console: Terminal | None = None, *, autosomes: bool = True,
) -> Genotypes:  # fmt: skip
    """Genotypes of a PLINK set or of a table of people."""
    from latentfit.admixture.data.genotypes import read_bed, read_genotypes
    from latentfit.core.frames import find_column
    from latentfit.io.read import read_columns

    if _is_plink((path,), id_):
        return read_bed(Path(path).with_suffix(".bed"), threads=threads or 1, autosomes=autosomes)
    table = read_columns(path, **reading.rules(id_))
    names = table.column_names
    name = find_column(names, "people", ID_NAMES, id_) or reading.row_names(names, None, console)
    if name is None:
        return read_genotypes(table)
    return read_genotypes(table.drop_columns([name]), samples=table[name])


def _files(paths: tuple[str, ...]) -> list[str]:
    """The files that make up the input: a PLINK panel is three."""
    if not paths[0].lower().endswith(PLINK):
        return list(paths)
    return [str(Path(paths[0]).with_suffix(suffix)) for suffix in PLINK]


def _write_matrix(results: Results, name: str, matrix: Any, digits: int) -> None:
    """Numbers alone, one line per row, as ADMIXTURE's readers expect; `nan` where nothing is known."""
    from latentfit.io.write import atomic_path

    if results.folder is None:
        return
    with atomic_path(results.path(name)) as part:
        np.savetxt(part, matrix, fmt=f"%.{digits}f")


def show(model: Admixture, console: Terminal) -> None:
    """Populations, and who is most of each."""
    rows = []
    for k in range(min(model.n_populations_, SHOWN)):
        proportions = model.ancestry_[:, k]
        most = ", ".join(
            f"{model.samples_[i]} {proportions[i]:.0%}" for i in np.argsort(-proportions, kind="stable")[:3]
        )
        rows.append([str(k), f"{proportions.mean():.1%}", str(int((proportions > 0.9).sum())), most])
    console.table("populations", ["population", "mean proportion", "people above 90 %", "most of it"], rows)


def read_input(
    model: Admixture, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_genotype_file(path, columns.get("id"), reading=reading)}
