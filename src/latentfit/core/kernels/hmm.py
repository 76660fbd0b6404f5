"""Checked wrappers of the hidden Markov kernels: codes and parameters in, sums, posteriors and paths out."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats, _check, _library, _padded, _pointer, _run

MISSING = -1
"""Code of a missing observation."""
MOST_STATES = 256
"""Most states the kernels hold."""
KEPT = 1 << 22
"""Numbers of a chain that are kept between its two passes: a longer one is walked forward twice."""
TINY = np.finfo(float).tiny
FLOOR = 1e-100
"""Least transition, and least emission relative to the symbol's largest: an impossible step costs 230 nats instead of
stopping the chain, and no step of the scaled recursions can underflow."""


class ChainSums(NamedTuple):
    """What Baum–Welch needs of a pass: expected counts, and the log-likelihood of every sequence."""

    start: Floats  # (K,)
    transitions: Floats  # (K, K)
    emissions: Floats  # (K, M)
    log_likelihood: Floats  # (sequences,)


class Chains:
    """Sequences as the kernels take them, checked once, with room that passes use again.

    Sequence s is ``codes[offsets[s]:offsets[s + 1]]``; a code of −1 is a gap.
    """

    def __init__(self, codes: NDArray[np.int32], offsets: NDArray[np.int64], n_symbols: int) -> None:
        _check(codes, np.int32, (None,), "codes")
        _check(offsets, np.int64, (None,), "offsets")
        lengths = np.diff(offsets)
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(codes) or (lengths < 0).any():
            raise ValueError("offsets must rise from 0 to the number of codes")
        if len(codes) and (int(codes.max()) >= n_symbols or int(codes.min()) < MISSING):
            raise ValueError(f"codes must lie between {MISSING} and {n_symbols - 1}")
        self.codes, self.offsets, self.n_symbols = codes, offsets, n_symbols
        self.longest = int(lengths.max(initial=0))

    def head(self) -> list[Any]:
        return [_pointer(self.codes), _pointer(self.offsets), ctypes.c_int64(len(self.offsets) - 1)]

    def take_room(self, size: int) -> Floats:
        """Numbers for a pass to write into; given back with `return_room`, so that no two passes share them."""
        room: Floats | None = self.__dict__.pop("_room", None)
        return np.empty(size) if room is None or len(room) < size else room

    def return_room(self, room: Floats) -> None:
        self.__dict__["_room"] = room


def _shape(chains: Chains, start: Floats, transitions: Floats, emissions: Floats) -> tuple[int, int, int]:
    n_states, n_symbols = emissions.shape
    if n_symbols != chains.n_symbols:
        raise ValueError(f"emissions have {n_symbols} symbols, the sequences {chains.n_symbols}")
    if not 1 <= n_states <= MOST_STATES:
        raise ValueError(f"{n_states} states asked for; give a number from 1 to {MOST_STATES}")
    _check(np.ascontiguousarray(start), np.float64, (n_states,), "start")
    _check(np.ascontiguousarray(transitions), np.float64, (n_states, n_states), "transitions")
    return n_states, n_symbols, 2 if n_states <= 2 else -(-n_states // 4) * 4


def _relative(emissions: Floats) -> tuple[Floats, Floats]:
    """Emissions (M + 1, K) divided by each symbol's largest, and the logarithms of those; the last row is the gap."""
    largest = np.ones(emissions.shape[1] + 1)
    np.maximum(emissions.max(axis=0), TINY, out=largest[:-1])
    by_symbol = np.ones((emissions.shape[1] + 1, len(emissions)))
    by_symbol[:-1] = np.maximum(emissions / largest[:-1], FLOOR).T
    return by_symbol, np.log(largest)


def _pass(
    chains: Chains, start: Floats, transitions: Floats, emissions: Floats,
    threads: int, sums: bool, posterior: Floats | None,
) -> tuple[Floats, Floats | None, Floats | None, Floats | None]:  # fmt: skip
    n_states, n_symbols, width = _shape(chains, start, transitions, emissions)
    by_symbol, log_scale = _relative(emissions)
    rows = width if n_states == 1 or 8 < n_states <= 16 else n_states  # these the kernel holds in registers
    floored = np.zeros((rows, rows))
    floored[:n_states, :n_states] = np.maximum(transitions, FLOOR)
    arrays = [
        _padded(np.maximum(start, FLOOR), width),
        _padded(floored, width),
        _padded(np.ascontiguousarray(floored.T), width),
        _padded(by_symbol, width),
    ]
    starts = moves = emits = None
    if sums:
        starts, moves, emits = np.zeros(width), np.zeros((rows, width)), np.zeros((n_symbols, width))
    log_likelihood = np.empty(len(chains.offsets) - 1)
    steps = max(min(chains.longest, KEPT // width), 1)
    areas = min(int(_library().hmm_abreast(ctypes.c_int(rows))), len(log_likelihood))
    room = chains.take_room(steps * areas * width * max(threads, 1) if sums or posterior is not None else 0)
    tail = [
        ctypes.c_int64(n_symbols),
        ctypes.c_int(n_states),
        ctypes.c_int(rows),
        ctypes.c_int(width),
        ctypes.c_int(max(threads, 1)),
        ctypes.c_int64(steps),
        ctypes.c_int(areas),
        *map(_pointer, (room, starts, moves, emits, posterior, log_likelihood)),
    ]
    _run("hmm_pass", [*chains.head(), *map(_pointer, arrays), _pointer(log_scale), *tail])
    chains.return_room(room)
    if moves is not None:
        moves = moves[:n_states, :n_states] * floored[:n_states, :n_states]
    return log_likelihood, starts, moves, emits


def chain_sums(chains: Chains, start: Floats, transitions: Floats, emissions: Floats, *, threads: int = 1) -> ChainSums:
    """Expected starts (K,), transitions (K, K) and emissions (K, M), and log-likelihoods (sequences,), in one pass.

    Time is linear in observations × K².
    """
    n_states = len(start)
    found, starts, moves, emits = _pass(chains, start, transitions, emissions, threads, True, None)
    assert starts is not None
    assert moves is not None
    assert emits is not None
    return ChainSums(starts[:n_states], moves, np.ascontiguousarray(emits[:, :n_states].T), found)


def chain_log_likelihood(
    chains: Chains, start: Floats, transitions: Floats, emissions: Floats, *, threads: int = 1
) -> Floats:
    """Log-likelihood (sequences,) in nats; the forward recursion alone."""
    return _pass(chains, start, transitions, emissions, threads, False, None)[0]


def chain_posteriors(
    chains: Chains, start: Floats, transitions: Floats, emissions: Floats, *, threads: int = 1
) -> tuple[Floats, Floats]:
    """Posterior of every observation's state (N, K) given its whole sequence, and log-likelihoods (sequences,)."""
    posterior = np.empty((len(chains.codes), len(start)))
    return posterior, _pass(chains, start, transitions, emissions, threads, False, posterior)[0]


def best_paths(
    chains: Chains, start: Floats, transitions: Floats, emissions: Floats, *, threads: int = 1
) -> tuple[NDArray[np.int32], Floats]:
    """The most probable states (N,) of every sequence (Viterbi), of equals the earlier, and their log-probability."""
    n_states, n_symbols, width = _shape(chains, start, transitions, emissions)
    by_symbol, log_scale = _relative(emissions)
    arrays = [
        _padded(np.log(np.maximum(start, FLOOR)), width),
        _padded(np.log(np.maximum(np.ascontiguousarray(transitions.T), FLOOR)), width),
        _padded(np.log(by_symbol) + log_scale[:, None], width),
    ]
    path, log_probability = np.empty(len(chains.codes), np.int32), np.empty(len(chains.offsets) - 1)
    sizes = [ctypes.c_int64(n_symbols), ctypes.c_int(n_states), ctypes.c_int(width), ctypes.c_int(max(threads, 1))]
    _run("hmm_paths", [*chains.head(), *map(_pointer, arrays), *sizes, _pointer(path), _pointer(log_probability)])
    return path, log_probability
