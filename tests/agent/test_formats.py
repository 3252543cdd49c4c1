"""Formats from the agent's files to rows of the tables, over each dialect; files rotate, the agent
restarts, receivers come and go (R1, R2, D8).
"""

import asyncio

import orjson
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from tests.agent.test_dialect_v1 import v1_world
from tests.agent.test_dialects import plain_world
from tests.agent.world import LOG, World
from tests.receiver.world import configuration, receiver, stored
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

FIELDS = {"level": "info", "order": {"id": 7, "lines": [1, 2]}, "message": "placed"}
DROP = [{"exclude": {"pattern": "noise"}}]


def json_lines(start: int, count: int) -> bytes:
    """Return numbered lines of JSON, among them some of another form, and some to drop."""
    found = []
    for number in range(start, start + count):
        found.append(orjson.dumps(FIELDS | {"n": number}))
        if number % 10 == 3:
            found.append(b"no JSON \xff %d\r" % number)
        if number % 10 == 5:
            found.append(orjson.dumps({"noise": number}))
    return b"".join(line + b"\n" for line in found)


def kept(data: bytes) -> bytes:
    """Return what is left of *data*."""
    return b"".join(line for line in data.splitlines(keepends=True) if b"noise" not in line)


async def rows_of(disk: MemoryDisk) -> tuple[pa.Table, list[BatchRow]]:
    """Return the rows of what a receiver has stored on *disk*."""
    tables, batches = [], list[BatchRow]()
    for number, segment in enumerate(await stored(disk)):
        decoder = Decoder("logs/events")
        decoder.decode_batches(f"logs/events/{number}", 0, segment)
        table, some = decoder.take_tables()
        tables.append(table)
        batches += some
    return pa.concat_tables(tables).unify_dictionaries(), batches


def judge(table: pa.Table, batches: list[BatchRow], data: bytes) -> None:
    """Check that the rows are *data* without what was dropped, and have the fields."""
    pieces = list(rebuild(table))
    assert b"".join(piece for _, piece in pieces) == kept(data)
    assert all(data[at : at + len(piece)] == piece for at, piece in pieces)
    told = [batch for batch in batches if batch.kind == "data"]
    assert sum(batch.skipped for batch in told) == len(data) - len(kept(data))
    for batch in told:
        assert sum(end - start for start, end in batch.dropped) == batch.skipped
        assert batch.rows == batch.events
    assert set(table["flag"].to_pylist()) == {None}
    numbers = set()
    for row in table.to_pylist():
        fields = orjson.loads(row["fields"] or "{}")
        if row["message"].startswith("{"):
            assert (fields["level"], fields["order"]) == ("info", FIELDS["order"])
            assert fields["fields"]["message"] == "placed"
            numbers.add(fields["n"])
        else:
            assert fields["error"] == {"message": "not json", "type": "json"}
    assert len(numbers) == data.count(b'"level"')


@pytest.mark.parametrize("records", ["packed", "full", "block"])
@pytest.mark.parametrize("unpack", ["no", "blocks", "full"])
def test_rows_have_the_fields_of_lines_and_the_bytes_of_the_file__R1_R2(
    records: str, unpack: str
) -> None:
    async def main() -> None:
        world = World(format="json", processor=DROP)
        world.settings["output"] |= {"hosts": ["receiver:5044"], "records": records}
        data, disk = json_lines(0, 3000), MemoryDisk()
        config = configuration(tls="off", unpack=unpack)
        async with receiver(network=world.network, disk=disk, config=config):
            world.write(data[:100_000])
            world.start()
            await world.settle()
            await world.kill()
            world.write(data[100_000:])
            world.start()
            await world.settle()
            # nothing is left of these lines but their places
            world.write(b'{"noise":1}\n' * 100)
            await world.settle()
            await world.stop()
        table, batches = await rows_of(disk)
        judge(table, batches, data + b'{"noise":1}\n' * 100)

    run(main())


def test_a_receiver_that_dies_gets_each_event_once__D3() -> None:
    async def main() -> None:
        world, disk = World(3, format="auto", processor=DROP), MemoryDisk()
        world.settings["output"] |= {"hosts": ["receiver:5044"], "windows_in_flight": 2}
        data = json_lines(0, 6000)
        world.start()
        for turn in range(6):
            config = configuration(tls="off")
            async with receiver(network=world.network, disk=disk, config=config) as real:
                world.write(data[turn * len(data) // 6 : (turn + 1) * len(data) // 6])
                await world.settle()
                if turn < 5:
                    await real.crash()
                    disk = disk.killed()
                else:
                    await world.stop()
        table, batches = await rows_of(disk)
        pieces = list(rebuild(table))
        assert b"".join(piece for _, piece in pieces) == kept(data)
        assert sum(batch.skipped for batch in batches) == len(data) - len(kept(data))

    run(main())


def test_lumberjack_2_carries_fields_as_json() -> None:
    async def main() -> None:
        world, model = await plain_world()
        world.settings["input"][0] |= {"format": "json", "processor": DROP}
        data = json_lines(0, 200)
        world.write(data)
        agent = world.start()
        await world.settle()
        events = model.events[LOG]
        assert len(events) == len(kept(data).splitlines())
        assert events[0]["order"] == FIELDS["order"]
        assert events[0]["fields"]["message"] == "placed"
        assert events[0]["message"].startswith('{"level"')
        # nothing is sent where nothing is left, and the next line is
        world.write(b'{"noise":1}\n')
        await world.settle()
        world.write(b'{"last":1}\n')
        await world.settle()
        assert len(events) == len(kept(data).splitlines()) + 1
        assert [one.position for one in agent.registry.sources] == [len(data) + 12 + 11]
        await world.stop()

    run(main())


def test_lumberjack_1_carries_fields_as_pairs_with_dots() -> None:
    async def main() -> None:
        world, model = await v1_world()
        world.settings["input"][0] |= {"format": "json", "fields": {"n": "label"}}
        data = json_lines(0, 50)
        many = b"{%b}\n" % b",".join(b'"%d":1' % n for n in range(PLAIN_LUMBERJACK.pairs))
        world.write(data + many)
        world.start()
        await world.settle()
        assert model.faults == []
        assert model.content(LOG) == data + many
        first, last = model.events[LOG][0], model.events[LOG][-1]
        assert (first["order.id"], first["order.lines"], first["level"]) == ("7", "[1,2]", "info")
        assert (first["n"], first["fields.n"], first["fields.message"]) == ("label", "0", "placed")
        assert last["error.type"] == "limit"
        await world.stop()

    run(main())


def test_auto_says_once_what_it_found_and_finds_the_same_after_a_restart() -> None:
    async def main() -> None:
        world, disk = World(format="auto"), MemoryDisk()
        world.settings["output"]["hosts"] = ["receiver:5044"]
        # the first lines are JSON: so a later one with pairs is a bad line, before and after
        odd = b"a=1 b=2\n"
        data = json_lines(0, 300)
        async with receiver(network=world.network, disk=disk, config=configuration(tls="off")):
            world.write(odd + data)
            with capture_logs() as logs:
                world.start()
                await world.settle()
                world.write(odd + json_lines(300, 10))
                await world.settle()
                assert world.agent is not None
                (status,) = world.agent.status().sources
                # what was read as logfmt at the beginning of the file was read, too
                found = status.format, status.parsed, status.failed
                assert found == ("json", 1 + 330 + 11, 30 + 1 + 1)
                await world.stop()
                world.write(odd)
                world.start()
                await world.settle()
                await world.stop()
        assert [entry for entry in logs if entry["event"] == "format recognised"] == [
            {"event": "format recognised", "log_level": "info", "path": LOG, "format": "json"}
        ] * 2
        table, _ = await rows_of(disk)
        rows = [row for row in table.to_pylist() if row["message"] == "a=1 b=2"]
        fields = [orjson.loads(row["fields"]) for row in sorted(rows, key=lambda row: row["start"])]
        error = {"error": {"message": "not json", "type": "json"}}
        assert fields == [{"a": "1", "b": "2"}, error, error]

    run(main())


def test_runs_that_wait_have_their_fields_in_another_dialect__D8() -> None:
    async def main() -> None:
        world, model = await plain_world()
        world.settings["input"][0] |= {"format": "json", "processor": DROP}
        data = json_lines(0, 200)
        model.acknowledge, model.forgetful = False, True
        world.write(data)
        agent = world.start()
        await asyncio.sleep(20)
        world.disk.remove(LOG)
        await asyncio.sleep(200)
        (source,) = (one for one in agent.registry.sources if one.unacknowledged)
        assert source.ended is not None
        model.acknowledge = True
        await world.settle(600)
        assert [event["n"] for event in model.events[LOG] if "n" in event] == list(range(200))
        await world.stop()

    run(main())


def test_lines_of_a_container_that_take_turns_are_whole_messages_in_their_places() -> None:
    async def main() -> None:
        world = World(format={"type": "cri", "content": "json"})
        world.settings["output"]["hosts"] = ["receiver:5044"]
        disk, at = MemoryDisk(), "2016-10-06T00:17:09.000000000Z"
        data = b"".join(
            f"{at} {line}\n".encode()
            for number in range(3000)
            for line in (
                f'stdout P {{"n":{number},',
                f'stderr F {{"e":{number}}}',
                'stdout F "last":true}',
            )
        )
        async with receiver(network=world.network, disk=disk, config=configuration(tls="off")):
            world.write(data)
            world.start()
            await world.settle()
            await world.stop()
        table, batches = await rows_of(disk)
        assert b"".join(piece for _, piece in rebuild(table)) == data
        assert set(table["flag"].to_pylist()) == {None}
        assert sum(batch.skipped for batch in batches) == 0
        fields = [orjson.loads(text) for text in table["fields"].to_pylist()]
        assert sorted(one["n"] for one in fields if "n" in one) == list(range(3000))
        assert sorted(one["e"] for one in fields if "e" in one) == list(range(3000))
        assert {one["stream"] for one in fields} == {"stdout", "stderr"}
        assert all("error" not in one and "partial" not in one for one in fields)

    run(main())


@pytest.mark.parametrize("form", ["cri", "docker", "auto"])
def test_what_a_rotation_cuts_of_a_container_s_line_is_still_what_the_container_wrote(
    form: str,
) -> None:
    async def main() -> None:
        world = World(format={"type": form}, processor=[{"exclude": {"pattern": "^DEBUG"}}])
        world.settings["output"]["hosts"] = ["receiver:5044"]
        disk, at = MemoryDisk(), "2016-10-06T00:17:09.000000000Z"

        def line(text: str, *, whole: bool) -> bytes:
            if form == "docker":
                log = text + "\n" * whole
                return orjson.dumps({"log": log, "stream": "stdout", "time": at}) + b"\n"
            return f"{at} stdout {'PF'[whole]} {text}\n".encode()

        old = line("one", whole=True) + line("DEBUG a", whole=False)
        other = line("two", whole=True) + line("first half, ", whole=False)
        async with receiver(network=world.network, disk=disk, config=configuration(tls="off")):
            world.write(other)
            world.write(old, "/logs/other.log")
            world.start()
            await world.settle()
            for path in (LOG, "/logs/other.log"):
                world.disk.replace(path, f"{path}.1")
                world.write(line("second half", whole=True), path)
            await world.clock.sleep(60)
            await world.settle()
            await world.stop()
        table, _ = await rows_of(disk)
        rows = sorted(zip(table["message"].to_pylist(), table["fields"].to_pylist(), strict=True))
        assert [message for message, _ in rows] == [
            "first half, ",
            "one",
            "second half",
            "second half",
            "two",
        ]
        cut = orjson.loads(rows[0][1])
        assert (cut["stream"], cut["partial"], cut["log"]) == (
            "stdout",
            True,
            {"flags": ["partial"]},
        )
        of_other = [row["source"] for row in table.to_pylist() if row["message"] == "two"]
        rows_of_other = table.filter(pa.compute.field("source") == of_other[0])
        assert b"".join(piece for _, piece in rebuild(rows_of_other)) == other

    run(main())
