"""Strategies of S2's values, for tests of several modules."""

from collections.abc import Callable

from hypothesis import strategies as st

from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.limits import U64_MAX
from logdrive.wire.s2.records import (
    AppendAck,
    AppendInput,
    ReadBatch,
    Record,
    SequencedRecord,
    StreamPosition,
)

u64s = st.integers(0, U64_MAX) | st.integers(0, 300)
bodies = st.binary(max_size=300)
headers = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=200)), max_size=4).map(
    tuple
)
positions = st.builds(StreamPosition, u64s, u64s)
records = st.builds(Record, bodies, headers, st.none() | u64s)
inputs = st.builds(
    AppendInput,
    st.lists(records, min_size=1, max_size=5).map(tuple),
    st.none() | u64s,
    st.none() | st.text(max_size=9),
)
acks = st.builds(AppendAck, positions, positions, positions)
sequenced = st.builds(SequencedRecord, u64s, u64s, headers, bodies)
batches = st.builds(ReadBatch, st.lists(sequenced, max_size=5).map(tuple), st.none() | positions)

text_bytes = st.text(max_size=40).map(str.encode)
text_headers = st.lists(st.tuples(text_bytes, text_bytes), max_size=3).map(tuple)
text_inputs = st.builds(
    AppendInput,
    st.lists(
        st.builds(Record, text_bytes, text_headers, st.none() | u64s), min_size=1, max_size=5
    ).map(tuple),
    st.none() | u64s,
    st.none() | st.text(max_size=9),
)
"""Appends that lose nothing as text."""


def refusal(call: Callable[..., object], *args: object) -> tuple[int, str | None] | None:
    """Return status and code of the `S2Error` that *call* with *args* raises, else None."""
    try:
        call(*args)
    except S2Error as error:
        return error.status, error.code
    return None
