"""Ends of the process that a test survives, at points of the code that have names."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from logdrive.host import faults


class Crash(BaseException):
    """Ends what a test does, as a kill would."""


@contextmanager
def crashing_at(point: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End what is done inside the context at the fault point *point*, which it must reach."""

    def reached(name: str) -> None:
        if name == point:
            raise Crash(name)

    with monkeypatch.context() as patched:
        patched.setattr(faults, "on_reach", reached)
        with pytest.raises(Crash):
            yield
