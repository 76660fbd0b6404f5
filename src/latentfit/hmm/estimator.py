"""Hidden states behind sequences of symbols."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from latentfit.core import model_file
from latentfit.core.em import em
from latentfit.core.errors import DataError, IdentifiabilityWarning, NotIdentifiableError
from latentfit.core.estimator import LatentModel, seed_of
from latentfit.core.frames import Columns, backend_of, build_frame
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.kernels.hmm import MOST_STATES, best_paths, chain_log_likelihood, chain_posteriors
from latentfit.core.model_file import Array, Schema
from latentfit.core.names import Names
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.table.table import Column
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.hmm.data import Sequences, looks_measured, read_sequences, without_duplicates
from latentfit.hmm.diagnostics import examine_chain
from latentfit.hmm.em.fit import NO_STATES, FittedChain, Init, fit_chain
from latentfit.hmm.em.steps import (
    Chain,
    ChainPrior,
    ChainSteps,
    Entropy,
    chain_prior,
    draw_path,
    draw_symbols,
    entropy_rate,
    permuted,
    without_row,
)
from latentfit.hmm.select import MOST_TRIED, StatesPath, choose_states, superfluous, without_state

SCHEMA = Schema(
    {
        "start": Array(("K",), sums_to_one=True),
        "transitions": Array(("K", "K"), sums_to_one=True),
        "emissions": Array(("K", "M"), sums_to_one=True),
        "weights": Array(("K",), sums_to_one=True),
    },
    values={"smoothing": (float, 0), "n_observed": (int, 1)},
)
"""What the model file holds, beside the symbols and the fit history."""


class CategoricalHMM(LatentModel):
    r"""Find the hidden states that sequences of symbols went through: letters, words, bases, events.

    A hidden chain :math:`s_1, s_2, \ldots` moves by `transitions_`, and at every step shows a symbol drawn from the
    state's row of `emissions_`. Bigram and trigram counts give the first model (Corollary 1.5 of Huang, Kakade, Kong &
    Valiant 2018, for any number of states); a model grown state by state and random ones compete with it, and EM
    (Baum–Welch) runs from the best.

    Parameters
    ----------
    n_states : int or None, default None
        Number of states. None chooses the smallest number within one standard error of the best on held-out
        sequences; the choice does not depend on `random_state`.
    max_states : int or None, default None
        Largest number of states tried when `n_states` is None; None means 20. The verdict says when the limit binds.
    init : {"auto", "spectral", "random"}, default "auto"
        Initialisation of EM. ``"auto"``: the best of the moment estimates, a model grown state by state and `n_init`
        random models. ``"spectral"``: the moment estimate alone (with two states the paper's method; random models
        only where the data give no such estimate, with a note). ``"random"``: the best of the random models.
    n_init : int or None, default None
        Number of random initialisations; None takes a few, and ten more when one of them wins.
    smoothing : float or "auto", default "auto"
        Pseudo-observations per state, spread over the symbols in proportion to the square root of their frequencies.
        ``"auto"`` chooses the amount by held-out likelihood; 0 is plain maximum likelihood.
    columns : dict or None, default None
        Which columns of a frame hold the ``"sequence"``, the ``"symbol"`` and the ``"time"`` that steps are sorted by,
        where their names do not say.
    max_iter : int, default 500
        Largest number of EM iterations; 0 returns the initialisation.
    tol : float, default 1e-6
        EM has converged when an iteration gains less than `tol` nats per observation; 0 runs all of `max_iter`.
    random_state : int or None, default None
        Seed; None means 0.
    n_jobs : int or None, default None
        Number of threads; results do not depend on it.
    verbose : int, default 0
        1 logs the stages and EM iterations.
    engine : str, default "auto"
        Where passes over the data run.

    Attributes
    ----------
    start_ : ndarray of shape (n_states,)
        Probability of each state at the first step of a sequence.
    transitions_ : ndarray of shape (n_states, n_states)
        Probability of the next state (column) given the present one (row).
    emissions_ : ndarray of shape (n_states, n_symbols)
        Probability of each symbol given the state, symbols in the order of `symbols_`.
    weights_ : ndarray of shape (n_states,)
        Expected proportion of the training steps in each state; states are sorted by it, heaviest first.
    symbols_ : ndarray of shape (n_symbols,)
        The symbols, in the user's own values.
    n_states_ : int
        Number of states.
    n_components_ : int
        The same as `n_states_`, under the name that all estimators share.
    chain_ : `Chain`
        The fitted chain: `start_`, `transitions_` and `emissions_` in one object.
    smoothing_ : float
        Pseudo-observations per state that were used.
    n_observed_ : int
        Number of observed symbols in the training data.
    selection_ : dict or None
        How the number of states was chosen (`chosen`, `held_out`, `errors`, `limit`); None when it was given.
    parameter_table_ : frame
        Columns kind, from, to, probability.
    n_iter_ : int
        Number of EM iterations.
    converged_ : bool
        Whether EM converged within `max_iter` iterations.
    log_likelihood_ : float
        Log-likelihood of the training sequences, in nats.
    objective_ : float
        Log-likelihood plus the logarithm of the prior.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons and diagnostics.

    Notes
    -----
    A missing value (null, NaN) is a step at which nothing was observed. A symbol that the fit has not seen is read as
    missing too, with a `DataWarning`: it says nothing about the state, and `score` leaves it out.

    Examples
    --------
    >>> from latentfit import CategoricalHMM
    >>> walks = [list("sssrrrrrsssss"), list("rrrrrsssssrrr"), list("sssssssrrrrr")] * 5
    >>> model = CategoricalHMM(2, smoothing=1.0).fit(walks)
    >>> model.emissions_.shape, model.symbols_.tolist()
    ((2, 2), ['r', 's'])
    >>> model.predict(["s", "s", None, "s"]).tolist()
    [0, 0, 0, 0]
    """

    _model_name = "CategoricalHMM"
    _for_report = ("_data", "_clock", "_prior", "_path")
    _predicts_paths = True  # the most probable path, which need not go through the most probable states

    def __init__(
        self,
        n_states: int | None = None,
        *,
        max_states: int | None = None,
        init: Init = "auto",
        n_init: int | None = None,
        smoothing: float | Literal["auto"] = "auto",
        columns: Columns = None,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_states = n_states
        self.max_states = max_states
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.columns = columns
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, lengths: Any = None, *, groups: Any = None, y: Any = None) -> Self:
        """Fit the model to sequences of symbols.

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.
        y : None
            Not used.

        Returns
        -------
        self : CategoricalHMM
            The fitted model.
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                data = read_sequences(X, lengths=lengths, groups=groups, columns=self.columns)
                self._backend, self.n_features_in_ = backend_of(X), 1
                self._check_data(data)
            with clock.stage("number"):
                number = self._choose(data)
            with clock.stage("refine"):
                fitted = fit_chain(
                    data, number, init=self.init, n_init=self.n_init, smoothing=self.smoothing,
                    max_iter=self.max_iter, tol=self.tol, seed=self._seed(), threads=resolve_jobs(self.n_jobs),
                    callback=self._progress("Baum–Welch"), grown=None if self._path is None else self._path.chain,
                )  # fmt: skip
                if self.n_states is None:
                    fitted = self._without_superfluous(data, fitted)
        self._keep(data, fitted)
        self._clock = clock
        self._warn_limit()
        return self

    def _choose(self, data: Sequences) -> int:
        """The number of states: as given, or by sequences left out."""
        self._notes, self._path = list(data.notes), None
        if self.n_states is not None:
            return self.n_states
        most = MOST_TRIED if self.max_states is None else self.max_states
        self._path = choose_states(without_duplicates(data), most=most, threads=resolve_jobs(self.n_jobs))
        self._notes.append(self._path.describe())
        return self._path.chosen

    def _without_superfluous(self, data: Sequences, fitted: FittedChain) -> FittedChain:
        """The same without states that nothing is in, and without the same state twice: nobody asked for them.

        The model that made the number the best had none, so EM runs from there first; what is empty then is left out.
        """
        assert self._path is not None
        before = fitted.refined.params.n_states

        def run_again(prior: ChainPrior, start: Chain, name: str) -> FittedChain:
            steps = ChainSteps(data, prior, resolve_jobs(self.n_jobs))
            refined = em(steps, start, max_iter=self.max_iter, tol=self.tol, accelerate=True)
            return replace(fitted, refined=refined, prior=prior, init_name=name)

        if self._path.chain is not None and superfluous(fitted.refined.params, fitted.observed) is not None:
            shape = fitted.prior.shape if fitted.prior.shape.ndim == 1 else chain_prior(data, 1.0).shape
            fitted = run_again(replace(fitted.prior, shape=shape), self._path.chain, "grown")
        while (state := superfluous(fitted.refined.params, fitted.observed)) is not None:
            smaller = without_state(fitted.refined.params, state)
            fitted = run_again(without_row(fitted.prior, state), smaller, fitted.init_name)
        if (left := before - fitted.refined.params.n_states) > 0:
            self._notes.append(f"{left} of {before} states were empty or doubled after the last fit and were left out")
        return fitted

    def _keep(self, data: Sequences, fitted: FittedChain) -> None:
        """Hold the states, heaviest first."""
        self._forget()
        order = np.argsort(-fitted.observed, kind="stable")
        refined = permuted(fitted.refined, order)
        self._data, self.symbols_, self._letters = data, data.symbols, None
        self._publish(refined.params)
        observed = fitted.observed[order]
        self.weights_ = observed / observed.sum()
        self._keep_fit(refined)
        self._prior, self.smoothing_ = fitted.prior, fitted.prior.emissions
        self.n_observed_ = data.n_observed
        self.selection_ = None if self._path is None else self._path.as_dict()
        if len(fitted.scores) > 1:
            self._notes.append(
                f"the best log-likelihood was reached by {fitted.n_reached} of {len(fitted.scores)} initialisations "
                f"(the best was {fitted.init_name}; the others were dropped before, or ended lower)"
            )
        elif self.init == "spectral" and "random" in fitted.init_name:
            self._notes.append("the moments give no model of so many states, so EM started at a random one")
        if self.smoothing_ >= NO_STATES:
            self._notes.append("sequences left out are as probable without states, so all states show the same symbols")
        elif self.smoothing == "auto" and fitted.held_out is not None:
            self._notes.append(
                f"{self.smoothing_:g} pseudo-observations per state make the sequences left out most probable "
                f"({fitted.held_out:.4f} nats per observation)"
            )

    def _publish(self, chain: Chain) -> None:
        """Parameters under their public names."""
        self.start_, self.transitions_, self.emissions_ = chain.start, chain.transitions, chain.emissions
        self.n_states_ = self.n_components_ = chain.n_states

    # ------------------------------------------------------------ results

    @property
    def chain_(self) -> Chain:
        """The parameters as one object."""
        check_is_fitted(self)
        return Chain(self.start_, self.transitions_, self.emissions_)

    @cached_property
    def parameter_table_(self) -> Any:
        """One row per probability: kind (start, transition, emission), from, to, probability."""
        check_is_fitted(self)
        return build_frame(parameter_columns(self.chain_, self.symbols_), self._backend)

    def state_table(self, X: Any, lengths: Any = None, *, groups: Any = None) -> Any:
        """Table of the most probable states, one row per step.

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.

        Returns
        -------
        frame
            Columns sequence, position (from 1), symbol, state, probability (of that state given the sequence), in X's
            kind of frame.
        """
        data = self._read(X, lengths, groups)
        return build_frame(state_columns(self, data), backend_of(X))

    def entropy_rate(self, *, random_state: int | None = None) -> Entropy:
        """Entropy rate of the fitted model, by simulation.

        Parameters
        ----------
        random_state : int or None, default None
            Seed of the simulation; None means 0.

        Returns
        -------
        Entropy
            `rate`, nats of new information per symbol in the long run, and `error`, the standard error of the
            simulation.

        Warns
        -----
        IdentifiabilityWarning
            With fewer observations than symbols: no method can then estimate the entropy rate of the source.
        """
        estimate = entropy_rate(self.chain_, np.random.default_rng([seed_of(random_state), 7]))
        if self.n_observed_ < len(self.symbols_):
            warnings.warn(
                f"{self.n_observed_} observations of {len(self.symbols_)} symbols: no method can know an entropy rate "
                "from fewer observations than the order of the symbols (Corollary 1.7); this is the model's alone",
                IdentifiabilityWarning,
                stacklevel=2,
            )
        return estimate

    def _examine(self, notes: list[str]) -> Examination:
        return examine_chain(
            self._data, self.chain_, self._prior, self.weights_, converged=self.converged_, path=self._path,
            threads=resolve_jobs(self.n_jobs),
        )  # fmt: skip

    # ---------------------------------------------------------------- use

    def predict(self, X: Any, lengths: Any = None, *, groups: Any = None) -> NDArray[np.int64]:
        """Most probable state path of each sequence (Viterbi).

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.

        Returns
        -------
        ndarray of shape (n_steps,)
            State of each step, in the order of X.
        """
        data = self._read(X, lengths, groups)
        path, _ = best_paths(data.chains, *self.chain_.parts, threads=resolve_jobs(self.n_jobs))
        return data.in_input_order(path.astype(np.int64))

    def predict_proba(self, X: Any, lengths: Any = None, *, groups: Any = None) -> Floats:
        """Posterior probability of each state, given the whole sequence.

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.

        Returns
        -------
        ndarray of shape (n_steps, n_states)
            One row per step, in the order of X.
        """
        data = self._read(X, lengths, groups)
        return data.in_input_order(self._posteriors(data))

    def score(self, X: Any, lengths: Any = None, *, groups: Any = None, y: Any = None) -> float:
        """Log-likelihood of all sequences together; missing and unseen symbols are left out.

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.
        y : None
            Not used.

        Returns
        -------
        float
            Sum over sequences, in nats.
        """
        return float(self.score_sequences(X, lengths=lengths, groups=groups).sum())

    def score_sequences(self, X: Any, lengths: Any = None, *, groups: Any = None) -> Floats:
        """Log-likelihood of each sequence.

        Parameters
        ----------
        X : array, list, str or frame
            One sequence of symbols, a list of sequences, one array with `lengths` or `groups`, or a frame.
        lengths : array-like of shape (n_sequences,) or None, default None
            Number of steps of each sequence, when X holds them end to end.
        groups : array-like of shape (n_steps,) or None, default None
            Identifier of the sequence of each step.

        Returns
        -------
        ndarray of shape (n_sequences,)
            In nats.
        """
        data = self._read(X, lengths, groups)
        return chain_log_likelihood(data.chains, *self.chain_.parts, threads=resolve_jobs(self.n_jobs))

    def sample(self, n_samples: int = 1, *, random_state: int | None = None) -> tuple[Names, NDArray[np.int32]]:
        """Draw one new sequence from the fitted model.

        Parameters
        ----------
        n_samples : int, default 1
            Length of the sequence.
        random_state : int or None, default None
            Seed; None means 0.

        Returns
        -------
        symbols : ndarray of shape (n_samples,)
            Symbols, in the user's own values.
        states : ndarray of shape (n_samples,)
            The hidden states behind them.
        """
        if n_samples < 0:
            raise DataError(f"n_samples must be an int >= 0, got {n_samples}")
        rng = np.random.default_rng(seed_of(random_state))
        states = draw_path(self.chain_, n_samples, rng)
        return self.symbols_[draw_symbols(self.chain_, states, rng)], states

    def _posteriors(self, data: Sequences) -> Floats:
        posterior, _ = chain_posteriors(data.chains, *self.chain_.parts, threads=resolve_jobs(self.n_jobs))
        return posterior

    # -------------------------------------------------------------- input

    def _read(self, X: Any, lengths: Any, groups: Any) -> Sequences:
        """Sequences under the symbols of the fit."""
        check_is_fitted(self)
        return read_sequences(X, lengths=lengths, groups=groups, columns=self.columns, symbols=self.symbols_)

    def _check_data(self, data: Sequences) -> None:
        if not data.n_observed:
            raise DataError("every observation of X is missing; give at least one symbol")
        if looks_measured(data):
            raise DataError(
                f"X holds {data.n_symbols} different decimal numbers in {data.n_observed} observations: these look "
                "like measurements, not symbols; cut them into a few ranges first (numpy.digitize, pandas.qcut), or "
                "use a Gaussian HMM"
            )
        if (self.n_states or 1) > 1 and not len(data.within(1)):
            raise NotIdentifiableError(
                f"all {data.n_sequences} sequences of X have one observation, and states show in how symbols follow "
                "one another; give longer sequences"
            )

    def _check_options(self) -> None:
        if self.init not in get_args(Init):
            raise DataError(f"init must be 'auto', 'spectral' or 'random', got {self.init!r}")
        if self.n_init is not None and self.n_init < 1:
            raise DataError(f"n_init must be an int >= 1 or None, got {self.n_init}")
        if str(self.smoothing) != "auto" and not is_amount(self.smoothing):
            raise DataError(f"smoothing must be a number >= 0 or 'auto', got {self.smoothing!r}")
        if self.n_states is not None and not 1 <= self.n_states <= MOST_STATES:
            raise DataError(f"n_states must be an int from 1 to {MOST_STATES} or None, got {self.n_states}")
        if self.max_states is not None and not 1 <= self.max_states <= MOST_STATES:
            raise DataError(f"max_states must be an int from 1 to {MOST_STATES} or None, got {self.max_states}")

    # --------------------------------------------------------- model file

    # What the model file of a hidden Markov model holds: three tables, the symbols in their own type, the fit history.

    def _state(self) -> tuple[model_file.Arrays, dict[str, Any]]:
        arrays = {name: getattr(self, f"{name}_") for name in SCHEMA.arrays}
        metadata = {
            "symbols": model_file.describe_column(Column("symbol", self.symbols_)),
            "smoothing": float(self.smoothing_),
            "n_observed": int(self.n_observed_),
            "letters": self._letters,
        }
        return model_file.with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: model_file.Arrays, metadata: dict[str, Any]) -> None:
        symbols = model_file.read_column(metadata["symbols"]).categories
        SCHEMA.check(arrays, metadata, M=len(symbols))
        model_file.restore_fit_history(self, arrays, metadata)
        self.smoothing_, self.n_observed_ = metadata["smoothing"], metadata["n_observed"]
        letters = metadata.get("letters")  # the first files of 0.1.0 had none
        self._letters = None if letters is None else model_file.typed(metadata, "letters", bool)
        self.symbols_, self.weights_ = symbols, arrays["weights"]
        self._publish(Chain(arrays["start"], arrays["transitions"], arrays["emissions"]))

    symbols_: Names
    weights_: Floats
    smoothing_: float
    n_observed_: int
    _letters: bool | None  # whether lines of text were split into letters, not words; None: there were none, or unknown
    _path: StatesPath | None
    _prior: ChainPrior


def parameter_columns(chain: Chain, symbols: Names) -> dict[str, NDArray[Any]]:
    """Columns of parameters.csv: kind, from, to, probability; the start comes from nowhere."""
    K, M = chain.emissions.shape
    states = np.array([str(state) for state in range(K)], object)
    words = np.array([str(symbol) for symbol in symbols.tolist()], object)
    kinds = np.array(["start", "transition", "emission"], object)
    return {
        "kind": np.repeat(kinds, [K, K * K, K * M]),
        "from": np.concatenate([np.full(K, "", object), np.repeat(states, K), np.repeat(states, M)]),
        "to": np.concatenate([states, np.tile(states, K), np.tile(words, K)]),
        "probability": np.concatenate([chain.start, chain.transitions.reshape(-1), chain.emissions.reshape(-1)]),
    }


def state_columns(model: CategoricalHMM, data: Sequences) -> dict[str, NDArray[Any]]:
    """Columns of states.csv: sequence, position, symbol, state, probability; sequence by sequence."""
    return _columns_of_steps(model, data)(slice(None))


def state_tables(model: CategoricalHMM, data: Sequences) -> Iterator[Any]:
    """The same as tables of so many steps: the words of a long file are never all written out."""
    columns = _columns_of_steps(model, data)
    for begin in range(0, data.n_steps, BLOCK_ROWS):
        yield build_frame(columns(slice(begin, begin + BLOCK_ROWS)), "pyarrow")


def _columns_of_steps(model: CategoricalHMM, data: Sequences) -> Callable[[slice], dict[str, NDArray[Any]]]:
    data = replace(data, rows=None)
    path = model.predict(data)
    sure = model._posteriors(data)[np.arange(len(path)), path]
    words = np.append(np.array([str(one) for one in data.symbols.tolist()], object), "")
    owner, position = data.sequence_of(), data.positions()
    return lambda part: {
        "sequence": data.names[owner[part]], "position": position[part], "symbol": words[data.codes[part]],
        "state": path[part], "probability": sure[part],
    }  # fmt: skip
