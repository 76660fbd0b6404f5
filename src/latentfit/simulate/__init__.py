"""Data with known truth, one module per door (tables and fractions have none).

Everything is drawn from one generator in one fixed order.
"""

from __future__ import annotations

from latentfit.simulate.ancestry import AdmixedGenotypes, admixture
from latentfit.simulate.clusters import BinaryRows, bernoulli_mixture
from latentfit.simulate.crowds import (
    Crowd,
    choose_workers,
    crowd,
    draw_confusions,
    draw_labels,
    draw_truth,
    specialist_crowd,
)
from latentfit.simulate.graphs import BlockGraph, block_graph
from latentfit.simulate.pairs import PairWorld, draw_pairs, pairs
from latentfit.simulate.sequences import HiddenMarkov, draw_sequences, hidden_markov
from latentfit.simulate.switches import SwitchedRows, binary_factors
from latentfit.simulate.topics import TopicDocuments, topic_documents

__all__ = [
    "AdmixedGenotypes",
    "BinaryRows",
    "BlockGraph",
    "Crowd",
    "HiddenMarkov",
    "PairWorld",
    "SwitchedRows",
    "TopicDocuments",
    "admixture",
    "bernoulli_mixture",
    "binary_factors",
    "block_graph",
    "choose_workers",
    "crowd",
    "draw_confusions",
    "draw_labels",
    "draw_pairs",
    "draw_sequences",
    "draw_truth",
    "hidden_markov",
    "pairs",
    "specialist_crowd",
    "topic_documents",
]
