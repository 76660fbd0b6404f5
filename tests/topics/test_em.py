"""Topics: the objective and its steps typed out, the choice of pseudo-counts and of the number on small numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.em import EMResult
from latentfit.core.multistart import Selected
from latentfit.core.sampling import scramble
from latentfit.topics import em as topic_prior
from latentfit.topics import init
from latentfit.topics import select as number
from latentfit.topics.data.documents import Documents
from latentfit.topics.em import (
    TopicParams,
    TopicPrior,
    TopicSteps,
    begin,
    best_near,
    choose_prior,
    completed,
    left_out,
    log_products,
    proportions_of,
    word_frequencies,
)
from latentfit.topics.init import best_em_run, random_topics, refined_by_pairs
from latentfit.topics.select import TopicNumber, direction_scores, leading


def documents_of(counts):
    counts = np.asarray(counts, float)
    return Documents(sp.csr_array(counts), np.arange(len(counts)), np.arange(counts.shape[1]))


def drawn(n, m, seed=0, rate=1.0):
    return documents_of(np.random.default_rng(seed).poisson(rate, (n, m)))


COUNTS = [[2, 1, 0, 0], [0, 3, 1, 0], [1, 0, 0, 4], [0, 0, 0, 0]]
TOPICS = np.array([[0.4, 0.1], [0.3, 0.2], [0.2, 0.3], [0.1, 0.4]])
SHARES = np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1], [0.3, 0.7]])


def test_words_have_half_a_count_more():
    assert word_frequencies(documents_of(COUNTS)).tolist() == pytest.approx([3.5 / 14, 4.5 / 14, 1.5 / 14, 4.5 / 14])


def test_pseudo_counts_are_so_many_a_topic_and_so_many_a_word_on_average():
    prior = TopicPrior.of(documents_of(COUNTS), 3, 0.1, 0.2)
    assert prior.a.tolist() == [0.1, 0.1, 0.1]
    np.testing.assert_allclose(prior.b, 0.2 * 4 * np.array([3.5, 4.5, 1.5, 4.5]) / 14, rtol=1e-14)
    assert prior.b.mean() == pytest.approx(0.2)


def test_objective_and_m_step_are_those_of_the_docstring():
    made = documents_of(COUNTS)
    prior = TopicPrior(np.array([0.1, 0.3]), np.array([0.2, 0.4, 0.6, 0.8]))
    steps = TopicSteps(made.lists, made.lengths, prior, 1, inner=0)
    params = TopicParams(TOPICS, SHARES)
    sums = steps.e_step(params)
    value, of_words, of_documents = 0.0, np.zeros((4, 2)), np.zeros((4, 2))
    for d in range(4):
        for w in range(4):
            chance = sum(SHARES[d, k] * TOPICS[w, k] for k in range(2))
            value += COUNTS[d][w] * np.log(chance)
            for k in range(2):
                part = COUNTS[d][w] * SHARES[d, k] * TOPICS[w, k] / chance
                of_words[w, k] += part
                of_documents[d, k] += part
    assert steps.log_likelihood(sums) == pytest.approx(value, rel=1e-12)
    for k in range(2):
        value += sum(prior.a[k] * np.log(SHARES[d, k]) for d in range(4))
        value += sum(prior.b[w] * np.log(TOPICS[w, k]) for w in range(4))
    assert steps.objective(params, sums) == pytest.approx(value, rel=1e-12)
    found = steps.m_step(sums)
    of_words += prior.b[:, None]
    of_documents += prior.a
    np.testing.assert_allclose(found.topics, of_words / of_words.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.proportions, of_documents / of_documents.sum(axis=1, keepdims=True), rtol=1e-12)
    assert steps.n_cells == 12
    assert TopicSteps(made.lists, np.zeros(4), prior, 1).n_cells == 1


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 16, 17, 30])
def test_logarithms_of_products_are_sums_of_logarithms(rows):
    values = np.random.default_rng(rows).random((rows, 3)) + 1e-3
    kept = values.copy()
    np.testing.assert_allclose(log_products(values), np.log(values).sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(values, kept)


def test_the_product_of_eight_smallest_probabilities_is_above_zero():
    values = np.full((64, 1), 1e-35)
    assert log_products(values)[0] == pytest.approx(64 * np.log(1e-35))


def test_a_document_without_words_keeps_even_proportions_and_others_have_their_one_maximum():
    made = documents_of(COUNTS)
    proportions, values = proportions_of(made, TOPICS, np.full(2, 0.1), 1)
    assert proportions[3].tolist() == [0.5, 0.5]
    for d in range(3):
        grid = np.linspace(1e-4, 1 - 1e-4, 20_001)
        chance = grid[:, None] * TOPICS[:, 0] + (1 - grid[:, None]) * TOPICS[:, 1]
        curve = np.log(chance) @ np.array(COUNTS[d], float) + 0.1 * (np.log(grid) + np.log(1 - grid))
        assert proportions[d, 0] == pytest.approx(grid[curve.argmax()], abs=2e-4)
        assert values[d] == pytest.approx(np.array(COUNTS[d]) @ np.log(TOPICS @ proportions[d]), rel=1e-12)


# ----------------------------------------------------------------- starts


def test_random_topics_are_the_words_of_documents_by_exponential_draws():
    made = drawn(9, 5, seed=1)
    keys = made.hashes(4)
    proportions = np.empty((9, 3))
    for k in range(3):
        draws = (scramble(keys, 4 + 1 + k) >> np.uint64(11)).astype(float) / 2**53
        proportions[:, k] = -np.log(draws + 2.0**-54)
    proportions /= proportions.sum(axis=1)[:, None]
    want = made.matrix.toarray().T @ proportions
    for w, rest in enumerate(word_frequencies(made)):
        want[w] += rest
    np.testing.assert_allclose(random_topics(made, 3, 4), want / want.sum(axis=0), rtol=1e-12)


def test_an_initialisation_has_a_thousandth_of_the_prior_mixed_in_and_ten_steps_of_proportions():
    made = documents_of(COUNTS)
    prior = TopicPrior(np.full(2, 0.1), np.array([0.2, 0.4, 0.6, 0.8]))
    steps = TopicSteps.of(made, prior, 1)
    sharp = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.25], [0.0, 0.25]])
    found = begin(steps, sharp)
    want = 0.999 * sharp + 0.001 * np.array([[0.1], [0.2], [0.3], [0.4]])
    np.testing.assert_allclose(found.topics, want, rtol=1e-12)
    proportions = np.full((4, 2), 0.5)
    for _ in range(10):
        expected = proportions * ((np.array(COUNTS) / (proportions @ want.T)) @ want) + 0.1
        proportions = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.proportions, proportions, rtol=1e-9)


@pytest.mark.parametrize(("starts", "rounds"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 3)])
def test_successive_halving_has_as_many_rounds_as_halvings(monkeypatch, starts, rounds):
    heard = []

    def successive_halving(candidates, *, rounds, **rest):
        heard.append((len(candidates), tuple(rounds), rest["accelerate"]))
        return Selected("", None, None, {})

    monkeypatch.setattr(init, "successive_halving", successive_halving)
    steps = TopicSteps.of(documents_of(COUNTS), TopicPrior(np.full(2, 0.1), np.ones(4)), 1)
    best_em_run(steps, {str(n): TOPICS for n in range(starts)}, max_iter=3, tol=0.1)
    assert heard == [(starts, init.ROUNDS[:rounds], True)]


def test_pairs_polish_short_documents_only():
    short = documents_of([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    polished = refined_by_pairs(short, TOPICS)
    assert not np.array_equal(polished, TOPICS)
    np.testing.assert_allclose(polished.sum(axis=0), 1.0, rtol=1e-12)
    one = TOPICS[:, :1].copy()
    assert refined_by_pairs(short, one) is one  # one topic has nothing to tell apart
    lonely = documents_of(np.eye(4))
    assert refined_by_pairs(lonely, TOPICS) is TOPICS  # no pairs


def test_pairs_begin_with_lifted_topics_that_mostly_meet_themselves(monkeypatch):
    short = documents_of([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])
    sharp = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.25], [0.0, 0.25]])
    heard = []

    def em(steps, start, **rest):
        heard.append((steps, start))
        return EMResult(start, None, 0.0, 0.0, 0, True, [])

    monkeypatch.setattr(init, "em", em)
    found = refined_by_pairs(short, sharp)
    ((steps, start),) = heard
    lifted = 0.999 * sharp + 0.001 * (np.array([2, 3, 2, 1]) + 0.5)[:, None] / 10
    np.testing.assert_allclose(start.left, lifted, rtol=1e-12)
    np.testing.assert_allclose(start.mixing, [[0.475, 0.025], [0.025, 0.475]], rtol=1e-12)
    assert steps.symmetric
    again = 0.999 * lifted + 0.001 * (np.array([2, 3, 2, 1]) + 0.5)[:, None] / 10
    np.testing.assert_allclose(found, again, rtol=1e-12)


def test_documents_of_twelve_words_are_short_and_of_thirteen_long():
    """n words of a document make n² pairs: n a cell."""
    topics = np.random.default_rng(0).dirichlet(np.ones(13), 2).T
    twelve, thirteen = (np.arange(13)[None] < n for n in (12, 13))
    assert refined_by_pairs(documents_of(np.repeat(thirteen, 5, axis=0)), topics) is topics
    assert refined_by_pairs(documents_of(np.repeat(twelve, 5, axis=0)), topics) is not topics


# ---------------------------------------------------------- pseudo-counts


def walked(values, start, patience=1):
    """What `best_near` chooses on a grid 0, 1, 2, …, and what it looked at."""
    seen = []

    def score(at):
        seen.append(at)
        return values[at]

    return best_near(range(len(values)), start, score, patience), seen


def test_a_grid_is_searched_upwards_while_it_gains_else_downwards():
    assert walked([5, 1, 2, 3, 2, 9], 1) == (3, [1, 2, 3, 4])  # neither over the dip nor down again
    assert walked([5, 6, 2, 1, 0], 2) == (1, [2, 3, 1, 0])
    assert walked([1, 2, 3], 0) == (2, [0, 1, 2])
    assert walked([3, 2, 1], 2) == (0, [2, 1, 0])
    assert walked([3, 2, 1], 0) == (0, [0, 1])
    assert walked([1, 1, 1], 1) == (1, [1, 2, 0])  # equals are no gain
    assert walked([5, 1, 2, 3, 2, 9], 1, 2) == (5, [1, 2, 3, 4, 5])  # over the dip
    assert walked([5, 1, 2, 3, 2, 1, 9], 1, 2) == (3, [1, 2, 3, 4, 5])


def test_below_fifty_documents_nothing_is_chosen(monkeypatch):
    topics = np.full((4, 2), 0.25)
    assert choose_prior(drawn(49, 4), topics, 0) == topic_prior.PriorChoice(*topic_prior.DEFAULT, {})
    monkeypatch.setattr(topic_prior, "best_near", lambda grid, start, score, patience: grid[-1])
    monkeypatch.setattr(topic_prior, "begin", lambda steps, topics: None)
    found = choose_prior(drawn(50, 4), topics, 0)
    assert (found.proportions, found.words) == (topic_prior.PRIOR.of_proportions[-1], topic_prior.PRIOR.of_words[-1])


def test_a_fifth_of_the_documents_is_left_out_and_every_document_is_somewhere():
    made = documents_of(np.arange(1, 53)[:, None] * np.ones((1, 2)))
    fitted, other = left_out(made, 3)
    assert (fitted.n_documents, other.n_documents) == (42, 10)
    assert sorted([*fitted.names, *other.names]) == list(range(52))
    for part in (fitted, other):
        assert (np.diff(part.names) > 0).all()
    smallest = set(np.argsort(made.hashes(3), kind="stable")[:10].tolist())
    assert set(other.names.tolist()) == smallest


def test_a_large_corpus_is_thinned_to_its_tokens_but_not_below_fifty_documents(monkeypatch):
    made = documents_of(np.full((200, 2), 2.0) + np.arange(200)[:, None] % 3)
    total = made.total
    monkeypatch.setattr(topic_prior, "PRIOR", replace(topic_prior.PRIOR, prior_tokens=total))
    assert sum(part.n_documents for part in left_out(made, 0)) == 200
    monkeypatch.setattr(topic_prior, "PRIOR", replace(topic_prior.PRIOR, prior_tokens=total / 2))
    fitted, other = left_out(made, 0)
    assert (fitted.n_documents, other.n_documents) == (80, 20)
    monkeypatch.setattr(topic_prior, "PRIOR", replace(topic_prior.PRIOR, prior_tokens=1))
    assert sum(part.n_documents for part in left_out(made, 0)) == 50


def test_a_second_half_is_predicted_from_the_first():
    given, hidden = documents_of(COUNTS), documents_of([[0, 1, 1, 0], [2, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]])
    values, tokens = completed((given, hidden), TOPICS, np.full(2, 0.1), 1)
    proportions, _ = proportions_of(given, TOPICS, np.full(2, 0.1), 1)
    np.testing.assert_allclose(
        values, (hidden.matrix.toarray() * np.log(proportions @ TOPICS.T)).sum(axis=1), rtol=1e-10
    )
    assert tokens == 6
    assert topic_prior._mean((given, hidden), TOPICS, 0.1, 1) == pytest.approx(values.sum() / 6)
    nothing = documents_of(np.zeros((4, 4)))
    assert topic_prior._mean((given, nothing), TOPICS, 0.1, 1) == 0.0


# ------------------------------------------------------------- the number


def test_directions_are_counted_up_to_the_first_that_does_not_stand_out():
    assert leading([]) == 0
    assert leading([2.5, 9.0]) == 2  # at the limit it stands out
    assert leading([9.0, 2.49, 9.0]) == 1
    assert TopicNumber(7, [9.0, 3.0, 0.0]).rank == 3


def asked_for(monkeypatch, documents, most):
    """How many directions are looked for, None when no look is worth it."""
    heard = []

    def asked(found_on, asked_on, most):
        heard.append((found_on.n_documents, asked_on.n_documents, most))
        return np.arange(most, dtype=float)

    monkeypatch.setattr(number, "_asked", asked)
    scores = direction_scores(documents, most, 0)
    if not heard:
        assert scores == []
        return None
    assert len(heard) == 2
    assert heard[0][:2] == heard[1][1::-1]  # both halves take both parts
    assert heard[0][0] - heard[0][1] in (0, 1)
    assert scores == pytest.approx((2 * np.arange(heard[0][2]) / np.sqrt(2)).tolist())
    return heard[0][2]


def test_directions_are_fewer_than_words_less_one_and_a_quarter_of_the_documents(monkeypatch):
    two = documents_of([[1, 1, 0, 0, 0]] * 24)
    assert asked_for(monkeypatch, two, 29) == 3  # of five words
    assert asked_for(monkeypatch, two, 2) == 2
    assert asked_for(monkeypatch, two, 0) is None
    assert asked_for(monkeypatch, documents_of([[1, 1]] * 24), 29) is None
    assert asked_for(monkeypatch, documents_of([[1, 1, 1]] * 24), 29) == 1
    wide = np.zeros((23, 40))
    wide[:, :2] = 1
    assert asked_for(monkeypatch, documents_of(wide), 29) == 5  # of 23 documents
    assert asked_for(monkeypatch, documents_of(wide[:20]), 29) == 5
    assert asked_for(monkeypatch, documents_of(wide[:19]), 29) is None


def test_documents_of_one_word_show_no_direction(monkeypatch):
    counts = np.zeros((24, 6))
    counts[:, 0] = 1
    counts[:20, 1] = 1
    assert asked_for(monkeypatch, documents_of(counts), 29) == 4
    counts[19, 1] = 0
    assert asked_for(monkeypatch, documents_of(counts), 29) is None


def test_a_direction_less_what_those_before_it_explain_has_no_form_with_them():
    rng = np.random.default_rng(3)
    half = rng.normal(size=(4, 6))
    gram = half @ half.T
    turned = number._schur(gram)
    np.testing.assert_array_equal(np.tril(turned), np.eye(4))
    form = turned.T @ gram @ turned
    np.testing.assert_allclose(form, np.diag(np.diag(form)), atol=1e-6 * np.trace(gram))
    assert form[1, 1] == pytest.approx(gram[1, 1] - gram[0, 1] ** 2 / gram[0, 0], rel=1e-6)


@pytest.mark.parametrize(
    ("scores", "want"),
    [
        ([9.0, 9.0, 0.0], 3),
        ([0.0, 1.0], 1),
        ([0.0, 9.0], "words"),  # the first does not stand out, and all together do: there are topics
        ([], 1),
        ([9.0] * 5 + [0.0] * 20, 6),
        ([9.0] * 6 + [0.0] * 20, "words"),  # held-out words may have something to say
        ([9.0] * 3, "words"),  # the end is not in sight
        ([9.0] * 5 + [1.0] * 20, "words"),  # together, what follows stands out
        ([9.0] * 28 + [0.0], "words"),  # one direction behind the last that stands out shows no end
        ([9.0] * 29, "words"),
    ],
)
@pytest.mark.parametrize("most", [None, 2, 9, 40])
def test_directions_choose_where_they_end_and_a_limit_cuts_the_answer_alone(monkeypatch, scores, want, most):
    def found(documents, at_most, seed):
        assert at_most == number.SELECTION.most_directions
        return scores

    monkeypatch.setattr(number, "direction_scores", found)
    monkeypatch.setattr(number, "_by_held_out_words", lambda *rest: TopicNumber(12, scores))
    chosen = number.choose_topics(drawn(60, 60, seed=2), 0, most=most)
    want = 12 if want == "words" else want
    assert chosen.chosen == min(want, most or want)
    assert chosen.unlimited == (want if most is not None and want > most else None)


def by_words(monkeypatch, values, documents=None, scores=(9.0,)):
    """The number that held-out words choose when the fit with GRID[i] topics predicts `values[i]` nats per token."""
    seen = []

    def completed(halves, topics, a, n_jobs):
        seen.append(topics.shape[1])
        value = values[min(number.SELECTION.grid.index(topics.shape[1]), len(values) - 1)]
        return np.full(halves[1].n_documents, value * halves[1].total / halves[1].n_documents), halves[1].total

    monkeypatch.setattr(number, "completed", completed)
    monkeypatch.setattr(number, "word_spectrum", lambda pairs, most, tol: most)
    made = drawn(60, 60, seed=2) if documents is None else documents
    monkeypatch.setattr(number, "first_topics", lambda spectrum, n: random_topics(made, n, 0))
    found = number._by_held_out_words(made, list(scores), 0, 1)
    grid = number.SELECTION.grid
    assert all(found.heldout[n] == pytest.approx(values[grid.index(n)]) for n in found.heldout if n < 14)
    return found.chosen, sorted(set(seen)), found


def test_the_smallest_number_with_four_fifths_of_the_gain_is_taken(monkeypatch):
    #                                   1     3     5     7     10 …
    assert by_words(monkeypatch, [-5.0, -4.3, -4.0, -4.1, -4.2])[0] == 5
    assert by_words(monkeypatch, [-5.0, -4.2 + 1e-9, -4.0, -4.1, -4.2])[0] == 3
    chosen, seen, found = by_words(monkeypatch, [-5.0, -5.1, -5.2, -4.9, -4.8, -4.9, -5.0])
    assert (chosen, seen) == (10, [n for n in number.SELECTION.grid if n < 48])
    assert found.plausible == (10,)
    # prediction does not know, and the directions have shown more than one topic
    assert by_words(monkeypatch, [-5.0, -5.1], scores=[9.0, 9.0, 9.0])[0] == 4


def test_directions_that_end_at_more_than_twice_the_practical_number_do_not_count(monkeypatch):
    values = [-5.0, -4.3, -4.0, -4.1, -4.2]
    for topics, want in ((8, 8), (10, 10), (11, 5), (22, 5)):
        assert by_words(monkeypatch, values, scores=[9.0] * (topics - 1) + [0.0] * 8)[0] == want


def test_no_more_topics_are_tried_than_there_are_words_or_documents(monkeypatch):
    rising = np.linspace(-5, -4, len(number.SELECTION.grid)).tolist()
    assert by_words(monkeypatch, rising, drawn(60, 10, seed=3))[1] == [1, 3, 5, 7]
    assert by_words(monkeypatch, rising, drawn(60, 11, seed=3))[1] == [1, 3, 5, 7, 10]
    assert by_words(monkeypatch, rising, drawn(12, 30, seed=3))[1] == [1, 3, 5, 7]  # ten are fitted, two left out
