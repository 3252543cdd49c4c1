"""A process to be killed: appends numbered records to a real store, and prints acknowledged ones.

`python -m tests.logdrive.store.appender DIRECTORY COUNT`: each of two writers goes on from its
durable number, with eight appends in flight, for COUNT records. Other appends are soon truncated,
so that log files are reclaimed. The first line is `recovered …`; then comes `WRITER NUMBER` for
each acknowledgement.
"""

import asyncio
import os
import sys
from collections import deque
from uuid import UUID

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits

SEGMENT = "kill/test/0.#epoch.0"
PASSING = "kill/passing/0.#epoch.0"
WRITERS = (UUID(int=1), UUID(int=2))
LIMITS = StoreLimits(log_file=20_000)


def record(writer: UUID, number: int) -> bytes:
    """Return record *number* of a writer: lengths vary, and no sequence of others equals it."""
    return b"<%d:%d:%s>" % (writer.int, number, b"x" * (number * 37 % 500))


async def main(directory: str, count: int) -> None:
    executor = ThreadExecutor("sync")
    store = await Store.open(
        directory, disk=SystemDisk(), executor=executor, clock=SystemClock(), limits=LIMITS
    )
    print(f"recovered {store.recovery}", flush=True)
    running = asyncio.create_task(store.run(asyncio.Event()))
    await store.create(SEGMENT)
    await store.create(PASSING)
    numbers = {writer: max(0, await store.number(SEGMENT, writer)) for writer in WRITERS}
    in_flight: deque[tuple[UUID, int, asyncio.Future[int]]] = deque()
    for turn in range(count):
        writer = WRITERS[turn % 2]
        numbers[writer] += 1
        number = numbers[writer]
        data = [record(writer, number)[:5], record(writer, number)[5:]]
        submitted = store.submitted_number(SEGMENT, writer)
        in_flight.append(
            (
                writer,
                number,
                store.append(
                    SEGMENT, data, writer=writer, expected=submitted, number=number, events=1
                ),
            )
        )
        await _pass(store, turn)
        if len(in_flight) == 8:
            await _acknowledge(in_flight)
    while in_flight:
        await _acknowledge(in_flight)
    await store.close()
    await running
    executor.close()


async def _pass(store: Store, turn: int) -> None:
    """Append what is truncated soon, and from time to time truncate all of it."""
    number = max(0, store.submitted_number(PASSING, WRITERS[0])) + 1
    length = store.append(
        PASSING, bytes(2000), writer=WRITERS[0], expected=None, number=number, events=1
    )
    if turn % 10 == 9:
        await store.truncate(PASSING, await length)


async def _acknowledge(in_flight: "deque[tuple[UUID, int, asyncio.Future[int]]]") -> None:
    writer, number, future = in_flight.popleft()
    await future
    os.write(1, b"%d %d\n" % (writer.int, number))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
