"""An interrupt that comes while libraries are looked up is heard when that is over."""

from __future__ import annotations

import signal
import threading

import pytest

from latentfit.engine import limits as blas


@pytest.fixture(autouse=True)
def heard_as_usual():
    """Python's own handler: what a shell starts in the background has none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def looked_up(monkeypatch):
    """Looking up raises an interrupt inside, as a signal does in the callbacks of it, and goes on."""
    heard = []

    def look_up():
        signal.raise_signal(signal.SIGINT)
        heard.append("went on")
        return None

    monkeypatch.setattr(blas, "ThreadpoolController", look_up)
    return heard


def test_it_is_raised_afterwards(looked_up):
    with pytest.raises(KeyboardInterrupt):
        blas._controller.__wrapped__()
    assert looked_up == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_that_hears_interrupts_itself_goes_on_doing_so(looked_up):
    own = []
    before = signal.signal(signal.SIGINT, lambda number, _: own.append(number))
    try:
        blas._controller.__wrapped__()
    finally:
        signal.signal(signal.SIGINT, before)
    assert own == [signal.SIGINT]


def test_so_is_the_order_to_end(monkeypatch):
    """A command's handler of it raises, too."""
    went = []

    def end(number, _):
        raise SystemExit(143)

    def look_up():
        signal.raise_signal(signal.SIGTERM)
        went.append("went on")

    monkeypatch.setattr(blas, "ThreadpoolController", look_up)
    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(SystemExit):
            blas._controller.__wrapped__()
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert went == ["went on"]


def test_other_threads_touch_no_handler(monkeypatch):
    seen = []
    monkeypatch.setattr(blas, "ThreadpoolController", lambda: seen.append(signal.getsignal(signal.SIGINT)))
    worker = threading.Thread(target=blas._controller.__wrapped__)
    worker.start()
    worker.join()
    assert seen == [signal.default_int_handler]
