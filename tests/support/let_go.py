"""Which objects of some kinds are still there, by the garbage collector's own list."""

import gc
import weakref
from typing import Any


class Made:
    """Objects of *kinds* that were made since this was; earlier tests may have left some."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds
        self._older = self._all()  # held, so that no new object gets the id of one of them
        self._older_ids = {id(each) for each in self._older}

    def names(self) -> list[str]:
        """Return the names of the kinds of those that something still leads to, sorted."""
        return sorted(type(each).__name__ for each in self._new())

    def now(self) -> list[weakref.ref[Any]]:
        """Return references to all of those, which keep none."""
        return [weakref.ref(each) for each in self._new()]

    def _new(self) -> list[Any]:
        return [each for each in self._all() if id(each) not in self._older_ids]

    def _all(self) -> list[Any]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) in self._kinds]


def left_of(made: "list[weakref.ref[Any]]") -> list[str]:
    """Return the names of the kinds of those in *made* that something still leads to."""
    gc.collect()
    return sorted(type(left).__name__ for each in made if (left := each()) is not None)
