"""The state that all connections of one segment store share."""

from dataclasses import dataclass
from random import Random

from logdrive.host.heap import Heap
from logdrive.net.turns import Turns
from logdrive.services.face_memory import FaceMemoryBudget
from logdrive.services.pravega.server.segments.compaction import Compactor
from logdrive.services.pravega.server.segments.fencing import WriterFence
from logdrive.services.pravega.server.segments.merging import Merger
from logdrive.services.pravega.server.segments.transients import Transients
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.store.engine import Store
from logdrive.store.store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class SharedState:
    """A store, and what is kept in memory beside it."""

    store: Store
    writer_fence: WriterFence
    tables: Tables
    compactor: Compactor
    merger: Merger
    transients: Transients
    turns: Turns
    memory: FaceMemoryBudget
    files: StoreFiles | None
    """Where clients on this host find the store's files; None if they are not to look."""


def new_shared_state(
    store: Store, random: Random, held_bytes: int, files: StoreFiles | None
) -> SharedState:
    """Return the shared state of a new segment store; see `SegmentStoreServer`."""
    tables = Tables(store)
    return SharedState(
        store,
        WriterFence(),
        tables,
        Compactor(tables),
        Merger(store),
        Transients(store, random),
        Turns(),
        FaceMemoryBudget(held_bytes, Heap()),
        files,
    )
