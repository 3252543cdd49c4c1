"""Which objects of some kinds are still there, by the garbage collector's own list."""

import gc
import weakref
from collections import Counter
from typing import Any


class Made:
    """Objects of *kinds* that were made since this was."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds
        self._before = Counter(type(each) for each in self._all())

    def names(self) -> list[str]:
        """Return the names of the kinds of those that something still leads to, sorted."""
        now = Counter(type(each) for each in self._all())
        return sorted(kind.__name__ for kind in (now - self._before).elements())

    def now(self) -> list[weakref.ref[Any]]:
        """Return references to all of the kinds, which keep none; older ones must be gone."""
        assert not self._before
        return [weakref.ref(each) for each in self._all()]

    def _all(self) -> list[Any]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) in self._kinds]


def left_of(made: "list[weakref.ref[Any]]") -> list[str]:
    """Return the names of the kinds of those in *made* that something still leads to."""
    gc.collect()
    return sorted(type(found).__name__ for each in made if (found := each()) is not None)
