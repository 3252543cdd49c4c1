"""Opens every pack that a stream still has, and compares it with its header (rule R8).

The audit of the tables reads rows alone. This one reads the stream: it finds packs that went bad
where they are stored, and those that lie before they are read into tables.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from logdrive.model.framing import EVENT_HEAD
from logdrive.pipeline.decode.batches import place_batches
from logdrive.services.reader import SegmentState, ServiceReader
from logdrive.services.stored_packs import StoredPacks

ProgressReport = Callable[[int, int], None]
"""Called with how much of the stream was read, and how much there is, in what its offsets count."""


def audit_packs(
    stream: ServiceReader,
    segments: Sequence[SegmentState],
    on_progress: ProgressReport = lambda _, __: None,
) -> StoredPacks:
    """Open every pack in *segments* of *stream*, as far as they reach; return what was found.

    Takes memory for a few MiB and the content of one pack. Raises `TransientError` if the service
    stays away, and `StorageError` where no batch is.
    """
    packs, done = StoredPacks(), 0
    whole = sum(state.length - state.start for state in segments)
    for state in segments:
        at, rest = state.start, b""
        for _, chunk in stream.read_chunks(state.segment, state.start, state.length):
            # a chunk may end inside a batch: that part is looked at with the next chunk
            data, used, before = rest + chunk, 0, at
            for batch, start, end in place_batches(state.segment, at, data, stream.offset_unit):
                if batch.header is not None and batch.header.form is not UNSET:
                    packs.look_at_pack(state.segment, batch, data[start + EVENT_HEAD : end])
                at, used = batch.next, end
            rest = data[used:]
            done += at - before
            on_progress(done, whole)
    return packs
