"""A key selects the partition that the real servers and clients select."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.iggy.identifiers import ByKey
from logdrive.wire.iggy.messages.decode import decode_polled
from logdrive.wire.iggy.messages.hashing import partition_of_key
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.messages.samples import recorded_polls, recorded_sends


def test_keys_select_the_partitions_that_the_first_server_selected() -> None:
    polled = [
        (reply.partition, message.payload)
        for label, revision, reply in recorded_polls()
        if label.startswith("server-r0-log")
        for message in decode_polled(revision, b"".join([reply.batches]))  # type: ignore[list-item]
    ]
    keys = {
        send.request.partitioning.key
        for send in recorded_sends()
        if send.label.startswith("server-r0-log") and isinstance(send.request.partitioning, ByKey)
    }
    assert len(keys) == 4
    for key in keys:  # the payload of each was its key
        assert {where for where, payload in polled if payload == key} == {
            partition_of_key(Revision.R0, key, 2)
        }


def test_keys_select_the_partitions_that_the_newest_client_selects() -> None:
    # XXH32 of the key, as the client for Python computes it: 3255428072
    assert partition_of_key(Revision.R3, b"order-1", 2) == 0
    assert partition_of_key(Revision.R2C, b"order-1", 1000) == 72
    # where partitions are counted from 1, the remainder is the number
    assert partition_of_key(Revision.R1, b"order-1", 1000) == 71
    assert partition_of_key(Revision.R1, b"order-1", 8) == 7  # 0 is the last one


@pytest.mark.parametrize("revision", list(Revision))
@given(key=st.binary(min_size=1, max_size=255), partitions=st.integers(1, 1000))
def test_a_key_selects_one_of_the_partitions(
    revision: Revision, key: bytes, partitions: int
) -> None:
    assert 0 <= partition_of_key(revision, key, partitions) < partitions
    assert partition_of_key(revision, key, 1) == 0
