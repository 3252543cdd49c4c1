"""The store's own segments, which clients may read and not change."""

from uuid import UUID

import pytest

from logdrive.services.pravega.server.segments.reserved import reserved_segment_changed_by
from logdrive.wire.pravega.appends import SetupAppend
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import CreateSegment, DeleteSegment, ReadSegment

OWN = [
    "_system/_controller/0.#epoch.0",
    "_system/_s2/0.#epoch.0",
    "_system/_s2-index/logs/app/0.#epoch.0",
]


@pytest.mark.parametrize("segment", OWN)
def test_clients_may_read_the_stores_own_segments_and_change_none(segment: str) -> None:
    assert reserved_segment_changed_by(ReadSegment(segment, 0, 10)) is None
    assert reserved_segment_changed_by(LocateAppends(1, segment, 0, 10, 0)) is None
    for message in (
        SetupAppend(1, UUID(int=1), segment),
        CreateSegment(1, segment),
        DeleteSegment(1, segment),
    ):
        assert reserved_segment_changed_by(message) == segment


def test_other_segments_are_nobodys() -> None:
    assert reserved_segment_changed_by(DeleteSegment(1, "logs/_s2/0.#epoch.0")) is None
