"""The registry of the Iggy face: its own state, durable, and changed by one task at a time."""

from logdrive.model.units import MIB
from logdrive.services.iggy.server.state.records import SEGMENT, IggyPut, decode_iggy_puts
from logdrive.services.iggy.server.state.tables import IggyState
from logdrive.store.engine import Store
from logdrive.store.journal import JournaledState, SegmentJournal
from logdrive.wire.iggy.errors import IggyError


class IggyRegistry(JournaledState[IggyState, IggyPut]):
    """What only Iggy knows of the streams of *store*, which must run meanwhile, and its users.

    An `IggyError` in a turn leaves everything as it was.
    """

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        journal: SegmentJournal[IggyState, IggyPut] = SegmentJournal(
            store, SEGMENT, new_state=IggyState, decode=decode_iggy_puts, slack=slack
        )
        super().__init__(journal, refusal=IggyError)
