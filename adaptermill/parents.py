"""Processes that end when the one that started them does."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with_parent() -> None:
    """Asks Linux for a SIGTERM when the parent dies, also by kill -9; elsewhere does nothing.

    For `preexec_fn`. A parent that ignores SIGTERM would hand that on: here it is heard again.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
