"""Points in a plane: items by two numbers of theirs, some with their names written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latentfit.report.charts import COLOURS, HUE, Spec, colour


def points(
    rows: Sequence[Mapping[str, Any]], *, x: str, y: str, name: str, kinds: Sequence[str] = (), kind: str = "",
    hues: Sequence[str] = COLOURS, size: str = "", log_y: bool = False, whole_x: bool = False,
    rule: float | None = None, cross: bool = False, bare: bool = False, height: int = 320,
) -> Spec:  # fmt: skip
    """Rows with `x`, `y`, `name`; also `kind` (one of `kinds`, by colour), `size`, and `shown`, the text at a point.

    A `bare` picture is a map: without axes, square, and as far across as upward.
    """
    told: list[Spec] = [{"field": "name", "title": name}] if name else []
    if not bare:
        told += [{"field": "x", "title": x, "format": ",.4~g"}, {"field": "y", "title": y, "format": ",.4~g"}]
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
    encoding: Spec = {"tooltip": told}
    mark: Spec = {"type": "circle", "size": 60, "opacity": 0.75}
    if kinds:
        told.append({"field": "kind", "title": kind})
        encoding["color"] = colour("kind", kinds, kind)
        encoding["color"]["scale"] = {"domain": list(kinds), "range": list(hues[: len(kinds)])}
    else:
        mark["color"] = HUE
    if size:
        told.append({"field": "size", "title": size, "format": ",.4~g"})
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
