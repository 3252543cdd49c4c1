"""The registry of the S2 face: its own state, durable, and changed by one task at a time."""

from logdrive.model.units import MIB
from logdrive.services.s2.server.state import SEGMENT, S2Put, S2State, decode_puts
from logdrive.store.engine import Store
from logdrive.store.journal import JournaledState, SegmentJournal
from logdrive.wire.s2.errors import S2Error


class Registry(JournaledState[S2State, S2Put]):
    """The state of basins, streams and access tokens of *store*, which must run meanwhile.

    An `S2Error` in a turn leaves everything as it was.
    """

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        journal: SegmentJournal[S2State, S2Put] = SegmentJournal(
            store, SEGMENT, new_state=S2State, decode=decode_puts, slack=slack
        )
        super().__init__(journal, refusal=S2Error)
