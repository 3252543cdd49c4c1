"""Signals that come while a program starts, and has no handlers for them yet."""

import os
import signal
from collections.abc import Iterable
from typing import Final

_FIRST: Final = 1
"""The process id of the first one."""


def hold_signals(signals: Iterable[signal.Signals]) -> None:
    """Let *signals* wait until `release_signals`, if this is the first process of its container.

    The kernel drops what the first process has no handler for. A pod may be ended while its agent
    still starts; the agent must hear of it, and deliver what there is, instead of being killed when
    the time to end is over.
    """
    if os.getpid() == _FIRST:
        hold_always(signals)


def hold_always(signals: Iterable[signal.Signals]) -> None:
    """Let *signals* wait until `release_signals`, in any process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def release_signals(signals: Iterable[signal.Signals]) -> None:
    """Let *signals* through, also those that came meanwhile: they have handlers now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
