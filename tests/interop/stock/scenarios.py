"""What users of the PyPI client `pravega` do, one scenario a process: it has one runtime a process,
and threads that nothing interrupts.

    python -m tests.interop.stock.scenarios SCENARIO tcp://127.0.0.1:9090 [ARGUMENT …]

Each prints one JSON value, last.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pravega_client

SCOPE, STREAM = "users", "events"
_PATIENCE_SECONDS = 120.0


def manager_of(uri: str) -> Any:
    asked = {"auth_enabled": True} if os.environ.get("pravega_client_auth_username") else {}  # noqa: SIM112 - as the client reads it
    return pravega_client.StreamManager(
        uri, **asked, **({"tls_enabled": True} if uri.startswith("tls:") else {})
    )


def made(uri: str, segments: int, stream: str = STREAM) -> Any:
    manager = manager_of(uri)
    manager.create_scope(SCOPE)
    manager.create_stream(SCOPE, stream, segments)
    return manager


def numbered(manager: Any, keys: int, start: int, end: int) -> None:
    """Write events "key number" in turn to all keys."""
    writer = manager.create_writer(SCOPE, STREAM)
    for number in range(start, end):
        for key in range(keys):
            writer.write_event(f"{key} {number}", routing_key=f"key-{key}")
    writer.flush()


async def taken(reader: Any, wanted: int) -> list[str]:
    """Read until *wanted* events are there, or nothing more comes."""
    events: list[str] = []
    until = time.monotonic() + _PATIENCE_SECONDS
    while len(events) < wanted and time.monotonic() < until:
        piece = await asyncio.wait_for(reader.get_segment_slice_async(), _PATIENCE_SECONDS)
        events += [event.data().decode() for event in piece or ()]
        if piece is not None:
            reader.release_segment(piece)
    return events


def write(uri: str, segments: str, keys: str, start: str, end: str) -> None:
    numbered(made(uri, int(segments)), int(keys), int(start), int(end))


def read(uri: str, group: str, wanted: str) -> list[str]:
    manager = manager_of(uri)
    reader = manager.create_reader_group(group, SCOPE, STREAM).create_reader("one")
    return asyncio.run(taken(reader, int(wanted)))


def administer(uri: str) -> list[Any]:
    manager = manager_of(uri)
    results: list[Any] = [manager.create_scope(SCOPE), manager.create_scope(SCOPE)]
    scaling = pravega_client.StreamScalingPolicy.auto_scaling_policy_by_data_rate(10, 2, 2)
    retention = pravega_client.StreamRetentionPolicy.by_size(10 << 30)
    results += [
        manager.create_stream_with_policy(SCOPE, STREAM, scaling, retention, ["t1"]),
        manager.create_stream(SCOPE, STREAM, 1),
    ]
    results += [
        manager.get_stream_tags(SCOPE, STREAM),
        manager.update_stream_with_policy(SCOPE, STREAM, scaling, retention, ["t2", "t3"]),
    ]
    results += [
        manager.get_stream_tags(SCOPE, STREAM),
        manager.list_scope(),
        manager.list_stream(SCOPE),
        manager.list_stream("none"),
    ]
    results += [
        manager.seal_stream(SCOPE, STREAM),
        manager.delete_stream(SCOPE, STREAM),
        manager.delete_scope(SCOPE),
    ]
    return results


def handed_over(uri: str) -> list[list[str]]:
    """One reader takes a slice, reads a part, gives it back and leaves; another joins, lags behind,
    and reads the rest.
    """

    async def main() -> list[list[str]]:
        manager = made(uri, 2)
        numbered(manager, 4, 0, 25)
        group = manager.create_reader_group("group", SCOPE, STREAM)
        first = group.create_reader("first")
        piece = await asyncio.wait_for(first.get_segment_slice_async(), _PATIENCE_SECONDS)
        parts = [[next(piece).data().decode() for _ in range(3)]]
        first.release_segment(piece)
        first.reader_offline()
        second = group.create_reader("second")
        parts.append(await taken(second, 97))
        numbered(manager, 4, 25, 50)
        parts.append(await taken(second, 100))
        second.reader_offline()
        return parts

    return asyncio.run(main())


def bytes_of(uri: str) -> list[Any]:
    manager = made(uri, 1)  # its end would be the client's
    stream = manager.create_byte_stream(SCOPE, STREAM)
    results: list[Any] = [stream.write(b"bytesfortesting") for _ in range(3)]
    stream.flush()
    results.append(stream.current_tail_offset())
    buffer = bytearray(10)
    results += [stream.readinto(buffer), buffer.decode(), stream.tell()]
    stream.seek(-10, 2)
    results += [stream.readinto(buffer), buffer.decode()]
    stream.truncate(20)
    results += [stream.current_head_offset(), stream.current_tail_offset()]
    return results


def transactions(uri: str) -> list[Any]:
    manager = made(uri, 2)
    writer = manager.create_transaction_writer(SCOPE, STREAM, 1)
    results: list[Any] = []
    first = writer.begin_txn()
    for number in range(20):
        first.write_event(f"kept {number}", routing_key=f"key-{number % 4}")
    results.append(first.is_open())
    first.commit()
    results += [first.is_open(), writer.get_txn(first.get_txn_id()).is_open()]
    second = writer.begin_txn()
    second.write_event("dropped")
    second.abort()
    results.append(second.is_open())
    for act in (lambda: first.write_event("late"), first.commit, first.abort):
        try:
            act()
            results.append("no error")
        except pravega_client.TxnFailedException:
            results.append("refused")
    return results


def committed(uri: str, keys: str, count: str) -> None:
    """Write *count* transactions of one event a key, and abort as many others in between."""
    manager = made(uri, 2)
    writer = manager.create_transaction_writer(SCOPE, STREAM, 1)
    for number in range(int(count)):
        for kept in (True, False):
            transaction = writer.begin_txn()
            for key in range(int(keys)):
                transaction.write_event(f"{key} {number if kept else -1}", routing_key=f"key-{key}")
            if kept:
                transaction.commit()
            else:
                transaction.abort()


def shared(uri: str, group: str, name: str, wanted: str, beside: str) -> list[str]:
    """Read as *name* until all readers of the group have *wanted* events: each tells how many it
    has in a file of *beside*.
    """

    async def main() -> list[str]:
        manager = manager_of(uri)
        reader = manager.create_reader_group(group, SCOPE, STREAM).create_reader(name)
        events: list[str] = []
        until = time.monotonic() + _PATIENCE_SECONDS
        while counted(Path(beside)) < int(wanted) and time.monotonic() < until:
            reading = asyncio.ensure_future(reader.get_segment_slice_async())
            while not reading.done() and counted(Path(beside)) < int(wanted):
                await asyncio.wait([reading], timeout=0.2)
            if not reading.done():
                break
            piece = reading.result()
            events += [event.data().decode() for event in piece or ()]
            Path(beside, name).write_text(str(len(events)))
            if piece is not None:
                reader.release_segment(piece)
        return events

    return asyncio.run(main())


def counted(directory: Path) -> int:
    """Return how many events all readers together have."""
    return sum(int(file.read_text() or 0) for file in directory.iterdir())


def large(uri: str, mebibytes: str) -> list[int]:
    manager = made(uri, 1)
    writer = manager.create_writer(SCOPE, STREAM)
    writer.write_event("before")
    writer.write_event_bytes(b"x" * (int(mebibytes) << 20))
    writer.write_event("after")
    writer.flush()
    reader = manager.create_reader_group("group", SCOPE, STREAM).create_reader("one")
    return [len(event) for event in asyncio.run(taken(reader, 3))]


def sealed(uri: str) -> list[Any]:
    manager = made(uri, 1)
    writer = manager.create_writer(SCOPE, STREAM)
    writer.write_event("one", routing_key="key")
    writer.flush()
    results: list[Any] = [manager.seal_stream(SCOPE, STREAM)]
    try:
        writer.write_event("two", routing_key="key")
        writer.flush()
        results.append("no error")
    except Exception:
        results.append("refused")
    reader = manager.create_reader_group("group", SCOPE, STREAM).create_reader("one")
    results += asyncio.run(taken(reader, 1))
    return [*results, manager.delete_stream(SCOPE, STREAM)]


def intruded(uri: str) -> list[str]:
    """Try what a user who may only read may not do."""
    manager, results = manager_of(uri), []
    acts: list[Callable[[], Any]] = [
        lambda: manager.create_stream(SCOPE, "another", 1),
        lambda: manager.seal_stream(SCOPE, STREAM),
    ]
    for act in acts:
        try:
            act()
            results.append("no error")
        except Exception as error:
            results.append("refused" if "PermissionDenied" in str(error) else str(error))
    writer = manager.create_writer(SCOPE, STREAM)
    try:
        writer.write_event("late", routing_key="key-0")
        writer.flush()
        results.append("no error")
    except Exception:
        results.append("refused")
    return results


def lingered(uri: str, seconds: str) -> list[str]:
    """Write, wait until every token has ended, and go on with the same writer."""
    manager = made(uri, 1)
    writer = manager.create_writer(SCOPE, STREAM)
    for turn in range(2):
        for number in range(10):
            writer.write_event(f"0 {turn * 10 + number}", routing_key="key")
        writer.flush()
        time.sleep(float(seconds) if not turn else 0)
    return asyncio.run(
        taken(manager.create_reader_group("group", SCOPE, STREAM).create_reader("one"), 20)
    )


_ALL = (
    write,
    read,
    administer,
    handed_over,
    bytes_of,
    transactions,
    committed,
    shared,
    large,
    sealed,
    intruded,
    lingered,
)
SCENARIOS: dict[str, Callable[..., Any]] = {found.__name__: found for found in _ALL}


def main() -> None:
    name, *arguments = sys.argv[1:]
    # on a line of its own: the client writes its log there, too
    print("\n" + json.dumps(SCENARIOS[name](*arguments)), flush=True)
    os._exit(0)  # the client's threads now and then abort an interpreter that ends while they run


if __name__ == "__main__":
    main()
