"""Pages as text: nothing named by the user leaves its place, nothing comes from outside, and they stay small."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import numpy as np
import pytest

from latentfit.core.verdict import FitReport
from latentfit.labels.data import from_long
from latentfit.labels.diagnostics.workers import WorkerQuality
from latentfit.labels.estimator import CrowdSettings, fit_crowd
from latentfit.report.assemble import context_of, write_report
from latentfit.report.assemble import page_of_model as page_of
from latentfit.report.charts import bars, heat_map, lines
from latentfit.report.page import Chart, Column, DataTable, Figure, Note, Page, Section
from latentfit.report.render import PRINTED_ROWS, render, to_json
from tests.report.worlds import COMMANDS, HOSTILE


def page(*blocks, text="a page", picture=None):
    return Page(text, text, "caution", [text], [Figure(text, text, text)] * 3, picture, [Section(text, blocks, text)],
                [(text, text)], [text], text, text, text)  # fmt: skip


def without_scripts(content):
    return re.sub(r"<script>.*?</script>", "", content, flags=re.S)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_place_escapes(text):
    chart = Chart(bars([text], [1.0], value=text, name=text), text, text)
    table = DataTable([Column(text, meaning=text)], [[text]], text, text)
    content = render(page(chart, table, Note(text), text=text, picture=chart))
    body = without_scripts(content)
    data = re.search(r'<script type="application/json" id="content">(.*?)</script>', body, flags=re.S)
    shown = body.replace(data.group(), "")
    assert shown.count(html.escape(text)) >= 12
    assert "<img" not in shown
    assert shown.lower().count("<script") == 0
    assert not re.search("[<>&\u2028\u2029]", data.group(1))
    spec = json.loads(data.group(1))["charts"][0]
    assert spec["data"]["values"][0]["y"].rstrip("\u200b") == text


def test_numbers_and_odd_text_become_json():
    value = {"a": np.float64("nan"), "b": np.array([1, np.inf]), 3: np.int64(4), "c": (1.0, "\x00\ud800")}
    assert json.loads(to_json(value)) == {"a": None, "b": [1, None], "3": 4, "c": [1, "\ufffd\ufffd"]}
    assert to_json("</script>\u2028") == '"\\u003c/script\\u003e\\u2028"'
    render(page(DataTable(["x"], [["\x00\ud800"], [None]], "")))


def test_only_the_pages_own_scripts_may_run():
    """The policy names the hash of every script in the page, allows no other, no eval and no address."""
    content = render(page(Chart(lines([{"x": 0, "y": 1}], x="x", y="y"), "a line")))
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', content).group(1))
    scripts = re.findall(r"<script>(.*?)</script>", content, flags=re.S)
    assert len(scripts) == 4
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert "script-src " + " ".join(f"'sha256-{one}'" for one in hashes) + ";" in policy
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "eval" not in policy
    shown = without_scripts(content)
    assert not re.search(r'(src|href)="(?!#|data:,)', shown)
    assert "sourceMappingURL" not in content
    assert "@import" not in shown
    assert "url(" not in shown


def test_tables_keep_a_thousand_rows_and_say_so():
    rows = [[f"name {n}", n / 7] for n in range(2500)]
    content = without_scripts(render(page(DataTable(["name", Column("share", ".1%")], rows, "All of them."))))
    assert content.count("<tr>") == 1001
    assert "The first 1,000 of 2,500 rows are shown." in content
    assert "name 999<" in content
    assert "name 1000<" not in content
    assert f"n+{PRINTED_ROWS + 1})" in content  # the style sheet prints as many as the page says
    few = without_scripts(render(page(DataTable(["name"], [["a"], ["b"]], "Two.", total=2))))
    assert "are shown" not in few
    assert "Filter" not in few
    with pytest.raises(ValueError, match="2 cells"):
        render(page(DataTable(["name"], rows[:1], "Broken.")))


def test_cells_sort_by_their_numbers():
    rows = [[1234567, 0.123456789, None, "a"], [2, float("nan"), 0.5, 3]]
    content = render(page(DataTable(["n", Column("p", ".0%"), "q", "mixed"], rows, "")))
    assert '<td class=n data-v="1234567">1,234,567</td><td class=n data-v="0.1234568">12%</td><td></td><td>a</td>' in (
        content
    )
    assert '<td class=n data-v="2">2</td><td></td><td class=n data-v="0.5">0.5</td><td data-v="3">3</td>' in content


def test_numbers_have_no_powers_of_ten_where_a_reader_can_do_without():
    rows = [[31_947.0], [4722.4], [999.94], [0.000123], [1e15], [-12_345.6], [7]]
    content = render(page(DataTable(["n"], rows, "")))
    assert re.findall(r"data-v=[^>]*>([^<]*)</td>", content) == [
        "31,947", "4,722", "999.9", "0.000123", "1e+15", "-12,346", "7",
    ]  # fmt: skip


def test_a_million_tasks_make_a_small_page():
    n, rng = 1_000_000, np.random.default_rng(0)
    truth, task = rng.integers(0, 2, n), np.repeat(np.arange(n), 2)
    worker = (task + np.tile([0, 1], n) * (1 + task % 3)) % 40
    said = np.where(rng.random(2 * n) < 0.8, truth[task], 1 - truth[task])
    fitted = fit_crowd(from_long(task, worker, said), CrowdSettings(method="majority"))
    proportions = np.full(40, 0.8)  # what the diagnosis would find takes its time, and has no part in the size
    fitted.quality = WorkerQuality(
        np.full(40, 50_000), proportions, proportions - 0.01, proportions + 0.01, np.full(40, "", object)
    )
    fitted.report = FitReport("ok", [], {}, [], {})
    content = render(page_of(fitted, context_of({"n_rows": n})))
    assert len(content.encode()) < 2_000_000
    assert "The first 1,000 of 1,000,000 rows are shown." in content


@pytest.mark.parametrize("rows", [1, 2, 3, 40])
def test_the_key_of_a_map_is_no_taller_than_the_map(rows):
    spec = heat_map(np.eye(rows), range(rows), range(rows), row="r", column="c", value="v")
    assert spec["layer"][0]["encoding"]["color"]["legend"]["gradientLength"] <= max(spec["height"], 40)


def test_a_map_of_nothing_has_a_scale():
    empty = heat_map(np.zeros((1, 1)), ["a"], ["b"], row="r", column="c", value="v")
    assert empty["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0, 1.0]


def test_a_report_is_whole_or_not_there(tmp_path):
    write_report(tmp_path / "report.html", page())
    before = (tmp_path / "report.html").read_bytes()
    with pytest.raises(ValueError, match="cells"):
        write_report(tmp_path / "report.html", page(DataTable(["a"], [[1, 2]], "")))
    assert (tmp_path / "report.html").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# ------------------------------------------------------------ every command


def content_of(path):
    text = path.read_text(encoding="utf-8")
    return text, json.loads(re.search(r'id="content">(.*?)</script>', text, flags=re.S).group(1))


@pytest.mark.parametrize("command", COMMANDS)
def test_charts_hold_their_data_and_name_fields_plainly(command, results):
    """Specs take nothing from an address, and names of fields are ours: a user's name is only ever a value."""
    text, content = content_of(results(command) / "report.html")
    assert len(text.encode()) < 2_000_000
    assert content["charts"]
    for spec in content["charts"]:
        keys = set(_keys(spec))
        assert not keys & {"url", "href", "$schema"}
        assert '"values": [{' in json.dumps(spec)
        for field in _fields(spec):
            assert re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", field), field


def _keys(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("values", "datasets"):
                yield key
                yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


def _fields(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "field" and isinstance(item, str):
                yield item
            elif key not in ("values", "datasets"):
                yield from _fields(item)
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item)


@pytest.mark.parametrize("command", COMMANDS)
def test_provenance_tells_the_files(command, results):
    summary = json.loads((results(command) / "summary.json").read_text())
    text = (results(command) / "report.html").read_text(encoding="utf-8")
    assert summary["seed"] == 0
    assert summary["files"]
    for path, digest in summary["files"].items():
        with open(path, "rb") as file:
            assert digest == hashlib.sha256(file.read()).hexdigest()
        assert digest in text
    assert summary["version"] in text
