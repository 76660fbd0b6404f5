"""What tests of fits share: the bits of a model, and fits that are interrupted in their climb."""

from __future__ import annotations

from itertools import count

from latentfit.core.estimator import model_state


def bits(model) -> dict[str, bytes]:
    """Everything that was learned, byte by byte."""
    return {name: array.tobytes() for name, array in model_state(model)[0].items()}


def stopping(kind, when):
    """A `kind` of estimator whose fit is interrupted, as by Ctrl-C, at the first step that `when` holds of."""

    class Stopping(kind):
        def _progress(self, stage):
            def tell(step):
                if when(step):
                    raise KeyboardInterrupt

            return tell

    return Stopping


def after(number: int):
    """For `stopping`: so many steps are let pass, of whichever climbs."""
    passed = count()
    return lambda step: next(passed) >= number
