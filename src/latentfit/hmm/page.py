"""The page of hidden states: where they go, what they show, and which a sequence was in."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.core.verdict import FitReport
from latentfit.hmm.data import Sequences
from latentfit.hmm.diagnostics import number_is_rejected
from latentfit.hmm.estimator import CategoricalHMM
from latentfit.hmm.plot import LEAST, informative_symbols, state_graph
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import Spec, colour, distinct, heat_map, lines, tile
from latentfit.report.page import Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Huang, Kakade, Kong & Valiant 2018: Recovering Structured Probability Matrices. ITCS (Corollary 1.5).",
    "Anandkumar, Ge, Hsu, Kakade & Telgarsky 2014: Tensor Decompositions for Learning Latent Variable Models. JMLR "
    "(trigrams).",
    "Baum, Petrie, Soules & Weiss 1970: A Maximization Technique Occurring in the Statistical Analysis of "
    "Probabilistic Functions of Markov Chains (EM).",
)
MOST_DRAWN = 12
"""States whose graph can be read; more get the map of transitions alone."""
SHOWN_SEQUENCES, SHOWN_STEPS = 12, 400
"""Sequences of the timeline, and steps of each."""
SHOWN_SYMBOLS = 8
"""Symbols of a state in the map of what it shows, and of a run of one state."""
MOST_SYMBOLS = 40


def page_of(fitted: CategoricalHMM, context: Context) -> Page:
    """Verdict, states, timeline. Sequences are `input`, or those of the fit."""
    report, number = fitted.report_, fitted.n_states_
    symbols = len(fitted.symbols_)
    given = context.data.get("input")
    rate = context.summary.get("entropy_rate")
    entropy = f" The model's entropy rate is {rate:.3f} nats per symbol." if rate is not None else ""
    return page_about(
        report,
        context,
        title=title_of(report, number, f"sequences of {symbols:,} symbols"),
        family="sequences",
        figures=_figures(fitted),
        picture=_graph(fitted) if 1 < number <= MOST_DRAWN else _transitions(fitted),
        sections=[
            _states(fitted),
            _timeline(fitted, given),
            _number(fitted),
            fit_section(fitted, context),
            numbers_section(
                report,
                "The model assumes that the next state depends on the present one alone, and a symbol on its state "
                "alone.",
            ),
            next_section(
                report,
                "states.csv holds the state of every step, parameters.csv the probabilities; latentfit predict gives "
                "the states of new sequences.",
            ),
        ],
        papers=PAPERS,
        lead=f"{fitted.n_observed_:,} observations.{entropy}",
    )


def title_of(report: FitReport, number: int, things: str) -> str:
    """What was found: a number of states that a check rejects is no headline."""
    if number == 1:
        return f"{'No hidden states found in' if number_is_rejected(report) else 'One state fitted to'} {things}"
    if number_is_rejected(report):
        return f"{number} states fitted to {things}; the data do not show {number}"
    return f"{number} hidden states behind {things}"


def _figures(fitted: CategoricalHMM) -> list[Figure]:
    known = fitted.report_.quantities
    how = "found on sequences left out"
    if number_is_rejected(fitted.report_):
        how = "not shown by the data" if fitted.n_states_ > 1 else "no structure found"
    elif fitted.selection_ is None:
        how = "as asked for"
    per = fitted.log_likelihood_ / max(fitted.n_observed_, 1)
    each = fitted.n_observed_ / max(len(fitted.symbols_), 1)
    third = Figure("Observations per symbol", f"{each:,.1f}", "below 1 nothing can be known")
    gain, error = known.get("last_state_gain"), known.get("last_state_error")
    if gain is not None and error is not None:
        third = Figure("Last state gains", f"{gain:.4f}", f"± {error:.4f} nats per observation left out")
    return [
        Figure("States", str(fitted.n_states_), how),
        Figure("Log-likelihood", f"{per:.3f}", "nats per observation"),
        third,
    ]


def _name(state: int, words: list[str]) -> str:
    return f"{state}: {' '.join(words)}" if words else str(state)


def _graph(fitted: CategoricalHMM) -> Chart:
    """States on a circle; arcs, arrows and names are marks with places of our own."""
    graph = state_graph(fitted.transitions_)
    names = [_name(state, words) for state, words in enumerate(informative_symbols(fitted))]
    arcs, arrows = [], []
    for number, arc in enumerate(graph.arcs):
        facts = {"from": names[arc.source], "to": names[arc.target], "p": round(arc.probability, 4)}
        arcs += [
            {"arc": number, "step": at, "x": round(float(x), 4), "y": round(float(y), 4), **facts}
            for at, (x, y) in enumerate(arc.curve)
        ]
        arrows.append({"x": round(arc.tip[0], 4), "y": round(arc.tip[1], 4), "turn": round(90 - arc.angle, 1), **facts})
    nodes = [
        {"x": round(float(x), 4), "y": round(float(y), 4), "state": str(state), "name": names[state],
         "share": float(fitted.weights_[state]), "stays": float(fitted.transitions_[state, state])}
        for state, (x, y) in enumerate(graph.places)
    ]  # fmt: skip
    place = {
        way: {"field": way, "type": "quantitative", "axis": None, "scale": {"domain": [-1.55, 1.55], "nice": False}}
        for way in ("x", "y")
    }
    ways = [{"field": "from"}, {"field": "to"}, {"field": "p", "title": "probability", "format": ".3f"}]
    kinds = [str(state) for state in range(fitted.n_states_)]
    spec: Spec = {
        "width": 420,
        "height": 420,
        "layer": [
            {
                "data": {"values": arcs},
                "mark": {"type": "line", "color": "currentColor", "opacity": 0.45, "strokeCap": "round"},
                "encoding": {
                    **place, "detail": {"field": "arc"}, "order": {"field": "step"}, "tooltip": ways,
                    "strokeWidth": {"field": "p", "type": "quantitative", "legend": None,
                                    "scale": {"domain": [0, 1], "range": [0.6, 7]}},
                },
            },
            {
                "data": {"values": arrows},
                "mark": {"type": "point", "shape": "wedge", "filled": True, "color": "currentColor",
                         "opacity": 0.85, "size": 220},
                "encoding": {**place, "angle": {"field": "turn", "type": "quantitative", "scale": None},
                             "tooltip": ways},
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "circle", "opacity": 1},
                "encoding": {
                    **place, "color": {**colour("state", kinds), "legend": None},
                    "size": {"field": "share", "type": "quantitative", "legend": None,
                             "scale": {"domain": [0, 1], "range": [700, 2600]}},
                    "tooltip": [{"field": "name", "title": "state"},
                                {"field": "share", "title": "share of steps", "format": ".1%"},
                                {"field": "stays", "title": "stays", "format": ".1%"}],
                },
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "text", "color": "#fff", "fontWeight": "bold", "fontSize": 14},
                "encoding": {**place, "text": {"field": "state"}},
            },
        ],
    }  # fmt: skip
    cut = f" Ways below {LEAST:.0%} are left out." if graph.left_out else ""
    caption = f"Circles are states, as large as their share of the steps; thick arcs are likely ways.{cut}"
    return Chart(spec, caption, "Where states go")


def _transitions(fitted: CategoricalHMM) -> Chart:
    states = range(fitted.n_states_)
    spec = heat_map(
        fitted.transitions_, states, states, row="state", column="next state", value="probability", percent=True,
        largest=1.0, cell=tile(fitted.n_states_),
    )  # fmt: skip
    return Chart(spec, "From the state of the row to the state of the column.", "Transitions")


def _states(fitted: CategoricalHMM) -> Section:
    telling, few = informative_symbols(fitted, SHOWN_SYMBOLS), max(MOST_SYMBOLS // fitted.n_states_, 1)
    index = {str(symbol): at for at, symbol in reversed(list(enumerate(fitted.symbols_.tolist())))}
    shown = list(dict.fromkeys(index[word] for words in telling for word in words[:few]))[:MOST_SYMBOLS]
    blocks: list[Block] = [_transitions(fitted)] if 1 < fitted.n_states_ <= MOST_DRAWN else []
    cut = "" if len(shown) == len(fitted.symbols_) else f" {len(shown)} of {len(fitted.symbols_):,} symbols are shown."
    spec = heat_map(
        fitted.emissions_[:, shown], range(fitted.n_states_), distinct(fitted.symbols_[shown].tolist()),
        row="state", column="symbol", value="probability", percent=True, cell=tile(fitted.n_states_),
    )  # fmt: skip
    blocks.append(Chart(spec, f"What states show: the symbols that tell most of a state.{cut}", "Emissions"))
    rows = []
    for state in range(fitted.n_states_):
        stays = float(fitted.transitions_[state, state])
        lasts = 1 / (1 - stays) if stays < 1 else None
        rows.append(
            [state, float(fitted.weights_[state]), float(fitted.start_[state]), stays, lasts, " ".join(telling[state])]
        )
    columns: list[str | Column] = [
        "state", Column("share", ".1%", "of the steps"), Column("starts", ".1%"), Column("stays", ".1%"),
        Column("lasts", ".1f", "steps in a row, on average"), "shows beyond its share",
    ]  # fmt: skip
    blocks.append(DataTable(columns, rows, "States, the most frequent first."))
    return Section("The states", blocks)


def _timeline(fitted: CategoricalHMM, given: Sequences | None) -> Section:
    data = getattr(fitted, "_data", None) if given is None else fitted._read(given, None, None)
    title = "Which state a sequence was in"
    if data is None:
        message = "A model file keeps no sequences; give the data to latentfit report to see their states."
        return Section(title, [Note(message)])
    rows, n_shown, longest = state_runs(fitted, data)
    names = list(dict.fromkeys(row["y"] for row in rows))
    kinds = colour("state", [str(state) for state in range(fitted.n_states_)], "state")
    spec: Spec = {
        "data": {"values": rows},
        "width": "container",
        "height": 26 * max(len(names), 1),
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": {"field": "y", "type": "nominal", "sort": None, "title": "sequence", "axis": {"labelLimit": 110}},
            "x": {"field": "from", "type": "quantitative", "title": "position", "axis": {"format": "d", "grid": False},
                  "scale": {"nice": False, "zero": False}},
            "x2": {"field": "until"},
            "color": kinds if fitted.n_states_ <= MOST_DRAWN else {**kinds, "legend": None},
            "tooltip": [{"field": "y", "title": "sequence"}, {"field": "state"}, {"field": "first", "title": "from"},
                        {"field": "last", "title": "to"}, {"field": "p", "title": "probability", "format": ".1%"},
                        {"field": "symbols"}],
        },
    }  # fmt: skip
    parts = []
    if n_shown < data.n_sequences:
        parts.append(f"the first {n_shown} of {data.n_sequences:,} sequences")
    if longest > SHOWN_STEPS:
        parts.append(f"the first {SHOWN_STEPS} steps of each")
    cut = f" Shown are {' and '.join(parts)}; states.csv holds all." if parts else ""
    return Section(title, [Chart(spec, f"The most probable path of states, run by run.{cut}", "Timeline")])


def state_runs(model: CategoricalHMM, data: Sequences) -> tuple[list[dict[str, Any]], int, int]:
    """Runs of one state along the first sequences, how many sequences there are in them, and their longest length."""
    from latentfit.core.kernels.hmm import best_paths

    shown = min(data.n_sequences, SHOWN_SEQUENCES)
    begins, ends = data.offsets[:shown], data.offsets[1 : shown + 1]
    part = data.slices(begins, np.minimum(ends, begins + SHOWN_STEPS))
    path, _ = best_paths(part.chains, *model.chain_.parts, threads=1)
    posterior = model._posteriors(part)
    names = distinct(data.names[:shown].tolist())
    rows: list[dict[str, Any]] = []
    for at in range(shown):
        inside = np.arange(part.offsets[at], part.offsets[at + 1])
        if not len(inside):
            continue
        cuts = np.flatnonzero(np.diff(path[inside])) + 1
        for run in np.split(inside, cuts):
            state, first = int(path[run[0]]), int(run[0] - inside[0]) + 1
            words = ["·" if code < 0 else str(data.symbols[code]) for code in part.codes[run[:SHOWN_SYMBOLS]]]
            rows.append(
                {"y": names[at], "from": first - 0.5, "until": first + len(run) - 0.5, "first": first,
                 "last": first + len(run) - 1, "state": str(state), "p": float(posterior[run, state].mean()),
                 "symbols": " ".join(words) + (" …" if len(run) > SHOWN_SYMBOLS else "")}
            )  # fmt: skip
    return rows, shown, int((ends - begins).max(initial=0))


def _number(fitted: CategoricalHMM) -> Section:
    if fitted.selection_ is None:
        message = f"{fitted.n_states_} states were asked for; without --states the number is found."
        return Section("How many states", [Note(message)])
    held = fitted.selection_.get("held_out")
    if not held:
        message = "There are too few steps to leave any out and compare numbers on them."
        return Section("How many states", [Note(message)])
    rows = [{"x": number, "y": float(value)} for number, value in enumerate(held, start=1)]
    chart = lines(rows, x="states", y="nats per observation", whole_x=True, marked=float(fitted.n_states_))
    caption = (
        "How probable sequences left out are: the smallest number within one standard error of the best was taken, "
        "unless a state of it was empty or doubled."
    )
    return Section("How many states", [Chart(chart, caption)])
