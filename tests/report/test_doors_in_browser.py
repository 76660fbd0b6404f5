"""What readers can change in the pages, in a real browser: the order of people, words of a topic, links or degrees."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import PairMatrix, load
from latentfit.cli.main import main
from latentfit.core.assign import people_order
from latentfit.simulate import pairs
from latentfit.topics.plot import relevances

LABELS = r"""(node, side) => [...node.querySelectorAll(".role-axis-label text")]
    .filter((one) => !one.textContent.endsWith("%"))
    .map((one) => [one.getBoundingClientRect()[side], one.textContent.replace(/…$|\u200b/g, "")])
    .sort(([a], [b]) => a - b).map(([, text]) => text)"""
"""Words along an axis as they stand; long ones are cut, so that as many letters of each are compared as are there."""
DOORS = ("admixture", "topics", "hmm", "communities")


def test_people_stand_in_the_order_that_is_chosen(results, open_report):
    opened = open_report(results("admixture") / "report.html")
    model = load(results("admixture") / "model.latent")
    chart = opened.page.locator(".picture figure")
    names = [str(name) for name in model.samples_.tolist()]
    orders = {
        "by population": [names[at] for at in people_order(model.ancestry_, None)],
        "by name": sorted(names),
        "as given": names,
    }
    for order, wanted in orders.items():
        chart.locator("select").select_option(label=order)
        opened.page.wait_for_function(
            f"([node, wanted]) => {{ const shown = ({LABELS})(node, 'left'); return shown.length === wanted.length "
            "&& shown.every((text, at) => wanted[at].startsWith(text)); }",
            arg=[chart.element_handle(), wanted],
        )
    opened.check()


def test_slider_ranks_words_by_relevance(results, open_report):
    opened = open_report(results("topics") / "report.html")
    model = load(results("topics") / "model.latent")
    chart = opened.page.locator(".picture figure")
    chart.locator("select").select_option(label="1")
    for share in (0.0, 1.0):
        slider = chart.locator("input[type=range]")
        slider.fill(str(share))
        found = relevances(model.topics_, model.weights_, share)[1]
        best = [str(model.words_[at]) for at in np.flatnonzero(found >= found.max() - 1e-3)]  # the page rounds
        opened.page.wait_for_function(
            f"([node, words]) => words.some(word => word.startsWith(({LABELS})(node, 'top')[0]))",
            arg=[chart.element_handle(), best],
        )
    opened.check()


def test_degrees_alone_fill_the_matrix(results, open_report):
    opened = open_report(results("communities") / "report.html")
    chart = opened.page.locator(".picture figure")
    tiles = chart.locator(".mark-rect path")
    linked, nodes = tiles.count(), 90
    assert 0 < linked < nodes**2
    chart.locator("input[type=radio]").nth(1).check()
    opened.page.wait_for_function(
        "([node, many]) => node.querySelectorAll('.mark-rect path').length === many",
        arg=[chart.element_handle(), nodes**2],
    )
    opened.check()


def test_states_are_drawn_with_their_ways(results, open_report):
    opened = open_report(results("hmm") / "report.html")
    chart = opened.page.locator(".picture figure")
    model = load(results("hmm") / "model.latent")
    assert chart.locator(".mark-symbol").count() >= 2
    assert chart.locator(".mark-text text").all_text_contents() == [str(state) for state in range(model.n_states_)]
    chart.locator(".mark-line path").first.hover(force=True)
    opened.check()


@pytest.mark.parametrize("command", DOORS)
def test_fits_a_phone_in_the_dark(command, results, open_report):
    opened = open_report(results(command) / "report.html", viewport={"width": 390, "height": 844}, color_scheme="dark")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    opened.check()


def test_page_of_pairs(open_report, tmp_path):
    """There is no command for pairs: their page is made from the model file."""
    PairMatrix(3).fit(pairs(40, 4000, "topics", n_components=3, random_state=0).counts).save(tmp_path / "model.latent")
    assert main(["report", str(tmp_path / "model.latent"), "--quiet"]) == 0
    opened = open_report(tmp_path / "report.html")
    assert opened.page.locator("#verdict").is_visible()
    assert opened.page.locator(".picture svg .mark-symbol path").count() == 40
    opened.check()
