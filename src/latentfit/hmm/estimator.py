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

from latentfit.core.em import em
from latentfit.core.errors import DataError, IdentifiabilityWarning, NotIdentifiableError
from latentfit.core.estimator import LatentModel, seed_of
from latentfit.core.frames import Columns, backend_of, build_frame
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.kernels.hmm import MOST_STATES, best_paths, chain_log_likelihood, chain_posteriors
from latentfit.core.model_file import (
    ROUNDING,
    Arrays,
    check_numbers,
    describe_column,
    read_column,
    restore_story,
    typed,
    with_story,
)
from latentfit.core.names import Names
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.table.table import Column
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.hmm.data import Sequences, looks_measured, read_sequences, without_copies
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


class CategoricalHMM(LatentModel):
    r"""Find the hidden states that sequences of symbols went through: letters, words, bases, events.

    A hidden chain :math:`s_1, s_2, \ldots` moves by `transitions_`, and at every step shows a symbol drawn from the
    state's row of `emissions_`. Bigram and trigram counts give the first model (Corollary 1.5 of Huang, Kakade, Kong &
    Valiant 2018, for any number of states); a model grown state by state and random ones compete with it, and EM
    (Baum–Welch) runs from the best.

    Parameters
    ----------
    n_states : int or None
        Number of states; None takes the smallest number within one standard error of the best on sequences left out.
        The seed does not decide it.
    max_states : int or None
        The largest number that is tried when `n_states` is None; None is 20. The verdict says when it binds.
    init : {"auto", "spectral", "random"}
        Where EM starts: ``"auto"`` at the best of the moments' models, a grown one and `n_init` random ones,
        ``"spectral"`` at the moments' model alone (with two states it is the paper's method; random ones only where the
        data give no such model, with a note), ``"random"`` at the best of the random ones.
    n_init : int or None
        Number of random initialisations; None takes a few, and ten more when one of them wins.
    smoothing : float or "auto"
        Pseudo-observations a state, spread over the symbols like the root of their frequencies; ``"auto"`` takes the
        number under which sequences left out are most probable, 0 is plain maximum likelihood.
    columns : dict, optional
        Which columns of a frame hold the ``sequence``, the ``symbol`` and the ``time`` that steps are sorted by, where
        their names do not say.
    max_iter, tol : int, float
        The climb stops when a pass gains less than `tol` nats an observation, or after `max_iter` passes.
    random_state : int or None
        The one seed; None is 0.
    n_jobs : int or None
        Threads; results never depend on their number.

    Attributes
    ----------
    start_ : (states,) where sequences start
    transitions_ : (states, states) where a state goes next
    emissions_ : (states, symbols) what a state shows, symbols in the order of `symbols_`
    weights_ : (states,) share of the training's steps in every state; states come heaviest first
    symbols_ : (symbols,) in the user's words
    n_states_ : int
    smoothing_ : pseudo-observations a state that were used
    parameter_table_ : frame (kind, from, to, probability)
    report_ : `latentfit.core.verdict.FitReport`

    Notes
    -----
    A gap (null, NaN) is a step at which nothing was seen. A symbol that the fit has not seen is read as a gap too, with
    a `DataWarning`: it says nothing about the state, and `score` leaves it out.

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
        """Learn from sequences of symbols: one, a list, or one array with `lengths` or `groups`; `y` is not used.

        `lengths` stands where hmmlearn has it.
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
                found = self._refine(data, number)
                if self.n_states is None:
                    found = self._without_superfluous(data, found)
        self._keep(data, found)
        self._clock = clock
        self._warn_limit()
        return self

    def _choose(self, data: Sequences) -> int:
        """The number of states: as given, or by sequences left out."""
        self._notes, self._path = list(data.notes), None
        if self.n_states is not None:
            return self.n_states
        most = MOST_TRIED if self.max_states is None else self.max_states
        self._path = choose_states(without_copies(data), most=most, threads=resolve_jobs(self.n_jobs))
        self._notes.append(self._path.told())
        return self._path.chosen

    def _refine(self, data: Sequences, number: int) -> FittedChain:
        """The best of the initialisations with so many states, and its smoothing."""
        return fit_chain(
            data, number, init=self.init, n_init=self.n_init, smoothing=self.smoothing,
            max_iter=self.max_iter, tol=self.tol, seed=self._seed(), threads=resolve_jobs(self.n_jobs),
            callback=self._progress("Baum–Welch"), grown=None if self._path is None else self._path.chain,
        )  # fmt: skip

    def _without_superfluous(self, data: Sequences, found: FittedChain) -> FittedChain:
        """The same without states that nothing is in, and without the same state twice: nobody asked for them.

        The model that made the number the best had none, so EM runs from there first; what is empty then is left out.
        """
        assert self._path is not None
        before = found.refined.params.n_states
        shown = found.refined.sums.emissions.sum(axis=1)
        if self._path.chain is not None and superfluous(found.refined.params, shown) is not None:
            prior = (
                replace(found.prior, shape=chain_prior(data, 1.0).shape) if found.prior.shape.ndim > 1 else found.prior
            )
            steps = ChainSteps(data, prior, resolve_jobs(self.n_jobs))
            refined = em(steps, self._path.chain, max_iter=self.max_iter, tol=self.tol, accelerate=True)
            found = replace(found, refined=refined, prior=prior, start_name="grown")
        while (state := superfluous(found.refined.params, found.refined.sums.emissions.sum(axis=1))) is not None:
            steps = ChainSteps(data, without_row(found.prior, state), resolve_jobs(self.n_jobs))
            smaller = without_state(found.refined.params, state)
            refined = em(steps, smaller, max_iter=self.max_iter, tol=self.tol, accelerate=True)
            found = replace(found, refined=refined, prior=steps.prior)
        if (left := before - found.refined.params.n_states) > 0:
            self._notes.append(f"{left} of {before} states were empty or doubled after the last fit and were left out")
        return found

    def _keep(self, data: Sequences, found: FittedChain) -> None:
        """Hold the states, heaviest first."""
        self._forget()
        order = np.argsort(-found.refined.sums.emissions.sum(axis=1), kind="stable")
        refined = permuted(found.refined, order)
        self._data, self.symbols_, self._letters = data, data.symbols, None
        self._publish(refined.params)
        shown = refined.sums.emissions.sum(axis=1)
        self.weights_ = shown / shown.sum()
        self._keep_fit(refined)
        self._prior, self.smoothing_ = found.prior, found.prior.emissions
        self.n_observed_ = data.n_observed
        self.selection_ = None if self._path is None else self._path.as_dict()
        if len(found.scores) > 1:
            self._notes.append(
                f"the best log-likelihood was reached by {found.n_reached} of {len(found.scores)} initialisations "
                f"(the best was {found.start_name}; the others were dropped before, or ended lower)"
            )
        elif self.init == "spectral" and "random" in found.start_name:
            self._notes.append("the moments give no model of so many states, so EM started at a random one")
        if self.smoothing_ >= NO_STATES:
            self._notes.append("sequences left out are as probable without states, so all states show the same symbols")
        elif self.smoothing == "auto" and found.held_out is not None:
            self._notes.append(
                f"{self.smoothing_:g} pseudo-observations a state make the sequences left out most probable "
                f"({found.held_out:.4f} nats an observation)"
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
        """One row per step: sequence, position (from 1), symbol, state, probability of that state."""
        data = self._read(X, lengths, groups)
        return build_frame(state_columns(self, data), backend_of(X))

    def entropy_rate(self, *, random_state: int | None = None) -> Entropy:
        """Nats of new information a symbol in the long run, under the fitted model, with the simulation's error."""
        found = entropy_rate(self.chain_, np.random.default_rng([seed_of(random_state), 7]))
        if self.n_observed_ < len(self.symbols_):
            warnings.warn(
                f"{self.n_observed_} observations of {len(self.symbols_)} symbols: no method can know an entropy rate "
                "from fewer observations than the order of the symbols (Corollary 1.7); this is the model's alone",
                IdentifiabilityWarning,
                stacklevel=2,
            )
        return found

    def _examine(self, notes: list[str]) -> Examination:
        return examine_chain(
            self._data, self.chain_, self._prior, self.weights_, converged=self.converged_, path=self._path,
            threads=resolve_jobs(self.n_jobs),
        )  # fmt: skip

    # ---------------------------------------------------------------- use

    def predict(self, X: Any, lengths: Any = None, *, groups: Any = None) -> NDArray[np.int64]:
        """The state of every step on the most probable path of its sequence (Viterbi), in the order of X."""
        data = self._read(X, lengths, groups)
        path, _ = best_paths(data.chains, *self._parts(), threads=resolve_jobs(self.n_jobs))
        return data.in_input_order(path.astype(np.int64))

    def predict_proba(self, X: Any, lengths: Any = None, *, groups: Any = None) -> Floats:
        """Probability (step, state) of every state given the whole sequence, in the order of X."""
        data = self._read(X, lengths, groups)
        return data.in_input_order(self._posteriors(data))

    def score(self, X: Any, lengths: Any = None, *, groups: Any = None, y: Any = None) -> float:
        """Log-likelihood of all sequences together, in nats; gaps and symbols the fit has not seen are left out."""
        return float(self.score_sequences(X, lengths=lengths, groups=groups).sum())

    def score_sequences(self, X: Any, lengths: Any = None, *, groups: Any = None) -> Floats:
        """Log-likelihood (sequences,) of each, in nats."""
        data = self._read(X, lengths, groups)
        return chain_log_likelihood(data.chains, *self._parts(), threads=resolve_jobs(self.n_jobs))

    def sample(self, n_samples: int = 1, *, random_state: int | None = None) -> tuple[Names, NDArray[np.int32]]:
        """A new sequence of `n_samples` symbols, in the user's words, and the states behind it."""
        if n_samples < 0:
            raise DataError(f"n_samples={n_samples}; give a number from 0")
        rng = np.random.default_rng(seed_of(random_state))
        states = draw_path(self.chain_, n_samples, rng)
        return self.symbols_[draw_symbols(self.chain_, states, rng)], states

    def _parts(self) -> tuple[Floats, Floats, Floats]:
        return self.start_, self.transitions_, self.emissions_

    def _posteriors(self, data: Sequences) -> Floats:
        found, _ = chain_posteriors(data.chains, *self._parts(), threads=resolve_jobs(self.n_jobs))
        return found

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
        if self.init not in get_args(Init) or (self.n_init is not None and self.n_init < 1):
            raise DataError(
                f"init={self.init!r}, n_init={self.n_init}; give 'auto', 'spectral' or 'random', and at least one start"
            )
        if str(self.smoothing) != "auto" and not is_amount(self.smoothing):
            raise DataError(f"smoothing={self.smoothing!r}; give 'auto' or a number from 0")
        if self.n_states is not None and not 1 <= self.n_states <= MOST_STATES:
            raise DataError(f"n_states={self.n_states}; give 1 to {MOST_STATES}, or None to have it found")
        if self.max_states is not None and not 1 <= self.max_states <= MOST_STATES:
            raise DataError(f"max_states={self.max_states}; give 1 to {MOST_STATES}, or None for {MOST_TRIED}")

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return hmm_state(self)

    def _restore(self, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        restore_hmm(self, arrays, metadata)

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


# -----------------------------------------------------------------------------
# What the model file of a hidden Markov model holds: three tables, the symbols in their own type, the story.


def hmm_state(model: CategoricalHMM) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "start": model.start_,
        "transitions": model.transitions_,
        "emissions": model.emissions_,
        "weights": model.weights_,
    }
    metadata = {
        "symbols": describe_column(Column("symbol", model.symbols_)),
        "smoothing": float(model.smoothing_),
        "n_observed": int(model.n_observed_),
        "letters": model._letters,
    }
    return with_story(model, arrays, metadata)


def restore_hmm(model: CategoricalHMM, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `hmm_state` described; what does not fit together raises ValueError."""
    symbols = read_column(metadata["symbols"]).categories
    K = len(arrays["start"])
    if not K:
        raise ValueError("start holds nothing")
    check_numbers(arrays, {"start": (K,), "transitions": (K, K), "emissions": (K, len(symbols)), "weights": (K,)})
    for name in ("start", "transitions", "emissions", "weights"):
        if (np.abs(arrays[name].sum(axis=-1) - 1) > ROUNDING).any():
            raise ValueError(f"{name} holds probabilities that do not sum to one")
    restore_story(model, arrays, metadata)
    model.smoothing_, model.n_observed_ = typed(metadata, "smoothing", float), typed(metadata, "n_observed", int)
    if model.smoothing_ < 0 or model.n_observed_ < 1:
        raise ValueError("smoothing or n_observed is too small")
    letters = metadata.get("letters")  # the first files of 0.1.0 had none
    model._letters = None if letters is None else typed(metadata, "letters", bool)
    model.symbols_, model.weights_ = symbols, arrays["weights"]
    model._publish(Chain(arrays["start"], arrays["transitions"], arrays["emissions"]))
