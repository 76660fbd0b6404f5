"""`./dev reproduce pairs:topics`: brief, with both measures, and linear in the number of words."""

from __future__ import annotations

from reproduction import KEYS
from reproduction.pairs_topics import ANCHORS, BAYES, METHODS, SVD, TOPICS, WEIGHTS, one
from reproduction.table import Run


def test_quick_run_has_every_row():
    outcome = KEYS["pairs:topics"](Run(quick=True))
    assert len(outcome.rows) == 2 * 2 * 2 * len(METHODS) * 2
    assert {row.measure for row in outcome.rows} == {TOPICS, WEIGHTS}
    assert all(row.ours is not None and row.ours >= 0 for row in outcome.rows)
    assert outcome.curves is not None
    assert len(outcome.curves.columns["error"]) == 8


def test_error_depends_on_pairs_a_word_only():
    """Corollary 1.3: at the same N/M eight times the words give no larger error; triples find the weight."""
    small, large = (one("example1", size, 20, 0) for size in (500, 4000))
    for method in (SVD, BAYES):
        assert large[method][0] < 1.1 * small[method][0] + 0.01
        assert large[method][1] < 0.02
    assert large[BAYES][0] < 0.5 * large[SVD][0]
    assert large[ANCHORS][1] > 0.02  # Example 1 has no anchors
