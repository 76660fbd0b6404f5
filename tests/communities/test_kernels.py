"""The belief-propagation kernels against their twin, against all labellings, and for any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.communities.data import read_graph
from latentfit.communities.em import BlockSteps
from latentfit.core.kernels.belief import MOST_BLOCKS, belief_sums, belief_sweeps
from latentfit.simulate import block_graph
from tests.communities import reference as twin

GROUPS = 16


def setting(K, *, n=40, corrected=True, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    matrix = block_graph(n, min(K, 4), 4.0, strength=2.0, random_state=seed).matrix
    if weighted:
        upper = sp.triu(matrix).tocoo()
        upper.data = rng.choice([0.5, 1.0, 2.0, 3.0], upper.nnz)
        matrix = sp.csr_array(upper + upper.T)
    steps = BlockSteps.of(read_graph(matrix), degree_corrected=corrected)
    prior, affinity = rng.dirichlet(np.full(K, 3.0)), rng.uniform(0.2, 1.0, (K, K))
    affinity = (affinity + affinity.T) / 2 * steps.mean_affinity
    messages, posterior = rng.dirichlet(np.ones(K), matrix.nnz), rng.dirichlet(np.ones(K), n)
    return matrix.toarray(), steps, prior, affinity, messages, posterior


def spread(matrix, steps, messages):
    """Messages of the kernel, at their receiver's row, as {(sender, receiver): …}."""
    row = np.repeat(np.arange(len(matrix)), np.diff(steps.edges.offsets))
    return {(int(j), int(i)): messages[e].copy() for e, (i, j) in enumerate(zip(row, steps.reach, strict=True))}


@pytest.mark.parametrize("K", [1, 2, 3, 5, 7, 8, 11])
@pytest.mark.parametrize(("corrected", "weighted", "damping"), [(True, False, 0.0), (False, True, 0.3)])
def test_sweeps_and_sums_equal_the_twin(K, corrected, weighted, damping):
    matrix, steps, prior, affinity, messages, posterior = setting(K, corrected=corrected, weighted=weighted, seed=K)
    n = len(matrix)
    theirs, other = spread(matrix, steps, messages), posterior.copy()
    size = -(-n // GROUPS)
    groups = [range(first, min(n, first + size)) for first in range(0, n, size)]
    for _ in range(3):
        twin.sweep(matrix, steps.edges.mass, prior, affinity, theirs, other, groups, damping)
    change, done = belief_sweeps(steps.edges, prior, affinity, messages, posterior, sweeps=3, damping=damping)
    assert done == 3
    assert change >= 0
    np.testing.assert_allclose(posterior, other, atol=1e-12)
    ours = spread(matrix, steps, messages)
    assert all(np.allclose(ours[edge], theirs[edge], atol=1e-12) for edge in theirs)
    value, pairs = belief_sums(steps.edges, prior, affinity, messages, posterior)
    want, want_pairs = twin.bethe(matrix, steps.edges.mass, prior, affinity, theirs, other)
    assert value == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(pairs, want_pairs, rtol=1e-10, atol=1e-12)
    assert pairs.sum() == pytest.approx(steps.total)


def test_on_a_tree_the_posterior_is_exact():
    """Two stars joined by an edge: messages settle on the sum over all labellings, up to the field's mean."""
    n, edges = 9, [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (4, 6), (4, 7), (7, 8)]
    matrix = np.zeros((n, n))
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = 1.0
    prior, affinity = np.array([0.6, 0.4]), 1e-6 * np.array([[3.0, 1.0], [1.0, 2.0]])
    steps = BlockSteps.of(read_graph(sp.csr_array(matrix)), degree_corrected=False)
    messages, posterior = np.full((2 * len(edges), 2), 0.5), np.full((n, 2), 0.5)
    change, _ = belief_sweeps(steps.edges, prior, affinity, messages, posterior, sweeps=50, tol=1e-15)
    assert change < 1e-14
    want, exact = twin.exact(matrix, np.ones(n), prior, affinity)
    np.testing.assert_allclose(posterior, exact, atol=1e-4)
    assert belief_sums(steps.edges, prior, affinity, messages, posterior)[0] == pytest.approx(want, abs=1e-3)


def test_any_number_of_threads_gives_the_same_bits():
    made = block_graph(40_000, 3, 14.0, strength=2.0, random_state=0)  # enough messages for threads
    graph = read_graph(made.matrix)
    seen = []
    for threads in (1, 2, 5):
        steps = BlockSteps.of(graph, degree_corrected=True, threads=threads)
        sums = steps.e_step(steps.begin(made.blocks, 3))
        seen.append((sums.log_z, sums.pairs.tobytes(), sums.posterior.tobytes(), sums.messages.tobytes()))
    assert seen[0] == seen[1] == seen[2]


def test_hubs_and_sharp_affinities_stay_finite():
    """A hub of 3,000 edges: products of 3,000 factors never leave the range of numbers."""
    n = 3001
    star = sp.csr_array(sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n)))
    steps = BlockSteps.of(read_graph(star), degree_corrected=False)
    rng = np.random.default_rng(0)
    messages, posterior = rng.dirichlet(np.ones(2), 2 * (n - 1)), rng.dirichlet(np.ones(2), n)
    affinity = np.array([[1.0, 1e-9], [1e-9, 1.0]]) / n
    belief_sweeps(steps.edges, np.full(2, 0.5), affinity, messages, posterior, sweeps=5)
    value, pairs = belief_sums(steps.edges, np.full(2, 0.5), affinity, messages, posterior)
    assert np.isfinite(posterior).all()
    assert np.isfinite(messages).all()
    assert np.isfinite(value)
    assert pairs.sum() == pytest.approx(2 * (n - 1))


def test_wrappers_check_their_arrays():
    _, steps, prior, affinity, messages, posterior = setting(2)
    with pytest.raises(TypeError, match="messages"):
        belief_sweeps(steps.edges, prior, affinity, messages[:-1], posterior, sweeps=1)
    with pytest.raises(TypeError, match="affinity"):
        belief_sums(steps.edges, prior, affinity[:1], messages, posterior)
    many = MOST_BLOCKS + 1
    with pytest.raises(ValueError, match=f"{many} blocks"):
        belief_sums(steps.edges, np.full(many, 1 / many), np.ones((many, many)), messages, posterior)
