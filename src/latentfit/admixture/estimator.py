"""Ancestry proportions of people and allele frequencies of the populations they descend from."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.admixture.data.genotypes import Genotypes, read_genotypes
from latentfit.admixture.data.passes import SnpPasses, over_calls, snp_passes_for
from latentfit.admixture.data.stored import AnyGenotypes, StoredGenotypes, store_genotypes, store_scan
from latentfit.admixture.diagnostics.relatives import RELATIVES, close_relatives
from latentfit.admixture.diagnostics.snps import concentration, count_heterozygotes, few_snps, linked_neighbours
from latentfit.admixture.diagnostics.verdict import LIMITS, examine_ancestry, populations_seen, standard_errors
from latentfit.admixture.em import (
    FIT,
    Ancestry,
    AncestryFit,
    AncestrySolverState,
    fit_ancestry,
    fit_proportions,
    frequencies_given,
)
from latentfit.admixture.init import Subspace, factor_admixture_tensor, leading_subspace, unfilled_spectrum
from latentfit.admixture.select import NumberPath, choose_populations
from latentfit.core.checkpoint import CheckpointFile
from latentfit.core.em import SolverState
from latentfit.core.errors import DataError, DataWarning
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import as_frame, backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MOST_POPULATIONS
from latentfit.core.model_file import (
    Array,
    Arrays,
    ModelFile,
    Schema,
    name_array,
    plain,
    plain_names,
    restore_fit_history,
    typed,
    with_fit_history,
)
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.io.scan import Scan

MOST_TRIED = 12
"""Largest number of populations that the search looks at."""
OTHER_ITERATIONS = 60
"""Iterations of the fit from another initialisation that the verdict compares with."""


SCHEMA = Schema(
    {
        "seen": Array(("M",), high=1, dtype=np.uint8),
        "order": Array(("used",), dtype=np.int64),
        "ancestry": Array(("n", "K"), sums_to_one=True),
        "frequencies": Array(("seen", "K"), high=1),
    },
    values={"likelihood": (bool, 0)},
)
"""What the model file holds, besides the fit history."""


class Admixture(TransformerMixin, LatentModel):
    r"""Admixture model: ancestry proportions of people and allele frequencies of their ancestral populations.

    The allele count of person :math:`i` at SNP :math:`j` is binomial:
    :math:`g_{ij} \sim \mathrm{Bin}(2, \sum_k q_{ik} f_{jk})`, proportions :math:`q_i` on the simplex. Calls may be
    missing.

    Parameters
    ----------
    n_populations : int or None, default=None
        Number of ancestral populations; None chooses it by cross-validation (`cv_`).
    init : {"als", "tensor"}, default="als"
        Initialisation. ``"als"``: singular vectors, then constrained alternating least squares. ``"tensor"``: tensor
        eigenpairs, for populations so distant that most alleles are fixed.
    refine : "auto" or bool, default="auto"
        Maximise the likelihood (True) or use the least-squares solution (False); ``"auto"`` maximises the likelihood
        from 100 people on.
    min_maf : float, default=0.0
        SNPs with a lower minor allele frequency are left out when proportions are fitted; their frequencies are
        estimated all the same.
    max_iter : int, default=300
        Maximum number of iterations.
    tol : float, default=1e-9
        The fit stops when an iteration gains less than `tol` nats per call (least squares: squared error per call).
    random_state : int, RandomState instance, Generator or None, default=None
        Seed of all random numbers; None is 0.
    n_jobs : int or None, default=None
        Number of threads; results never depend on it.
    verbose : int, default=0
        1 reports the stages of the fit and the iterations on stderr.
    engine : str, default="auto"
        ``"memory"``, ``"stream"`` (calls in a flat file, read in blocks of SNPs), ``"dask"`` or ``"dask=ADDRESS"``: the
        same bits; ``"auto"`` streams what `latentfit.scan` names and holds all else in memory.

    Attributes
    ----------
    ancestry_ : ndarray of shape (n_people, n_populations)
        Ancestry proportions, the largest population first; rows sum to one.
    ancestry_se_ : ndarray of shape (n_people, n_populations)
        Standard errors of `ancestry_`, frequencies taken as known.
    frequencies_ : ndarray of shape (n_snps, n_populations)
        Frequency of the counted allele; NaN for a SNP without any call.
    n_populations_ : int
        Number of populations.
    samples_ : ndarray of shape (n_people,)
        Names of the people.
    snps_ : ndarray of shape (n_snps,)
        Names of the SNPs.
    used_ : ndarray of bool of shape (n_snps,)
        Whether a SNP took part in fitting the proportions.
    cv_ : frame
        Cross-validation errors, one row per number of populations tried (empty when the number was given).
    selection_ : dict or None
        The chosen number of populations; None if it was given.
    log_likelihood_ : float
        Log-likelihood of the calls, in nats.
    objective_ : float
        The maximised log-likelihood, or minus the squared error of least squares.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within `max_iter` iterations.
    n_features_in_ : int
        Number of SNPs seen in `fit`.
    feature_names_in_ : ndarray of shape (n_snps,)
        Names of the SNPs, if the data have string names.
    report_ : latentfit.core.verdict.FitReport
        Verdict with reasons and diagnostics.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit import Admixture
    >>> rng = np.random.default_rng(0)
    >>> frequencies = rng.uniform(0.05, 0.95, (2, 400))
    >>> proportions = rng.dirichlet([0.5, 0.5], 120)
    >>> genotypes = rng.binomial(2, proportions @ frequencies)
    >>> model = Admixture(2).fit(genotypes)
    >>> model.ancestry_.shape, model.frequencies_.shape
    ((120, 2), (400, 2))
    """

    _model_name = "Admixture"
    _engines = ("auto", "memory", "stream", "dask")
    _takes = ("allow_nan",)
    _for_report = ("_panel_", "_fit_", "_clock")

    def __init__(
        self,
        n_populations: int | None = None,
        *,
        init: Literal["als", "tensor"] = "als",
        refine: bool | Literal["auto"] = "auto",
        min_maf: float = 0.0,
        max_iter: int = 300,
        tol: float = 1e-9,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_populations = n_populations
        self.init = init
        self.refine = refine
        self.min_maf = min_maf
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, resume: bool = False
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or frame of shape (n_people, n_snps), latentfit.scan, or Genotypes
            Allele counts 0, 1, 2; NaN or -1 marks a missing call.
        y : ignored
            Present for scikit-learn's API.
        checkpoint : path, optional
            File to which a long fit writes its solver state every few seconds; it is removed when the fit has ended.
        resume : bool, default=False
            Continue from `checkpoint`; the result has the same bits as an uninterrupted fit.

        Returns
        -------
        self : Admixture
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                genotypes = self._read(X)
                checkpoint_file = None
                if checkpoint is not None:
                    checkpoint_file = AncestryCheckpoint(
                        checkpoint, genotypes_key(genotypes), self._settings(), resume=resume
                    )
                panel, order = self._panel(genotypes)
                snps = snp_passes_for(panel, self.engine, self.n_jobs)
                self._likelihood = (
                    genotypes.n_samples >= FIT.least_people if self.refine == "auto" else bool(self.refine)
                )
            with clock.stage("number"):
                saved = None if checkpoint_file is None else checkpoint_file.saved
                self._path, n_populations = self._choose(panel) if saved is None else (saved.path, saved.n_populations)
            with clock.stage("refine"):
                fit = self._refine(snps, n_populations, checkpoint_file)
                self._keep(genotypes, snps, order, fit)
        self._clock, self._notes = clock, self._warn(genotypes, fit, n_populations)
        if checkpoint_file is not None:
            checkpoint_file.done()
        self._warn_limit()
        return self

    def _choose(self, panel: AnyGenotypes) -> tuple[NumberPath | None, int]:
        if self.n_populations is not None:
            most = min(panel.n_samples, panel.n_snps, MOST_POPULATIONS)
            if not 1 <= self.n_populations <= most:
                raise DataError(
                    f"n_populations must be an int from 1 to {most} for {panel.n_samples} people and {panel.n_snps} "
                    f"SNPs that vary, got {self.n_populations}; give a number in this range, or None to estimate it"
                )
            return None, int(self.n_populations)  # a checkpoint holds no integer of numpy
        path = choose_populations(
            panel,
            most=max(min(MOST_TRIED, panel.n_samples // 3, panel.n_snps // 3), 1),
            likelihood=self._likelihood,
            tol=self.tol,
            seed=self._seed(),
            over=lambda genotypes: snp_passes_for(genotypes, self.engine, self.n_jobs),
        )
        return path, path.chosen

    def _refine(self, snps: SnpPasses, n_populations: int, checkpoint_file: AncestryCheckpoint | None) -> AncestryFit:
        rng, means = np.random.default_rng(self._seed()), snps.genotypes.means

        def tensor_init(space: Subspace) -> Ancestry:
            proportions, frequencies, _ = factor_admixture_tensor(snps, means, space, rng=rng)
            return Ancestry(proportions, frequencies)

        saved = None if checkpoint_file is None else checkpoint_file.saved
        return fit_ancestry(
            snps, means, n_populations,
            likelihood=self._likelihood, max_iter=self.max_iter, tol=self.tol, rng=rng,
            init=("tensor eigenpairs", tensor_init) if self.init == "tensor" and n_populations > 1 else None,
            callback=self._progress("likelihood"), resume_from=None if saved is None else saved.place,
            on_iteration=None if checkpoint_file is None else checkpoint_file.writer(n_populations, self._path),
        )  # fmt: skip

    def _keep(self, genotypes: AnyGenotypes, snps: SnpPasses, order: NDArray[np.intp], fit: AncestryFit) -> None:
        """Hold the fit in the user's order."""
        self._forget()
        proportions = np.empty_like(fit.params.proportions)
        proportions[self._people] = fit.params.proportions
        self._publish(Ancestry(proportions, fit.params.frequencies), order, genotypes.n_snps)
        self._panel_, self._fit_ = snps, fit
        self.frequencies_ = self._all_frequencies(genotypes)
        self.samples_, self.snps_ = genotypes.samples, genotypes.snps
        self._alleles = genotypes.alleles
        self._keep_fit(fit)
        self.selection_ = None if self._path is None else {"n_populations": self._path.chosen}

    def _publish(self, fitted: Ancestry, order: NDArray[np.intp], n_snps: int) -> None:
        """Parameters under their public names; `order` are the places of the SNPs that shaped them."""
        self._order, self._fitted = order, fitted.frequencies
        self.ancestry_ = fitted.proportions
        self.n_populations_ = self._n_features_out = fitted.proportions.shape[1]
        self.used_ = np.zeros(n_snps, bool)
        self.used_[order] = True

    def _all_frequencies(self, genotypes: AnyGenotypes) -> Floats:
        """Frequencies of every SNP: those of the fit, and for SNPs left out of it the best given the proportions."""
        out = np.full((genotypes.n_snps, self.n_populations_), np.nan)
        out[self._order] = self._fitted
        aside = np.flatnonzero(~self.used_ & (genotypes.counts[:, :3].sum(axis=1) > 0))
        if len(aside):
            start = np.repeat(genotypes.means[aside, None], self.n_populations_, axis=1)
            part = snp_passes_for(genotypes.take(aside, self._people), self.engine, self.n_jobs)
            out[aside] = frequencies_given(part, self.ancestry_[self._people], start)
        return out

    def _warn(self, genotypes: AnyGenotypes, fit: AncestryFit, n_populations: int) -> list[str]:
        people = genotypes.n_samples
        how = "likelihood" if self._likelihood else "least squares"
        why = "as given" if self.refine != "auto" else f"{people} people, likelihood from {FIT.least_people} on"
        notes = [f"{n_populations} populations by {how} ({why}), initialised from {fit.init_name}"]
        if self._path is not None:
            errors = ", ".join(
                f"{k}: {error:.5f}" for k, error in zip(self._path.n_populations, self._path.error, strict=True)
            )
            notes.append(f"number of populations chosen by cross-validation error per masked call ({errors})")
        left_out = genotypes.n_snps - int(self.used_.sum())
        if left_out:
            notes.append(f"{left_out} SNPs with one allele, without calls or below min_maf were left out of the fit")
        return notes + list(genotypes.notes)

    # ------------------------------------------------------------ results

    @cached_property
    def ancestry_se_(self) -> Floats:
        """Standard errors of `ancestry_` from each person's own calls, ndarray of shape (n_people, n_populations).

        Frequencies are taken as known. The errors are those of a maximum inside the simplex: rough where a proportion
        is near 0 or 1, and too small where SNPs are linked.
        """
        check_is_fitted(self)
        if not hasattr(self, "_panel_"):
            raise DataError("ancestry_se_ needs the genotypes, which a model file does not store; fit the model again")
        out, proportions = np.empty_like(self.ancestry_), self.ancestry_[self._people]
        with one_blas_thread():
            out[self._people] = standard_errors(proportions, self._panel_.curvature(proportions, self._fitted)[2])
        return out

    @property
    def cv_(self) -> Any:
        """Cross-validation: error per masked call for every number of populations tried, and the gain of each step."""
        check_is_fitted(self)
        path = NumberPath([], [], [], [], 0) if self._path is None else self._path
        kinds = {"n_populations": np.int64, "error": np.float64, "gain": np.float64, "gain_error": np.float64}
        return build_frame({name: np.array(getattr(path, name), kind) for name, kind in kinds.items()}, self._backend)

    def _examine(self, notes: list[str]) -> Examination:
        proportions, panel = self.ancestry_[self._people], self._panel_.genotypes
        kinship = close_relatives(panel, proportions)
        linkage = linked_neighbours(panel, self._order, proportions, self._fitted)
        heterozygotes = count_heterozygotes(panel, proportions, self._fitted)
        if len(kinship.pairs):
            unsure = "; linked SNPs make kinship unsure" if linkage.fraction > LIMITS.linked_fraction else ""
            notes.append(
                f"{len(kinship.pairs)} pairs of close relatives (kinship {RELATIVES.close:.3f} or more), "
                f"{kinship.n_duplicates} of them copies of one person, among "
                f"{len(kinship.people)} people who were compared{unsure}"
            )
        found = examine_ancestry(
            proportions, self._fitted, self.ancestry_se_[self._people], self._spectrum(),
            converged=self.converged_, refit=self._refit, carriers=self._carriers, log_likelihood=self.objective_,
            kinship=kinship, linkage=linkage, heterozygotes=heterozygotes,
            names=[str(name) for name in self.samples_[self._people].tolist()],
            concentrated=concentration(self._fitted, self._order), in_few_snps=few_snps(self._fitted),
        )  # fmt: skip
        if heterozygotes.one_copy > 0 and heterozygotes.lacking <= LIMITS.one_copy:
            notes.append(
                f"{heterozygotes.one_copy:.0%} of the people have no heterozygous call at {heterozygotes.lacking:.1%} "
                "of the SNPs, as males have on X"
            )
        return found

    def _spectrum(self) -> Floats:
        """Singular values that the number of populations is judged by.

        Directions that fill no missing calls split in two where people were genotyped at different SNPs, so what lies
        beyond K is looked at with all of the K − 1 directions filling.
        """
        panel, K = self._panel_.genotypes, self.n_populations_
        complete = panel.n_calls == panel.n_samples * panel.n_snps
        if complete and K > 1:
            return self._fit_.spectrum
        with one_blas_thread():
            values = unfilled_spectrum(self._panel_, panel.means, max(K, 2))
            if complete or populations_seen(values) <= K:
                return values
            further = unfilled_spectrum(self._panel_, panel.means, K + 1)
        return np.concatenate([values[: K - 1], further[K - 1 :]])

    def _carriers(self, n_populations: int) -> Floats:
        """How many people carry each direction beyond those of the fit (1 / Σv⁴ of a unit vector v)."""
        with one_blas_thread():
            basis = leading_subspace(self._panel_, self._panel_.genotypes.means, n_populations).basis
        return np.asarray(1 / (basis[:, self.n_populations_ :] ** 4).sum(axis=0))

    def _refit(self) -> tuple[Floats, float]:
        """Proportions and objective of a fit from other people than those of the fit."""
        other = fit_ancestry(
            self._panel_, self._panel_.genotypes.means, self.n_populations_,
            likelihood=self._likelihood, max_iter=min(self.n_iter_, OTHER_ITERATIONS), tol=self.tol,
            rng=np.random.default_rng((self._seed(), 1)), n_starts=1, far=False,
        )  # fmt: skip
        return other.params.proportions, other.objective

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """Ancestry proportions of people under the fitted frequencies.

        SNPs are matched by name; those that new people lack, or that have other alleles, are taken as missing, and a
        warning counts them. Proportions of new people are drawn towards the middle: the frequencies followed the
        sampling noise of the fitted people too, which makes those a little purer than others of the same descent.
        Compare new people with one another, not with `ancestry_`.

        Parameters
        ----------
        X : array-like or frame of shape (n_people, n_snps), latentfit.scan, or Genotypes
            Allele counts 0, 1, 2; NaN or -1 marks a missing call.

        Returns
        -------
        ndarray of shape (n_people, n_populations)
            Rows sum to one; a person's result does not depend on the other people.
        """
        return self._project(X)[0]

    def _project(self, X: Any) -> tuple[Floats, Floats]:
        """Proportions of people and their standard errors (people, populations)."""
        check_is_fitted(self)
        genotypes = self._read_known(X)
        if (person := genotypes.person_without_calls) is not None:
            raise DataError(f"person {person!r} has no call at any SNP of the fit; leave the person out")
        with one_blas_thread():
            proportions = fit_proportions(
                genotypes.calls, self._fitted, squares=not self._likelihood, n_jobs=self.n_jobs
            )[0]
            information = over_calls(genotypes.calls, self.n_jobs).curvature(proportions, self._fitted)[2]
            return proportions, standard_errors(proportions, information)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the populations.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's API.

        Returns
        -------
        ndarray of str of shape (n_populations,)
        """
        check_is_fitted(self)
        return np.array([f"population{k}" for k in range(self.n_populations_)], object)

    # -------------------------------------------------------------- input

    def _read(self, X: Any) -> AnyGenotypes:
        """Calls in memory, or in a file (`latentfit.scan`, `StoredGenotypes`, or engine="stream")."""
        genotypes: AnyGenotypes
        if isinstance(X, Scan | StoredGenotypes):
            stored = store_scan(X) if isinstance(X, Scan) else X
            genotypes = stored.loaded() if self.engine == "memory" else stored
        else:
            read = read_genotypes(X)
            genotypes = read if self.engine in ("auto", "memory") else store_genotypes(read)
        known = isinstance(X, Genotypes | StoredGenotypes | Scan)
        self._backend = "pyarrow" if known else backend_of(X)
        self._name_features(genotypes.snps.tolist())
        return genotypes

    def _panel(self, genotypes: AnyGenotypes) -> tuple[AnyGenotypes, NDArray[np.intp]]:
        """The SNPs that say something about ancestry, in an order that only their calls decide, and their places."""
        empty = genotypes.counts[:, :3].sum(axis=1) == 0
        if empty.any():
            name = genotypes.snps.tolist()[int(empty.argmax())]
            warnings.warn(
                f"{int(empty.sum())} SNPs have no call at all, for example {name!r}; their frequencies are NaN",
                DataWarning,
                stacklevel=3,
            )
        used = np.flatnonzero(genotypes.informative(self.min_maf))
        if not len(used):
            raise DataError(
                f"none of the {genotypes.n_snps} SNPs has both alleles"
                + (f" with the rarer at {self.min_maf:g} or more" if self.min_maf else "")
                + "; give SNPs that vary, or lower min_maf"
            )
        part = genotypes if len(used) == genotypes.n_snps else genotypes.take(used)
        if (person := part.person_without_calls) is not None:
            raise DataError(f"person {person!r} has no call at any SNP used by the fit; leave the person out")
        snps, people = part.order_by_content()
        self._people = people
        return part.take(snps, people), used[snps]

    def _read_known(self, X: Any) -> Genotypes:
        """The SNPs of the fit, in its order, its alleles counted; new people are read into memory."""
        X = store_scan(X) if isinstance(X, Scan) else X
        X = X.loaded() if isinstance(X, StoredGenotypes) else X
        genotypes = read_genotypes(X)
        alleles = None if self._alleles is None else self._alleles[self._order]
        names = getattr(self, "feature_names_in_", None)
        if names is not None and (isinstance(X, Genotypes) or as_frame(X) is not None):
            at = {str(name): place for place, name in enumerate(genotypes.snps.tolist())}
            wanted = [str(names[place]) for place in self._order]
            places = np.array([at.get(name, -1) for name in wanted], np.intp)
            if (places < 0).all():
                raise DataError(
                    f"the data has none of the {len(wanted)} SNPs of the fit, for example {wanted[0]!r}; name SNPs as "
                    "the fit did"
                )
        elif genotypes.n_snps != self.n_features_in_:
            raise DataError(
                f"the data has {genotypes.n_snps} SNPs, but the model was fitted on {self.n_features_in_}; "
                "give the same SNPs in the same order"
            )
        else:
            places = self._order
        known, found = genotypes.aligned(places, alleles)
        if found.absent or found.flipped or found.foreign:
            warnings.warn(
                f"of the {len(places):,} SNPs of the fit {found.absent:,} are not in the data, {found.foreign:,} have "
                f"other alleles and {found.unsure:,} have an ambiguous strand (A/T, C/G), all taken as "
                f"missing; {found.flipped:,} were read from the other strand and {found.turned:,} count the other "
                "allele",
                DataWarning,
                stacklevel=4,
            )
        return known

    def _check_options(self) -> None:
        if self.init not in ("als", "tensor"):
            raise DataError(f"init must be 'als' or 'tensor', got {self.init!r}; give one of them")
        if self.refine not in ("auto", True, False):
            raise DataError(f"refine must be 'auto', True or False, got {self.refine!r}; give one of them")
        if not 0 <= self.min_maf < 0.5:
            raise DataError(
                f"min_maf must be a minor allele frequency in [0, 0.5), got {self.min_maf}; give a number in this range"
            )

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata; frequencies only of SNPs that have any call."""
        seen = ~np.isnan(self.frequencies_[:, 0])
        arrays: Arrays = {
            "ancestry": self.ancestry_,
            "frequencies": np.ascontiguousarray(self.frequencies_[seen]),
            "seen": seen.astype(np.uint8),
            "order": self._order.astype(np.int64),
        }
        metadata = {
            "samples": plain_names(self.samples_.tolist()),
            "alleles": None if self._alleles is None else self._alleles.T.tolist(),
            "likelihood": self._likelihood,
            "cv": None if self._path is None else plain(vars(self._path)),
        }
        return with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        restore_fit_history(self, arrays, metadata)
        samples, n_snps = typed(metadata, "samples", list), self.n_features_in_
        seen = arrays["seen"].astype(bool)
        sizes = SCHEMA.check(arrays, metadata, n=len(samples), M=n_snps, seen=int(seen.sum()))
        proportions, order, K = arrays["ancestry"], arrays["order"], sizes["K"]
        if not len(order) or len(np.unique(order)) < len(order) or order.max() >= n_snps or not seen[order].all():
            raise ValueError("order names no SNP, one twice, or one that does not exist")
        self.frequencies_ = np.full((n_snps, K), np.nan)
        self.frequencies_[seen] = arrays["frequencies"]
        self.samples_ = name_array(samples, "samples")
        self.snps_ = getattr(self, "feature_names_in_", np.arange(n_snps))
        fitted = Ancestry(proportions, np.ascontiguousarray(self.frequencies_[order]))
        self._publish(fitted, order.astype(np.intp), n_snps)
        self._alleles = _alleles(metadata.get("alleles"), n_snps)  # files of 0.1.0 did not say
        self._likelihood = typed(metadata, "likelihood", bool)
        self._path = None if metadata["cv"] is None else _read_path(typed(metadata, "cv", dict))

    frequencies_: Floats
    _path: NumberPath | None
    _likelihood: bool
    _alleles: NDArray[Any] | None


# -----------------------------------------------------------------------------
# The checkpoint of a fit of ancestry: the number of populations, the selected initialisation, the solver state.
#
# A fit that resumes repeats neither the search for the number of populations nor multi-start selection: their results
# are in the file.


@dataclass(frozen=True)
class SavedAncestry:
    """Solver state of an interrupted fit, and what had been selected before."""

    place: AncestrySolverState
    n_populations: int
    path: NumberPath | None


class AncestryCheckpoint(CheckpointFile):
    """The file of one fit of ancestry."""

    @property
    def saved(self) -> SavedAncestry | None:
        return None if self.file is None else _saved(self.file)

    def writer(self, n_populations: int, path: NumberPath | None) -> Callable[[AncestrySolverState], None]:
        """Callback after every iteration of EM."""

        def write(place: AncestrySolverState) -> None:
            if not self.due:
                return
            params = place.resume_from.params
            arrays = {
                "proportions": np.ascontiguousarray(params.proportions),
                "frequencies": np.ascontiguousarray(params.frequencies),
                "spectrum": place.spectrum,
                "path": np.array(place.resume_from.path),
            }
            cv = None if path is None else plain(vars(path))
            facts = {"n_iter": place.resume_from.n_iter, "start": place.init_name}
            self.write(arrays, facts | {"n_populations": n_populations, "cv": cv})

        return write


def genotypes_key(genotypes: AnyGenotypes) -> str:
    """Key of genotypes: their names and how often each call occurs at every SNP."""
    known = hashlib.sha256(repr((genotypes.samples.tolist(), genotypes.snps.tolist())).encode())
    known.update(genotypes.counts.tobytes())
    return known.hexdigest()


def _saved(file: ModelFile) -> SavedAncestry:
    arrays, facts = file.arrays, file.metadata
    params = Ancestry(arrays["proportions"], arrays["frequencies"])
    resume_from = SolverState(params, int(facts["n_iter"]), arrays["path"].tolist())
    path = None if facts["cv"] is None else NumberPath(**facts["cv"])
    return SavedAncestry(
        AncestrySolverState(facts["start"], arrays["spectrum"], resume_from), int(facts["n_populations"]), path
    )


def _alleles(columns: Any, n_snps: int) -> NDArray[Any] | None:
    if columns is None:
        return None
    alleles = np.array(columns, object).T
    if alleles.shape != (n_snps, 2) or not all(type(word) is str for word in alleles.ravel()):
        raise ValueError(f"alleles are not two strings for each of {n_snps} SNPs")
    return alleles


def _read_path(cv: dict[str, Any]) -> NumberPath:
    columns = {name: typed(cv, name, list) for name in ("n_populations", "error", "gain", "gain_error")}
    length = len(columns["n_populations"])
    if columns["n_populations"] != list(range(1, length + 1)) or not length:
        raise ValueError("cv does not count from one")
    for name in ("error", "gain", "gain_error"):
        if len(columns[name]) != length or not all(type(value) is float for value in columns[name]):
            raise ValueError(f"{name} of cv does not hold {length} numbers")
    chosen = typed(cv, "chosen", int)
    if not 1 <= chosen <= length:
        raise ValueError("cv chose a number that it has not tried")
    return NumberPath(**columns, chosen=chosen)
