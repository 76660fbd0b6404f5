"""Stacked bars, one for each of many: what people descend from, what samples are mixed of. Readers choose the order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latentfit.core.canvas import people_order
from latentfit.core.kernels import Floats
from latentfit.report.charts import Spec, colour
from latentfit.report.page import MOST_ROWS

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


def drawn_bars(shares: Floats) -> NDArray[np.intp]:
    """Which rows of shares (n, K) are drawn: all, or as many as fit, evenly taken in order of their largest part."""
    most = min(MOST_BARS, MOST_PIECES // max(shares.shape[1], 1))
    order = people_order(shares, None)
    if len(order) <= most:
        return np.arange(len(order))
    return np.sort(order[np.arange(most) * len(order) // most])


def stacked(shares: Floats, names: Sequence[str], parts: Sequence[str], *, bar: str, part: str, value: str) -> Spec:
    """Shares (n, K) of bars as `names` call them; `drawn_bars` says which of more to give.

    Orders are made here and the page only chooses: by the largest part, by name, as they came.
    """
    by_part, by_name = np.empty(len(shares), int), np.empty(len(shares), int)
    by_part[people_order(shares, None)] = np.arange(len(shares))
    by_name[sorted(range(len(shares)), key=lambda at: (str(names[at]), at))] = np.arange(len(shares))
    rows = [
        {"who": str(names[at]), "a": int(by_part[at]), "b": int(by_name[at]), "c": at,
         "q": [round(float(share), 4) for share in shares[at]]}
        for at in range(len(shares))
    ]  # fmt: skip
    orders = [f"by {part}", "by name", "as given"]
    kinds = [{"k": k + 1, "part": str(one)} for k, one in enumerate(parts)]
    named = len(rows) <= MOST_NAMED and len({row["who"] for row in rows}) == len(rows)
    if named:
        x: Spec = {"field": "who", "type": "nominal", "sort": {"field": "at", "op": "min"}, "title": bar,
                   "axis": {"labelAngle": -90, "labelLimit": 90}, "scale": {"paddingInner": 0.06}}  # fmt: skip
        beside: Spec = {}
    else:
        scale = {"domain": [0, len(rows)], "nice": False}
        x = {"field": "at", "type": "quantitative", "title": bar, "axis": None, "scale": scale}
        beside = {"x2": {"field": "until"}}
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
            **beside,
            "y": {"field": "from", "type": "quantitative", "title": value, "scale": {"domain": [0, 1]},
                  "axis": {"format": "%", "tickCount": 5}},
            "y2": {"field": "to"},
            "color": paint,
            **({} if named else {"stroke": paint}),  # no paper shines through between two bars
            "tooltip": [{"field": "who", "title": bar}, {"field": "part", "title": part},
                        {"field": "q", "title": value, "format": ".1%"}],
        },
    }  # fmt: skip
