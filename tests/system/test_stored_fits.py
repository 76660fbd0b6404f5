"""Results of fits over all families stay what they were: within 1e-6 relative."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.system.stored_fits import FITS, STORED, result

RELATIVE = 1e-6
EXPECTED = json.loads(STORED.read_text(encoding="utf-8"))


def test_every_fit_is_stored():
    assert set(EXPECTED) == set(FITS)


@pytest.mark.parametrize("name", sorted(FITS))
def test_result_equals_the_stored_one(name):
    found, expected = result(name), EXPECTED[name]
    assert found["verdict"] == expected["verdict"]
    assert set(found["numbers"]) == set(expected["numbers"])
    for attribute, (shape, total, weighted, size) in expected["numbers"].items():
        ours = found["numbers"][attribute]
        assert ours[0] == shape, attribute
        # the sums cancel; what they may differ by is relative to the sum of absolute values
        np.testing.assert_allclose(ours[1:3], [total, weighted], rtol=0, atol=RELATIVE * size, err_msg=attribute)
        np.testing.assert_allclose(ours[3], size, rtol=RELATIVE, err_msg=attribute)
