"""Appends: numbers, times, conditions, commands."""

from logdrive.wire.s2.records import (
    AppendAck,
    StreamPosition,
)
from tests.logdrive.services.s2.server.log.harness import bodies, records, stream
from tests.support.virtual_time import EPOCH_MS, run


def test_appends_are_numbered_from_0_and_read_back() -> None:
    async def main() -> None:
        async with stream() as (log, _):
            assert log.tail() == StreamPosition(0, 0)
            ack = await log.submit(bodies(b"a"))
            assert ack == AppendAck(
                StreamPosition(0, EPOCH_MS),
                StreamPosition(1, EPOCH_MS),
                StreamPosition(1, EPOCH_MS),
            )
            ack = await log.submit(bodies(b"b", b""))
            assert (ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num) == (1, 3, 3)
            found = await records(log)
            assert [(r.seq_num, r.timestamp, r.headers, r.body) for r in found] == [
                (0, EPOCH_MS, (), b"a"),
                (1, EPOCH_MS, (), b"b"),
                (2, EPOCH_MS, (), b""),
            ]

    run(main())
