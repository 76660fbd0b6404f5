"""Reports in a real browser: they open, stay silent, fetch nothing, sort, answer, and run nothing the user named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from latentfit import load
from latentfit.cli.main import main
from tests.report.worlds import COMMANDS, HOSTILE, name


@pytest.mark.parametrize("command", COMMANDS)
def test_opens_and_sorts(command, results, open_report):
    opened = open_report(results(command) / "report.html")
    page = opened.page
    verdict = json.loads((results(command) / "summary.json").read_text())["verdict"]
    assert page.locator("#verdict").is_visible()
    assert page.locator(".chip").inner_text().lower() == verdict
    assert page.locator(".figure").count() == 3
    charts = page.locator("[data-chart]").count()
    assert charts >= 1
    assert page.locator("[data-chart] svg").count() == charts
    _check_sorting(page)
    assert page.locator("[data-chart] svg").first.evaluate("node => node.getBoundingClientRect().width") > 100
    opened.check()


def _check_sorting(page):
    """The first table with a column of numbers, by keyboard: falling, then rising."""
    head = page.locator("th.n").first
    button = head.locator("button")
    at = head.evaluate("node => node.cellIndex")
    rows = head.locator("xpath=ancestor::table").locator("tbody tr")

    def values():
        told = rows.evaluate_all(f"rows => rows.map((row) => row.cells[{at}].dataset.v)")
        return [float(value) for value in told if value is not None]

    button.focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    falling = values()
    assert falling == sorted(falling, reverse=True)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(falling)


def test_hostile_names_are_only_text(results, open_report):
    opened = open_report(results("labels") / "report.html")
    page = opened.page
    assert page.locator("tbody td", has_text=HOSTILE[0]).count() > 0
    assert page.locator("tbody img, tbody script").count() == 0
    page.locator(".vega-bindings select").first.select_option(index=1)
    chart = page.locator("figure", has_text="Confusion matrix of a worker")
    chart.locator(".mark-rect.role-mark path").last.hover(force=True)
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert page.locator("#vg-tooltip-element img, #vg-tooltip-element script").count() == 0
    opened.check()


def test_filter_shows_what_was_asked_for(results, open_report):
    opened = open_report(results("labels") / "report.html")
    box = opened.page.locator(".data").first
    rows = box.locator("tbody tr")
    everything = rows.count()
    box.locator("input").fill("=CMD()")
    shown = [row for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < everything
    assert all("=cmd()" in row.inner_text() for row in shown)
    assert box.locator(".count").inner_text() == f"{len(shown)} of {everything} rows"
    opened.check()


def test_asking_gives_what_query_prints(results, open_report, tmp_path, capsys):
    """Choose two columns' values: all others show P(column | given) of the model, and of `latentfit query`."""
    folder = results("table")
    model = load(folder / "model.latent")
    opened = open_report(folder / "report.html")
    asked = opened.page.locator(".ask")
    names = asked.locator(".given label").evaluate_all("labels => labels.map((label) => label.firstChild.textContent)")
    assert sorted(names) == sorted(str(column.name) for column in model._columns)
    before = _answers(asked)
    given = {names[0]: model._columns[model.joint_.index(names[0])].categories[1],
             names[3]: model._columns[model.joint_.index(names[3])].categories[0]}  # fmt: skip
    for column, value in given.items():
        asked.locator(".given select").nth(names.index(column)).select_option(label=str(value))
    after = _answers(asked)
    assert set(after) == {"hidden class", *names} - set(given)
    for column in set(names) - set(given):
        np.testing.assert_allclose(after[column], model.joint_.marginal(column, given), atol=1e-7)
        assert max(abs(np.array(after[column]) - before[column])) > 1e-3
    np.testing.assert_allclose(before["hidden class"], model.weights_, atol=1e-8)
    asked.get_by_role("button", name="Forget all").click()
    assert _answers(asked) == before
    opened.check()


def _answers(asked):
    shown = asked.locator(".answer:not([hidden])")
    return {card.locator("h4").inner_text(): json.loads(card.get_attribute("data-p")) for card in shown.all()}


def test_asking_agrees_with_the_command(open_report, tmp_path, capsys):
    """The same against the printed answer, with names that the question grammar reads."""
    rng = np.random.default_rng(3)
    sky = rng.integers(0, 2, 400)
    wet = np.where(rng.random(400) < 0.8, sky, 1 - sky)
    cold = np.where(rng.random(400) < 0.7, sky, 1 - sky)
    lines = [f"{'gb'[a]},{'ny'[b]},{'lh'[c]}" for a, b, c in zip(sky, wet, cold, strict=True)]
    (tmp_path / "sky.csv").write_text("sky,rain,heat\n" + "\n".join(lines) + "\n")
    out = tmp_path / "out"
    assert main(["table", str(tmp_path / "sky.csv"), "--components", "2", "--out", str(out), "--quiet"]) == 0
    assert main(["query", str(out / "model.latent"), "P(rain=y | sky=b, heat=h)", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    opened = open_report(out / "report.html")
    asked = opened.page.locator(".ask")
    for column, value in (("sky", "b"), ("heat", "h")):
        asked.get_by_label(column).select_option(label=value)
    rain = [str(word) for word in load(out / "model.latent").categories_[1].tolist()]
    assert _answers(asked)["rain"][rain.index("y")] == pytest.approx(printed["probability"], abs=1e-7)
    opened.page.locator(".answer:not([hidden]) svg").first.wait_for()
    opened.check()


def test_phone_and_dark(results, open_report):
    """On a narrow dark screen nothing is wider than the screen, and text is light."""
    for command in ("labels", "table"):
        opened = open_report(
            results(command) / "report.html", viewport={"width": 390, "height": 844}, color_scheme="dark"
        )
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
        captions = opened.page.locator("caption").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().right)"
        )
        assert max(captions) <= 390, "a wide table scrolls, what it says of itself does not"
        colour = opened.page.locator("h1").evaluate("node => getComputedStyle(node).color")
        assert min(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) > 200
        opened.check()


def test_confusion_matrix_follows_the_choice(results, open_report):
    """Choosing a worker shows that worker's matrix."""
    opened = open_report(results("labels") / "report.html")
    model = load(results("labels") / "model.latent")
    chart = opened.page.locator("figure", has_text="Confusion matrix of a worker")
    chooser = chart.locator("select")
    for worker in (0, 3):
        chooser.select_option(label=name(worker))
        wanted = model.confusion_[model.worker_names_.tolist().index(name(worker))]
        opened.page.wait_for_function(
            "([node, wanted]) => wanted === [...node.querySelectorAll('.mark-text.role-mark text')]"
            ".map((one) => one.textContent).join()",
            arg=[chart.element_handle(), ",".join(f"{value:.0%}" for value in wanted.reshape(-1))],
        )
    opened.check()
