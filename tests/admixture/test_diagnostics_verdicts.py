"""Verdicts of ancestry on panels made to be sound, and on panels that cannot be trusted.

python -m tests.admixture.test_diagnostics_verdicts 200      # the full count
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

from latentfit import Admixture

KINDS = ("no structure", "one too many", "few SNPs", "few people", "all mixed", "too close")


def panel(rng, n_people, n_snps, n_populations, fst, alpha):
    pooled, scale = rng.uniform(0.05, 0.95, (n_snps, 1)), (1 - fst) / fst
    frequencies = rng.beta(scale * pooled, scale * (1 - pooled), (n_snps, n_populations))
    proportions = rng.dirichlet(np.full(n_populations, alpha), n_people)
    return rng.binomial(2, np.clip(proportions @ frequencies.T, 0, 1))


def verdict(seed, kind=None):
    """The verdict on a sound panel, or on one that is spoilt in the way `kind` says."""
    rng = np.random.default_rng(seed)
    n_people, n_snps, K = int(rng.integers(100, 250)), int(rng.integers(2000, 4000)), int(rng.integers(2, 5))
    fst, alpha = rng.uniform(0.05, 0.2), rng.uniform(0.1, 0.4)
    asked = K + (kind == "one too many")
    if kind == "few SNPs":
        n_snps = 40
    elif kind == "few people":
        n_people = int(rng.integers(6, 14))
    elif kind == "all mixed":
        alpha = 20.0
    elif kind == "too close":
        fst = 0.001
    populations = 1 if kind == "no structure" else K
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Admixture(asked, n_jobs=1).fit(panel(rng, n_people, n_snps, populations, fst, alpha)).report_.verdict


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_sound_panels_are_trusted(seed):
    assert verdict(seed) == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_spoilt_panels_are_not_trusted(kind):
    assert verdict(1000, kind) != "ok"


if __name__ == "__main__":
    count = int(sys.argv[1])
    sound = [verdict(seed) for seed in range(count)]
    print(f"sound: {sum(one != 'ok' for one in sound)} of {count} doubted", flush=True)
    spoilt = [verdict(10_000 + seed, KINDS[seed % len(KINDS)]) for seed in range(count)]
    print(f"spoilt: {sum(one == 'ok' for one in spoilt)} of {count} trusted", flush=True)
