"""Dense linear algebra on one thread: the same bits on every machine load, and threads left to our kernels."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looking the libraries up takes milliseconds: once is enough


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which numpy and scipy use one BLAS thread."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]
