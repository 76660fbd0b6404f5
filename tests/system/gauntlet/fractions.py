"""Situations of `latentfit fractions`: mixtures with a reference and without, and what can be wrong with either."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit import MixtureFractions
from tests.system.gauntlet.scenario import Scenario

Values = NDArray[np.float64]
Rng = np.random.Generator


def cell_types(rng: Rng, K: int, n_features: int) -> Values:
    """Profiles as of methylation: most features near 0 or 1."""
    return rng.beta(0.5, 0.5, (K, n_features))


def mixed(rng: Rng, fractions: Values, profiles: Values, noise: float = 0.03) -> Values:
    return np.clip(fractions @ profiles + noise * rng.normal(size=(len(fractions), profiles.shape[1])), 0, 1)


def blood(rng: Rng, n: int, K: int) -> Values:
    """Fractions around unequal means, as cell counts of people are."""
    return rng.dirichlet(8 * np.arange(1, K + 1) / K, n)


def with_reference(values: Values, profiles: Values, **settings: str) -> MixtureFractions:
    return MixtureFractions(reference=profiles.T, **settings).fit(values)  # type: ignore[arg-type]


# ------------------------------------------------------------------------ sound


def whole_reference(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 5, 300)
    return with_reference(mixed(rng, blood(rng, 40, 5), profiles), profiles)


def a_single_sample(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 400)
    return with_reference(mixed(rng, blood(rng, 1, 4), profiles), profiles)


def missing_cells(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 400)
    values = mixed(rng, blood(rng, 30, 4), profiles)
    return with_reference(np.where(rng.random(values.shape) < 0.15, np.nan, values), profiles)


def a_part_that_no_sample_has(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 5, 400)
    fractions = np.hstack([blood(rng, 30, 4), np.zeros((30, 1))])
    return with_reference(mixed(rng, fractions, profiles), profiles)


def features_that_are_each_a_little_off(rng: Rng) -> MixtureFractions:
    """The reference was measured with noise of its own."""
    profiles = cell_types(rng, 4, 400)
    values = mixed(rng, blood(rng, 30, 4), profiles)
    return with_reference(values, np.clip(profiles + 0.02 * rng.normal(size=profiles.shape), 0, 1))


def part_left_out_and_said_so(rng: Rng) -> MixtureFractions:
    """Spiked-in controls: a tenth of every sample is blank, and the sum is left open."""
    profiles = cell_types(rng, 4, 400)
    return with_reference(0.9 * mixed(rng, blood(rng, 30, 4), profiles), profiles, constraint="sum_at_most_one")


def blind_with_pure_samples(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 3, 300)
    fractions = np.vstack([np.repeat(np.eye(3), 4, axis=0), rng.dirichlet(np.ones(3), 40)])
    return MixtureFractions().fit(mixed(rng, fractions, profiles))


def blind_with_a_given_number(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 300)
    fractions = np.vstack([np.repeat(np.eye(4), 4, axis=0), rng.dirichlet(np.full(4, 0.4), 60)])
    return MixtureFractions(4).fit(mixed(rng, fractions, profiles))


# ---------------------------------------------------------------------- unsound


def reference_lacks_a_part(rng: Rng) -> MixtureFractions:
    """The commonest of four cell types is not in the reference."""
    profiles = cell_types(rng, 4, 400)
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles), profiles[:3])


def reference_of_another_machine(rng: Rng) -> MixtureFractions:
    """Its values are squeezed and shifted."""
    profiles = cell_types(rng, 4, 400)
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles), 0.15 + 0.55 * profiles)


def unrelated_reference(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 400)
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles), cell_types(rng, 4, 400))


def two_nearly_equal_profiles(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 200)
    profiles[3] = np.clip(profiles[2] + 0.01 * rng.normal(size=200), 0, 1)
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles), profiles)


def profile_that_is_a_mixture_of_others(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 200)
    profiles[3] = 0.5 * profiles[0] + 0.5 * profiles[1]
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles), profiles)


def too_few_features(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 8)
    return with_reference(mixed(rng, blood(rng, 30, 4), profiles, 0.08), profiles)


def one_sample_of_another_tissue(rng: Rng) -> MixtureFractions:
    profiles = cell_types(rng, 4, 400)
    values = mixed(rng, blood(rng, 30, 4), profiles)
    values[0] = cell_types(rng, 1, 400)[0]
    return with_reference(values, profiles)


def blind_noise(rng: Rng) -> MixtureFractions:
    """Every feature has its level, and nothing else."""
    return MixtureFractions().fit(np.clip(rng.uniform(0.2, 0.8, 200) + 0.05 * rng.normal(size=(40, 200)), 0, 1))


def blind_few_samples(rng: Rng) -> MixtureFractions:
    return MixtureFractions(3).fit(mixed(rng, rng.dirichlet(np.ones(3), 6), cell_types(rng, 3, 300)))


def blind_too_few_parts(rng: Rng) -> MixtureFractions:
    return MixtureFractions(2).fit(mixed(rng, rng.dirichlet(np.ones(5), 50), cell_types(rng, 5, 300)))


def blind_too_many_parts(rng: Rng) -> MixtureFractions:
    return MixtureFractions(6).fit(mixed(rng, rng.dirichlet(np.ones(3), 50), cell_types(rng, 3, 300)))


def blind_without_pure_samples(rng: Rng) -> MixtureFractions:
    """All samples are alike, and profiles lie in the middle: fractions can be traded against profiles."""
    return MixtureFractions(3).fit(mixed(rng, rng.dirichlet(np.full(3, 8.0), 40), rng.uniform(0.2, 0.8, (3, 200))))


def drawn(make: Callable[[Rng], MixtureFractions]) -> Callable[[int], MixtureFractions]:
    return lambda seed: make(np.random.default_rng([seed, 2_026]))


SOUND = (
    whole_reference, a_single_sample, missing_cells, a_part_that_no_sample_has, features_that_are_each_a_little_off,
    part_left_out_and_said_so, blind_with_pure_samples, blind_with_a_given_number,
)  # fmt: skip
UNSOUND = (
    (reference_lacks_a_part, "residual_direction|noise"),
    (reference_of_another_machine, "residual_direction|noise|sum_of_fractions"),
    (unrelated_reference, "noise|residual_direction"),
    (two_nearly_equal_profiles, "profiles_determined|standard_error"),
    (profile_that_is_a_mixture_of_others, "profiles_determined|standard_error"),
    (too_few_features, "profiles_determined|standard_error"),
    (one_sample_of_another_tissue, "outlying_samples"),
    (blind_noise, "structure"),
    (blind_few_samples, "sample_size"),
    (blind_too_few_parts, "residual_direction"),
    (blind_too_many_parts, "equal_fits|stability|evidence_for_number"),
    (blind_without_pure_samples, "equal_fits|stability|standard_error"),
)
SCENARIOS = [Scenario(make.__name__, drawn(make)) for make in SOUND] + [
    Scenario(make.__name__, drawn(make), ("caution", "not identifiable"), reason) for make, reason in UNSOUND
]
