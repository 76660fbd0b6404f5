"""Data with known truth: the simulators of all families, such as ``simulate.crowd`` of `latentfit.labels.simulate`.

Everything is drawn from one generator in one fixed order.
"""

from __future__ import annotations

from typing import Any

from latentfit.core.registry import simulators


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for module in simulators():
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'latentfit.simulate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(name for module in simulators() for name in module.__all__)
