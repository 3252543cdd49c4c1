"""What was submitted, as callers see it before it is durable."""

import pytest

from logdrive.store.errors import NoSuchSegmentError
from tests.logdrive.store.harness import SEGMENT, running, submit
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run


def test_the_submitted_length_counts_what_is_pending_and_an_incarnation_never_comes_again() -> None:
    async def main() -> None:
        async with running(MemoryDisk()) as store:
            await store.create(SEGMENT)
            first = store.incarnation(SEGMENT)
            pending = submit(store, b"abc", 1)
            assert store.submitted_length(SEGMENT) == 3
            info = store.info(SEGMENT)
            assert info is not None
            assert info.length == 0
            assert await pending == 3
            await store.delete(SEGMENT)
            with pytest.raises(NoSuchSegmentError):
                store.submitted_length(SEGMENT)
            await store.create(SEGMENT)
            assert store.incarnation(SEGMENT) != first

    run(main())
