"""The page of topics: their words with a slider between probable and telling, their sizes, how well words cohere."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.report.assemble import count, fit_section, next_section, numbers_section, page_about, steps_figure
from latentfit.report.charts import HUE, QUIET, Spec, bars, distinct, lines, points
from latentfit.report.page import MOST_ROWS, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section
from latentfit.topics.diagnostics.verdict import THRESHOLDS, number_statement
from latentfit.topics.estimator import TopicModel
from latentfit.topics.plot import relevances, relevant_words, topic_map

PAPERS = (
    "Huang, Kakade, Kong & Valiant 2018: Recovering Structured Probability Matrices. ITCS (topics from word pairs).",
    "Sievert & Shirley 2014: LDAvis, a method for visualizing and interpreting topics (relevance).",
    "Bouma 2009: Normalized (pointwise) mutual information in collocation extraction (coherence).",
)
SHOWN_WORDS = 15
"""Words of a topic in the picture."""
MOST_PICTURED = 40
"""Topics whose words the picture holds."""
FIRST_RELEVANCE = 0.6
"""Where the slider stands at first, as Sievert & Shirley found best."""


def page_of(fitted: TopicModel, context: Context) -> Page:
    """Verdict, words, sizes, documents. These are those of the fit, or `input` when the model is from a file."""
    report, known = fitted.report_, fitted.report_.quantities
    documents = context.summary.get("n_rows", known.get("n_documents"))
    many = f"{int(documents):,} documents" if documents is not None else "Documents"
    return page_about(
        report,
        context,
        title=f"{many}: {number_statement(report, fitted.n_topics_)}",
        family="topics",
        figures=_figures(fitted, known),
        picture=_words(fitted),
        sections=[
            _sizes(fitted, known),
            _documents(fitted, context),
            _number(fitted),
            fit_section(fitted, context),
            _stability(known),
            numbers_section(
                report,
                "The model assumes that a document is a bag of words, that its topics' proportions are its own, and "
                "that every topic has words or documents nearly of its own.",
            ),
            next_section(
                report,
                "topics.csv holds the words of every topic, documents.csv the topics of every document; latentfit "
                "predict "
                "gives the topics of new documents.",
            ),
        ],
        papers=PAPERS,
        lead=f"{len(fitted.words_):,} words, {int(fitted.word_counts_.sum()):,} tokens.",
    )


def _figures(fitted: TopicModel, known: dict[str, Any]) -> list[Figure]:
    coherence = [value for value in known.get("coherence", []) if value is not None and np.isfinite(value)]
    halves = known.get("half_sample_distances")
    second = Figure("Words", count(len(fitted.words_)), "in the list")
    if coherence:
        second = Figure("Coherence", f"{np.mean(coherence):.2f}", "NPMI of top words, from −1 to 1, mean of the topics")
    third = steps_figure(fitted.n_iter_, fitted.converged_)
    if halves:
        third = Figure("Kept on half of the documents", f"{1 - max(halves):.0%}", "of the least stable topic's words")
    how = "found" if fitted.selection_ else "as asked for"
    return [Figure("Topics", str(fitted.n_topics_), how), second, third]


def _words(fitted: TopicModel) -> Chart:
    """Words of the chosen topic by relevance; all of their numbers are in the page, so the slider needs no server."""
    topics, weights = fitted.topics_[:MOST_PICTURED], fitted.weights_
    tokens = float(fitted.word_counts_.sum())
    words = distinct(fitted.words_.tolist())
    lift = relevances(fitted.topics_, weights, 0.0)
    shown = relevant_words(fitted.topics_, weights, SHOWN_WORDS)
    rows = [
        {"t": k, "word": words[w], "p": _short(topics[k, w]), "lift": round(float(lift[k, w]), 4),
         "inside": _short(topics[k, w] * weights[k] * tokens), "all": _short(fitted.word_counts_[w])}
        for k in range(len(topics)) for w in shown[k]
    ]  # fmt: skip
    tooltip: list[Spec] = [
        {"field": "word", "title": "word"},
        {"field": "p", "title": "share of the topic", "format": ".3%"},
        {"field": "inside", "title": "tokens from the topic", "format": ",.1f"},
        {"field": "all", "title": "tokens in all", "format": ",.0f"},
        {"field": "times", "title": "times its usual share", "format": ".1f"},
    ]
    y = {"field": "word", "type": "nominal", "sort": {"field": "rank", "op": "min"}, "title": None}
    x = {"type": "quantitative", "title": "tokens", "axis": {"tickCount": 5}}
    spec: Spec = {
        "data": {"values": rows},
        "params": [
            {"name": "topic", "value": 0,
             "bind": {"input": "select", "options": list(range(len(topics))), "name": "Topic "}},
            {"name": "relevance", "value": FIRST_RELEVANCE,
             "bind": {"input": "range", "min": 0, "max": 1, "step": 0.05, "name": "Its own words ↔ probable words "}},
        ],
        "transform": [
            {"filter": "datum.t == topic"},
            {"calculate": "relevance * log(max(datum.p, 1e-12)) + (1 - relevance) * datum.lift", "as": "value"},
            {"calculate": "exp(datum.lift)", "as": "times"},
            {"window": [{"op": "row_number", "as": "rank"}], "sort": [{"field": "value", "order": "descending"}]},
            {"filter": f"datum.rank <= {SHOWN_WORDS}"},
        ],
        "width": "container",
        "height": 21 * SHOWN_WORDS,
        "usermeta": {"widest": 820},
        "encoding": {"y": y, "tooltip": tooltip},
        "layer": [
            {"mark": {"type": "bar", "color": QUIET, "opacity": 0.45}, "encoding": {"x": {"field": "all", **x}}},
            {"mark": {"type": "bar", "color": HUE, "height": {"band": 0.55}},
             "encoding": {"x": {"field": "inside", **x}}},
        ],
    }  # fmt: skip
    total = fitted.n_topics_
    cut = "" if len(topics) == total else f" The {len(topics)} heaviest of {total} topics are held."
    caption = f"Blue: tokens of the word that come from the topic; grey: all its tokens. The slider ranks words.{cut}"
    return Chart(spec, caption, "Words of a topic")


def _short(value: Any) -> float:
    """Four digits: the page holds thousands of numbers."""
    return float(f"{float(value):.4g}")


def _sizes(fitted: TopicModel, known: dict[str, Any]) -> Section:
    coherence = known.get("coherence") or [None] * fitted.n_topics_
    names = [", ".join(str(word) for word in words[:3]) for words in fitted.top_words(3)]
    labels = [f"{k}: {words}" for k, words in enumerate(names)]
    blocks: list[Block] = [
        Chart(
            bars(labels, fitted.weights_.tolist(), value="share of all tokens", percent=True),
            "The heaviest topic comes first.",
            "Sizes",
        )
    ]
    if fitted.n_topics_ > 2:
        places = topic_map(fitted.topics_)
        rows = [
            {"x": float(x), "y": float(y), "name": labels[k], "size": float(fitted.weights_[k]), "shown": str(k)}
            for k, (x, y) in enumerate(places)
        ]
        blocks.append(
            Chart(
                points(rows, x="", y="", name="topic", size="share of tokens", bare=True, height=300),
                "Topics whose words differ little stand close; area is the share of all tokens.",
                "Map",
            )
        )
    rows_ = [
        [k, float(fitted.weights_[k]), coherence[k], " ".join(str(word) for word in words)]
        for k, words in enumerate(fitted.top_words(10))
    ]
    npmi = Column("coherence", ".2f", "NPMI of the ten top words")
    columns: list[str | Column] = ["topic", Column("share", ".1%"), npmi, "top words"]
    blocks.append(DataTable(columns, rows_, "Topics, the heaviest first."))
    return Section("The topics", blocks)


def _documents(fitted: TopicModel, context: Context) -> Section:
    given = context.data.get("input")
    if hasattr(fitted, "proportions_"):
        names, proportions = fitted.documents_, fitted.proportions_
    elif given is not None:
        names, proportions = given.names, fitted.transform(given)
    else:
        message = "A model file keeps no documents; give the data to latentfit report to see them."
        return Section("The documents", [Note(message)])
    largest = proportions.argmax(axis=1)
    order = np.argsort(-proportions.max(axis=1), kind="stable")[:MOST_ROWS]
    rows = [[str(names[at]), int(largest[at]), float(proportions[at, largest[at]])] for at in order]
    table = DataTable(
        ["document", "main topic", Column("its share", ".1%")], rows, "Documents that are most of one topic first.",
        total=len(proportions),
    )  # fmt: skip
    mean = np.bincount(largest, minlength=fitted.n_topics_)
    chart = bars(range(fitted.n_topics_), mean.tolist(), value="documents it is the main topic of", name="topic")
    return Section("The documents", [Chart(chart, "For how many documents each topic has the largest share."), table])


def _number(fitted: TopicModel) -> Section:
    held = (fitted.selection_ or {}).get("heldout") or {}
    if fitted.selection_ is None:
        message = f"{fitted.n_topics_} topics were asked for or given; without --topics the number is found."
        return Section("How many topics", [Note(message)])
    rows = [{"x": int(k), "y": float(value)} for k, value in sorted(held.items(), key=lambda item: int(item[0]))]
    directions = [float(score) for score in fitted.selection_.get("directions", [])]
    blocks: list[Block] = []
    if directions:
        score_points = [{"x": at, "y": score} for at, score in enumerate(directions, start=2)]
        chart = lines(score_points, x="topics", y="standard errors out of chance", whole_x=True)
        caption = "Does one topic more show in word pairs of documents left out? Above a few standard errors it does."
        blocks.append(Chart(chart, caption, "Directions of word pairs"))
    if len(rows) > 1:
        chart = lines(rows, x="topics", y="nats a held-out word", whole_x=True, marked=float(fitted.n_topics_))
        blocks.append(Chart(chart, "How well words left out are predicted; larger is better.", "Held-out words"))
    return Section("How many topics", blocks or [Note(f"{fitted.n_topics_} topics were found.")])


def _stability(known: dict[str, Any]) -> Section:
    moved = known.get("half_sample_distances")
    if not moved:
        return Section("Stability", [Note("Halves of the documents were not compared.")])
    chart = bars(
        range(len(moved)), [float(value) for value in moved], value="share of its words' probability that moves",
        name="topic", percent=True, flagged=[value > THRESHOLDS.apart for value in moved],
    )  # fmt: skip
    caption = (
        "Two halves of the documents were fitted anew; a topic of which more than half moves is unstable under "
        "resampling."
    )
    return Section("Stability", [Chart(chart, caption)])
