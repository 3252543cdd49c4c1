"""How much the sink has in flight, and when it lets others append.

An append at S2 is refused if another writer was there first (`match_seq_num`), and with it all that
is behind it. A sink that always has appends in flight would refuse every other writer for ever. So
appends go in *trains*: after a train all acknowledgements are awaited, and there is a short rest in
which another writer finds the tail at rest.

Alone, a train lasts a second. After a conflict it has half as many appends as were allowed in
flight, down to one; with each train that arrives one more is allowed.
"""

from random import Random
from typing import Final

from logdrive.model.units import MIB

FLIGHT_APPENDS: Final = 32  # in flight at most
FLIGHT_BYTES: Final = 8 * MIB  # metered, in flight at most
_TRAIN_SECONDS: Final = 1.0  # of a train of a writer that is alone
_SHARED_SECONDS: Final = 10.0  # after a conflict, until a writer counts as alone again
_REST_SECONDS: Final = 0.01  # the longest rest after a train
_PATIENT_CONFLICTS: Final = 8  # in a row that are tried again at once


class Pace:
    """Decides on appends of one sink; times are seconds of a monotonic clock."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._allowed = FLIGHT_APPENDS
        self._conflicts = 0  # in a row
        self._shared_until = 0.0
        self._train_began: float | None = None
        self._train = 0  # appends of this train

    def train_ended(self, now: float) -> bool:
        """Whether no more may be sent before all is acknowledged."""
        if self._train_began is None:
            return False
        if now < self._shared_until:
            return self._train >= self._allowed
        return now - self._train_began >= _TRAIN_SECONDS

    def on_sent(self, now: float) -> None:
        """Count an append."""
        if self._train_began is None:
            self._train_began = now
        self._train += 1

    def on_acknowledged(self, in_flight: int) -> None:
        """Count an acknowledgement; *in_flight* appends are left, none at the end of a train."""
        self._conflicts = 0
        if in_flight == 0:
            self._allowed = min(FLIGHT_APPENDS, self._allowed + 1)
            self._end_train()

    def on_lost(self) -> None:
        """Note that nothing is in flight any more."""
        self._end_train()

    def _end_train(self) -> None:
        self._train_began, self._train = None, 0

    def on_conflict(self, now: float) -> float:
        """Count an append that another writer overtook; return the seconds to wait."""
        self._end_train()
        self._conflicts += 1
        self._allowed = max(1, self._allowed // 2)
        self._shared_until = now + _SHARED_SECONDS
        if self._conflicts <= _PATIENT_CONFLICTS:
            return 0.0
        return self._random.uniform(0, 2 * _REST_SECONDS)

    def may_fly(self, in_flight: int, size: int) -> bool:
        """Whether another append may follow *in_flight* ones of *size* metered bytes together."""
        return in_flight < self._allowed and size < FLIGHT_BYTES

    def rest_seconds(self, now: float) -> float:
        """Return the seconds to rest after a train."""
        most = _REST_SECONDS if now < self._shared_until else _REST_SECONDS / 2
        return self._random.uniform(most / 2, most)
