"""Pictures that several doors need, as Vega-Lite specs with their data inline.

Names the user gave are values of fields called `x`, `y`, `series`, never names of fields, so that a dot or a bracket in
them means nothing to Vega. Charts are as wide as the page gives them (`"width": "container"`), at most
`usermeta.widest`; heights are numbers, because Vega-Lite warns of steps beside a container. Text is drawn in the page's
own ink (see page.js), and heat maps fade from nothing to one hue, so one drawing serves light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import people_order
from latentfit.core.kernels import Floats
from latentfit.report.page import MOST_ROWS

Spec = dict[str, Any]

HUE = "#3f7fd0"
"""The one colour of marks that need no other."""
QUIET = "#8d97a5"
"""What stands beside: rejected, expected, before."""
ALARM = "#d2603a"
"""What a reader should look at."""
COLOURS = ("#3f7fd0", "#e08a2e", "#3a9d74", "#b65fb0", "#c9504c", "#7a8f2f", "#2fa3ad", "#8a6fd1", "#b0803f", "#7d8794")
"""Kinds side by side: told apart on white and on black, also by most colour-blind eyes; longer lists repeat."""
FADE = ("rgba(63,127,208,0.03)", "rgba(63,127,208,1)")
"""Heat maps: from the page's own background to the hue."""
BOTH_WAYS = ("#d2603a", "rgba(140,150,165,0.06)", "#3f7fd0")
"""Values around zero: below, near, above."""
TALLEST = 560
"""Pixels of a square map of many rows."""
NUMBER_WIDTH = 34
"""Pixels a number in a tile needs; narrower tiles show theirs when pointed at."""


def bars(
    names: Sequence[Any],
    values: Sequence[float],
    *,
    value: str,
    name: str = "",
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    percent: bool = False,
    flagged: Sequence[bool] | None = None,
) -> Spec:
    """Horizontal bars in the order given, with intervals when `low` and `high` are there; flagged ones in alarm."""
    rows: list[dict[str, Any]] = []
    for at, (who, amount) in enumerate(zip(names, values, strict=True)):
        row: dict[str, Any] = {"y": str(who), "x": float(amount), "flag": bool(flagged[at]) if flagged else False}
        if low is not None and high is not None:
            row |= {"low": float(low[at]), "high": float(high[at])}
        rows.append(row)
    form = ".1%" if percent else ",.4~g"
    tooltip = [{"field": "y", "title": name or "name"}, {"field": "x", "title": value, "format": form}]
    if low is not None:
        tooltip += [{"field": "low", "title": "from", "format": form}, {"field": "high", "title": "to", "format": form}]
    axis: Spec = {"format": "%", "tickCount": 6} if percent else {"tickCount": 6}
    y = {"field": "y", "type": "nominal", "sort": None, "title": name or None, "axis": {"labelLimit": 170}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2, "height": {"band": 0.7}},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "title": value, "axis": axis},
                "color": {"condition": {"test": "datum.flag", "value": ALARM}, "value": HUE},
            },
        }
    ]
    if low is not None:
        layers.append(
            {
                "mark": {"type": "rule", "color": "currentColor", "opacity": 0.7},
                "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
            }
        )
    return {
        "data": {"values": rows},
        "width": "container",
        "height": 22 * max(len(rows), 1),
        "usermeta": {"widest": 820},
        "encoding": {"y": y, "tooltip": tooltip},
        "layer": layers,
    }


def counted(counts: Any, edges: Any, *, value: str, count: str) -> Spec:
    """A histogram of shares that is counted already: so many between each edge and the next."""
    rows = [
        {"from": float(a), "to": float(b), "n": int(n)} for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return {
        "data": {"values": rows},
        "width": "container",
        "height": 260,
        "mark": {"type": "bar", "color": HUE, "binSpacing": 1.5},
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "bin": {"binned": True}, "title": value,
                  "axis": {"tickCount": 8, "format": "%"}},
            "x2": {"field": "to"},
            "y": {"field": "n", "type": "quantitative", "title": count, "scale": {}, "axis": {"tickMinStep": 1}},
            "tooltip": [
                {"field": "from", "format": ".1%", "title": "from"},
                {"field": "to", "format": ".1%", "title": "to"},
                {"field": "n", "format": ",", "title": count},
            ],
        },
    }  # fmt: skip


def heat_map(
    values: Any, rows: Sequence[Any], columns: Sequence[Any], *, row: str, column: str, value: str,
    percent: bool = False, both_ways: bool = False, numbers: bool | None = None, largest: float | None = None,
    cell: int = 26, legend: bool = True,
) -> Spec:  # fmt: skip
    """A matrix (rows, columns) as tiles; small ones carry their numbers."""
    matrix = np.asarray(values, float)
    tiles = [
        {"y": str(rows[i]), "x": str(columns[j]), "v": round(float(matrix[i, j]), 4)}
        for i in range(matrix.shape[0])
        for j in range(matrix.shape[1])
    ]
    finite = np.abs(matrix[np.isfinite(matrix)])
    top = largest if largest is not None else float(finite.max()) if len(finite) and finite.max() > 0 else 1.0
    scale: Spec = {"domain": [-top, 0, top] if both_ways else [0, top], "range": list(BOTH_WAYS if both_ways else FADE)}
    form = ".1%" if percent else ",.3~g"
    height = cell * max(len(rows), 1)
    key: Spec = {"title": None, "gradientLength": min(max(height, 40), 120), **({"format": ".0%"} if percent else {})}
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "cornerRadius": 2},
            "encoding": {
                "color": {"field": "v", "type": "quantitative", "scale": scale, "legend": key if legend else None}
            },
        }
    ]
    if numbers if numbers is not None else matrix.shape[1] <= 12 and matrix.shape[0] <= 40:
        layers.append(
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "text": {"field": "v", "format": ".0%" if percent else ",.2~g"},  # the page's ink is read on all
                    "opacity": {  # on a phone numbers would lie on one another
                        "condition": {"test": f"width < {NUMBER_WIDTH * matrix.shape[1]}", "value": 0},
                        "value": 1,
                    },
                },
            }
        )
    return {
        "data": {"values": tiles},
        "width": "container",
        "height": height,
        "usermeta": {"widest": 220 + 90 * len(columns)},
        "encoding": {
            "y": {"field": "y", "type": "nominal", "sort": None, "title": row or None},
            "x": {"field": "x", "type": "nominal", "sort": None, "title": column or None,
                  "axis": {"labelAngle": _angle(columns), "labelOverlap": "greedy"}},
            "tooltip": [{"field": "y", "title": row or "row"}, {"field": "x", "title": column or "column"},
                        {"field": "v", "title": value, "format": form}],
        },
        "layer": layers,
    }  # fmt: skip


def tile(rows: int) -> int:
    """Height of a map's row: less where there are many."""
    return max(min(TALLEST // max(rows, 1), 26), 12)


def _angle(names: Sequence[Any]) -> int:
    """Names under a matrix stand upright while they have room on a phone."""
    return 0 if sum(max(len(str(name)), 2) for name in names) <= 28 else -40


def lines(
    rows: Sequence[Mapping[str, Any]], *, x: str, y: str, series: str = "", whole_x: bool = False,
    marked: float | None = None, height: int = 260,
) -> Spec:  # fmt: skip
    """Points joined: rows with `x`, `y` and, for several lines, `series`; `marked` puts a rule at one x."""
    tooltip: list[Spec] = [
        {"field": "x", "title": x},
        {"field": "y", "title": y, "format": ",.6~g"},
    ]
    axis: Spec = {"tickMinStep": 1, "format": "d", "grid": False} if whole_x else {"grid": False, "tickCount": 8}
    encoding: Spec = {
        "x": {"field": "x", "type": "quantitative", "title": x, "scale": {"zero": False, "nice": False}, "axis": axis},
        "y": {"field": "y", "type": "quantitative", "title": y, "scale": {"zero": False}, "axis": {}},
        "tooltip": tooltip,
    }  # fmt: skip
    mark: Spec = {"type": "line", "point": {"size": 40}, "strokeWidth": 2}
    if series:
        tooltip.insert(0, {"field": "series", "title": series})
        kinds = list(dict.fromkeys(str(row["series"]) for row in rows))
        encoding["color"] = colour("series", kinds, series)
    else:
        mark |= {"color": HUE, "point": {"size": 40, "color": HUE}}
    layers: list[Spec] = [{"mark": mark, "encoding": encoding}]
    if marked is not None:
        layers.insert(
            0,
            {
                "data": {"values": [{"x": marked}]},
                "mark": {"type": "rule", "color": ALARM, "strokeDash": [4, 3]},
                "encoding": {"x": {"field": "x", "type": "quantitative"}},
            },
        )
    plain = [dict(row) for row in rows]
    return {"data": {"values": plain}, "width": "container", "height": height, "layer": layers}


def colour(field: str, kinds: Sequence[str], title: str | None = None) -> Spec:
    """The colour of a field with these values, the same for the same place in every chart."""
    range_ = [COLOURS[at % len(COLOURS)] for at in range(len(kinds))]
    return {
        "field": field,
        "type": "nominal",
        "title": title,
        "scale": {"domain": list(kinds), "range": range_},
        "legend": {"orient": "top", "columns": 4, "title": None},
    }


def distinct(names: Sequence[Any]) -> list[str]:
    """Names as text, no two alike: 1 and "1" get a mark, for a chart would lay them on one another."""
    seen: dict[str, int] = {}
    out = []
    for name in map(str, names):
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


# -----------------------------------------------------------------------------
# Points in a plane: items by two numbers of theirs, some with their names written.


def points(
    rows: Sequence[Mapping[str, Any]], *, x: str, y: str, name: str, kinds: Sequence[str] = (), kind: str = "",
    hues: Sequence[str] = COLOURS, size: str = "", log_y: bool = False, whole_x: bool = False,
    rule: float | None = None, cross: bool = False, bare: bool = False, height: int = 320,
) -> Spec:  # fmt: skip
    """Rows with `x`, `y`, `name`; also `kind` (one of `kinds`, by colour), `size`, and `shown`, the text at a point.

    A `bare` picture is a map: without axes, square, and as far across as upward.
    """
    tooltip: list[Spec] = [{"field": "name", "title": name}] if name else []
    if not bare:
        tooltip += [{"field": "x", "title": x, "format": ",.4~g"}, {"field": "y", "title": y, "format": ",.4~g"}]
    room: Spec = {"padding": 24 if size else 8, **({"nice": False} if size else {})}
    upward: Spec = room | ({"type": "log"} if log_y else {"zero": False})
    ticks: Spec = {"grid": False, "tickCount": 8} | ({"tickMinStep": 1, "format": "d"} if whole_x else {})
    place: Spec = {
        "x": {"field": "x", "type": "quantitative", "title": x, "scale": {**room, "zero": False},
              "axis": None if bare else ticks},
        "y": {"field": "y", "type": "quantitative", "title": y, "scale": upward,
              "axis": None if bare else {"tickCount": 6}},
    }  # fmt: skip
    if bare:
        least, most = ([end(row[way] for row in rows) for way in "xy"] for end in (min, max))
        half = max(high - low for low, high in zip(least, most, strict=True)) / 2 or 1.0
        for way, low, high in zip("xy", least, most, strict=True):
            place[way]["scale"] |= {"domain": [(low + high) / 2 - half, (low + high) / 2 + half]}
    encoding: Spec = {"tooltip": tooltip}
    mark: Spec = {"type": "circle", "size": 60, "opacity": 0.75}
    if kinds:
        tooltip.append({"field": "kind", "title": kind})
        encoding["color"] = colour("kind", kinds, kind)
        encoding["color"]["scale"] = {"domain": list(kinds), "range": list(hues[: len(kinds)])}
    else:
        mark["color"] = HUE
    if size:
        tooltip.append({"field": "size", "title": size, "format": ",.4~g"})
        encoding["size"] = {"field": "size", "type": "quantitative", "legend": None, "scale": {"range": [12, 700]}}
        mark["opacity"] = 0.4
    layers: list[Spec] = [{"mark": mark, "encoding": encoding | place}]
    layers[:0] = [_rule("x", 0.0), _rule("y", 0.0)] if cross else []
    if rule is not None:
        layers.insert(0, _rule("y", rule))
    if any(row.get("shown") for row in rows):
        layers.append(
            {
                "transform": [{"filter": "datum.shown"}],
                "mark": {"type": "text", "fontSize": 11, **({} if bare else {"dy": -9})},
                "encoding": {"text": {"field": "shown"}, **place},
            }
        )
    return {
        "data": {"values": [dict(row) for row in rows]}, "width": height if bare else "container", "height": height,
        "layer": layers,
    }  # fmt: skip


def _rule(way: str, at: float) -> Spec:
    return {
        "data": {"values": [{way: at}]},
        "mark": {"type": "rule", "color": "currentColor", "opacity": 0.35, "strokeDash": [4, 3]},
        "encoding": {way: {"field": way, "type": "quantitative"}},
    }


# -----------------------------------------------------------------------------
# Stacked bars, one for each of many: what people descend from, what samples are mixed of. Readers choose the order.

MOST_BARS, MOST_PIECES = 2_000, 12_000
"""Bars that are drawn, and pieces of bars: a browser still answers at once."""
MOST_CELLS = 8_000
"""Numbers of a table of shares."""
MOST_KEYS = 12
"""Parts up to which the colours are named above the bars; colours repeat soon after."""
MOST_NAMED = 40
"""Bars up to which names stand below them."""


def listed(columns: int) -> int:
    """Rows of a table with so many columns of shares: a page holds its numbers beside the picture's."""
    return min(MOST_ROWS, MOST_CELLS // max(columns, 1))


def drawn_bars(proportions: Floats) -> NDArray[np.intp]:
    """Which rows of shares (n, K) are drawn: all, or as many as fit, evenly taken in order of their largest part."""
    most = min(MOST_BARS, MOST_PIECES // max(proportions.shape[1], 1))
    order = people_order(proportions, None)
    if len(order) <= most:
        return np.arange(len(order))
    return np.sort(order[np.arange(most) * len(order) // most])


def stacked(
    proportions: Floats, names: Sequence[str], parts: Sequence[str], *, bar: str, part: str, value: str
) -> Spec:
    """Shares (n, K) of bars as `names` call them; `drawn_bars` says which of more to give.

    Orders are made here and the page only chooses: by the largest part, by name, as they came.
    """
    by_part, by_name = np.empty(len(proportions), int), np.empty(len(proportions), int)
    by_part[people_order(proportions, None)] = np.arange(len(proportions))
    by_name[sorted(range(len(proportions)), key=lambda at: (str(names[at]), at))] = np.arange(len(proportions))
    rows = [
        {"who": str(names[at]), "a": int(by_part[at]), "b": int(by_name[at]), "c": at,
         "q": [round(float(proportion), 4) for proportion in proportions[at]]}
        for at in range(len(proportions))
    ]  # fmt: skip
    orders = [f"by {part}", "by name", "as given"]
    kinds = [{"k": k + 1, "part": str(one)} for k, one in enumerate(parts)]
    named = len(rows) <= MOST_NAMED and len({row["who"] for row in rows}) == len(rows)
    if named:
        x: Spec = {"field": "who", "type": "nominal", "sort": {"field": "at", "op": "min"}, "title": bar,
                   "axis": {"labelAngle": -90, "labelLimit": 90}, "scale": {"paddingInner": 0.06}}  # fmt: skip
        end: Spec = {}
    else:
        scale = {"domain": [0, len(rows)], "nice": False}
        x = {"field": "at", "type": "quantitative", "title": bar, "axis": None, "scale": scale}
        end = {"x2": {"field": "until"}}
    paint = colour("part", [str(one) for one in parts], part)
    longest = min(max(len(str(one)) for one in parts), 22)
    across = max(36 // (longest + 4), 1)  # letters of a narrow screen
    paint["legend"] = {"orient": "top", "title": None, "columns": across} if len(parts) <= MOST_KEYS else None
    return {
        "data": {"values": rows},
        "params": [
            {"name": "order", "value": orders[0], "bind": {"input": "select", "options": orders, "name": "Order "}}
        ],
        "transform": [
            {"flatten": ["q"]},
            {"window": [{"op": "row_number", "as": "k"}], "groupby": ["c"]},
            {"lookup": "k", "from": {"data": {"values": kinds}, "key": "k", "fields": ["part"]}},
            {"calculate": f"order == '{orders[0]}' ? datum.a : order == '{orders[1]}' ? datum.b : datum.c", "as": "at"},
            {"calculate": "datum.at + 1", "as": "until"},
            {"stack": "q", "groupby": ["c"], "sort": [{"field": "k"}], "as": ["from", "to"]},
        ],
        "width": "container",
        "height": 280,
        "mark": {"type": "bar"} if named else {"type": "rect", "strokeWidth": 0.5, "aria": False},
        "encoding": {
            "x": x,
            **end,
            "y": {"field": "from", "type": "quantitative", "title": value, "scale": {"domain": [0, 1]},
                  "axis": {"format": "%", "tickCount": 5}},
            "y2": {"field": "to"},
            "color": paint,
            **({} if named else {"stroke": paint}),  # no paper shines through between two bars
            "tooltip": [{"field": "who", "title": bar}, {"field": "part", "title": part},
                        {"field": "q", "title": value, "format": ".1%"}],
        },
    }  # fmt: skip
