"""Packs: which receivers get them, what the others get, and lines longer than a read (R8, D8)."""

import random
from collections.abc import Callable
from typing import Literal

import msgspec
import pytest
from structlog.testing import capture_logs

from agent.check import check_agent
from agent.config.config import AgentConfig
from agent.sources.source import Source
from logdrive.host.transport import ServerTls
from logdrive.model.limits import PACK_BYTES
from logdrive.model.numbers import position_of
from logdrive.model.units import KIB, MIB
from logdrive.records.pack_sizes import LARGE_TEXT_BYTES, TEXT_BYTES
from logdrive.records.run_pack import RunPack
from tests.agent.test_auto import tls_with
from tests.agent.test_dialects import TLS, PlainModel
from tests.agent.test_ship import shipped
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

Answer = Literal["taken", "refused", "hung up on"]

_PACKED = tls_with("logdrive/1.1", "logdrive/1")
_BEFORE_PACKS = tls_with("logdrive/1")
_REMEMBERED_SECONDS = 600


async def reader(
    world: World, tls: ServerTls | None, packs: Answer = "taken", name: str = "reader"
) -> ReaderModel:
    """Start a receiver that agrees on what *tls* says, and does with packs what *packs* says."""
    if tls is not None:
        world.settings["output"]["tls"] = TLS
    model = world.readers.get(name) or ReaderModel(name)
    model.packs = packs
    world.readers[name] = model
    host = world.network.host(name, identity=f"dns:{name}")
    await host.listen("0.0.0.0", 5044, tls, model.accept)
    return model


@pytest.mark.parametrize("compression", ["zlib", "zstd", "none"])
@pytest.mark.parametrize(
    ("tls", "packs", "reason"),
    [
        (_PACKED, True, "agreed on in the TLS handshake"),
        (_BEFORE_PACKS, False, "agreed on in the TLS handshake, without packs"),
        (None, True, "configured"),
    ],
)
def test_packs_go_to_receivers_that_agree_on_them_or_were_not_asked__D8(
    tls: ServerTls | None, packs: bool, reason: str, compression: str
) -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["compression"] = compression
        # one that did not agree hangs up where it gets a pack
        model = await reader(world, tls, "taken" if packs else "hung up on")
        text = lines(0, 3000) + b"\xff\0\r\n" + random.Random(1).randbytes(2000) + b"\n"
        world.write(text)
        with capture_logs() as logs:
            world.start()
            await world.settle()
        assert contents(world.stored()) == [text]
        assert (model.packs_stored > 0, model.connections) == (packs, 1)
        (connected,) = (entry for entry in logs if entry["event"] == "connected")
        assert (connected["dialect"], connected["because"]) == ("logdrive/1", reason)
        await world.stop()

    run(main())


@pytest.mark.parametrize("records", ["packed", "block", "full"])
def test_the_form_of_records_is_the_operators_choice__R1(records: str) -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["records"] = records
        model = await world.ships(lines(0, 3000))
        assert contents(world.stored()) == [lines(0, 3000)]
        assert (model.packs_stored > 0) == (records != "block")
        await world.stop()

    run(main())


@pytest.mark.parametrize("answer", ["refused", "hung up on"])
def test_a_receiver_that_refuses_packs_gets_blocks_and_is_asked_again_later__D8(
    answer: Answer,
) -> None:
    async def main() -> None:
        world = World()
        model = await reader(world, None, answer)
        world.write(lines(0, 3000))
        with capture_logs() as logs:
            world.start()
            await world.settle(200)
        assert contents(world.stored()) == [lines(0, 3000)]
        assert (model.packs_stored, model.connections) == (0, 2)
        reasons = [entry["because"] for entry in logs if entry["event"] == "connected"]
        assert reasons == ["configured", "configured; without packs, which it refused"]

        # another version is there now
        model.packs = "taken"
        await world.clock.sleep(_REMEMBERED_SECONDS)
        world.network.cut("agent")
        world.write(lines(3000, 10))
        await world.settle(200)
        assert contents(world.stored()) == [lines(0, 3010)]
        assert model.packs_stored > 0
        await world.stop()

    run(main())


def test_a_receiver_that_took_packs_gets_them_after_a_lost_connection__D8() -> None:
    async def main() -> None:
        world = World()
        model = await world.ships(lines(0, 100))
        stored = model.packs_stored
        await world.crash_reader()
        world.write(lines(100, 100))
        await world.clock.sleep(5)
        await world.reader()
        await world.settle(200)
        assert contents(world.stored()) == [lines(0, 200)]
        assert stored < model.packs_stored
        await world.stop()

    run(main())


@pytest.mark.parametrize("records", ["packed", "full"])
@pytest.mark.parametrize("later", ["of the version before packs", "of no version of logdrive"])
def test_packs_whose_file_is_gone_reach_receivers_that_take_none__D5_D8(
    records: str, later: str
) -> None:
    async def main() -> None:
        world = World(end_after_seconds=3)
        world.settings["output"] |= {"records": records, "dialect": "auto"}
        silent = await reader(world, _PACKED)

        def fall_silent(_: object) -> bool:
            silent.silent = True
            return True

        silent.fail = fall_silent
        text = lines(0, 1000) + b"\xff and no UTF-8\r\n"
        world.write(text)
        agent = world.start()
        await world.clock.sleep(4)
        world.disk.remove(LOG)
        await world.clock.sleep(10)
        assert all(not source.readable for source in agent.registry.sources)

        await world.crash_reader()
        plain = PlainModel()
        if later == "of no version of logdrive":
            for source in agent.registry.sources:
                source.store = None  # never registered: it may go to any receiver
            await world.network.host("reader").listen("0.0.0.0", 5044, tls_with(), plain.accept)
            await world.settle(200)
            assert plain.content() == text
        else:
            world.readers["reader"] = ReaderModel("reader")
            await reader(world, _BEFORE_PACKS, "hung up on")
            await world.settle(200)
            assert contents(world.stored()) == [text]
        await world.stop()

    run(main())


def test_a_store_that_has_a_part_of_a_pack_gets_the_rest__D3() -> None:
    """Its P lies within a pack whose file is gone, so the pack is cut."""

    async def main() -> None:
        world = World(end_after_seconds=3)
        model = await reader(world, _PACKED)
        text = lines(0, 1000)
        world.write(text[:5000])
        world.start()
        await world.settle()
        await world.stop()
        part = model.backup()

        # a copy of the agent that has no checkpoint sends all again, in one run
        world.forget()
        model.stored.clear()

        def fall_silent(_: object) -> bool:
            model.silent = True
            return True

        model.fail = fall_silent
        world.write(text[5000:])
        world.start()
        await world.clock.sleep(4)
        world.disk.remove(LOG)
        await world.clock.sleep(10)
        await world.crash_reader()
        model.fail, model.silent, model.stored = (lambda run: False), False, part
        await reader(world, _PACKED)
        await world.settle(200)
        assert contents(world.stored()) == [text]
        assert model.packs_stored == 2
        await world.stop()

    run(main())


def test_ship_goes_on_without_packs_where_they_are_refused() -> None:
    async def main() -> None:
        world = World()
        model = await reader(world, None, "refused")
        world.write(lines(0, 3000))
        done = await shipped(world)
        assert done.complete
        assert contents(world.stored()) == [lines(0, 3000)]
        assert (model.packs_stored, model.connections) == (0, 2)

    run(main())


def test_check_says_that_a_receiver_takes_no_packs() -> None:
    async def main() -> None:
        world = World()
        await reader(world, _BEFORE_PACKS)
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        (finding,) = [finding for finding in checked.findings if finding.name == "reader:5044"]
        assert finding.ok
        assert "logdrive/1 would be spoken: agreed on in the TLS handshake, without packs" in (
            finding.detail
        )

    run(main())


# Long lines --------------------------------------------------------------------------------------


def _events(world: World) -> int:
    return sum(stored.events for stored in world.stored())


def test_a_line_longer_than_a_read_waits_for_its_end_and_is_one_event__R8_P3() -> None:
    async def main() -> None:
        world = World()
        model = await world.ships(b"first\n")
        line = b"0123456789abcdef" * (2 * MIB // 16)
        for at in range(0, len(line), 512 * KIB):
            world.write(line[at : at + 512 * KIB])
            await world.clock.sleep(1)
            assert contents(world.stored()) == [b"first\n"], "the line has no end yet"
        world.write(b"\nlast\n")
        await world.settle()
        assert contents(world.stored()) == [b"first\n" + line + b"\nlast\n"]
        assert (_events(world), model.connections) == (3, 1)
        await world.stop()

    run(main())


def test_a_long_last_line_is_sent_when_it_is_quiet_as_one_event__P3() -> None:
    async def main() -> None:
        world = World(quiet_seconds=2)
        await world.ships(b"first\n" + b"x" * MIB)
        await world.clock.sleep(3)
        await world.settle()
        assert contents(world.stored()) == [b"first\n" + b"x" * MIB]
        assert _events(world) == 2
        await world.stop()

    run(main())


@pytest.mark.parametrize(
    ("unit", "events"),
    [
        (lambda: b"words of a line ", 3),  # one of 4 MiB, one of the rest, and the first line
        # parts of 700 KiB: six of the first 4 MiB, two of the rest, and the first line
        (lambda: random.Random(9).randbytes(MIB).replace(b"\n", b" "), 9),
    ],
    ids=["compressible", "random"],
)
def test_a_line_without_end_goes_on_its_way_and_no_byte_is_lost__R2_R8(
    unit: Callable[[], bytes], events: int
) -> None:
    async def main() -> None:
        world = World(quiet_seconds=2)
        piece = unit()
        line = piece * (5 * MIB // len(piece))
        await world.ships(b"first\n" + line)
        await world.clock.sleep(3)
        await world.settle()
        assert contents(world.stored()) == [b"first\n" + line]
        assert _events(world) == events
        await world.stop()

    run(main())


def test_the_largest_parts_of_a_long_line_fit_their_limits() -> None:
    assert 6 * TEXT_BYTES > PACK_BYTES


def test_what_is_in_flight_takes_no_more_memory_than_its_packs() -> None:
    async def main() -> None:
        world = World()
        model = await world.ships(lines(0, 10))
        model.ack_seconds = 20.0
        world.write(lines(10, 500_000))
        assert world.agent is not None
        await world.clock.sleep(10)
        (source,) = world.agent.registry.sources
        packs = [run.records for run in source.unacknowledged.runs]
        assert all(isinstance(pack, RunPack) and pack.is_compressed for pack in packs)
        read = position_of(source.cursor)
        assert read > 2 * MIB
        assert sum(len(payload) for pack in packs for payload in pack) < read / 4
        await world.kill()

    run(main())


def test_many_lines_that_do_not_compress_wait_in_their_files__R8() -> None:
    """Of each only what goes into a window is kept: its line may be 4 MiB, the files thousands."""
    files = {f"/logs/{name}.log": b"first\n" for name in range(6)}

    async def main() -> None:
        world = World(quiet_seconds=2)
        model = await world.reader()
        model.ack_seconds = 5.0
        for number, path in enumerate(files):
            line = random.Random(number).randbytes(3 * MIB).replace(b"\n", b" ")
            files[path] += line + b"\n"
            world.write(files[path], path)
        agent = world.start()
        most = 0
        for _ in range(200):
            await world.clock.sleep(0.1)
            most = max(most, sum(map(_keeps_text, agent.registry.sources)))
        await world.settle(600)
        assert {path: contents(world.stored(path)) for path in files} == {
            path: [data] for path, data in files.items()
        }
        assert most <= 1, "a source may wait alone"
        await world.stop()

    run(main())


def test_many_files_of_short_lines_wait_in_their_files_as_full_records__R8() -> None:
    files = [f"/logs/{name}.log" for name in range(6)]

    async def main() -> None:
        world = World()
        world.settings["output"] |= {"records": "full"}
        model = await world.reader()
        model.ack_seconds = 2.0
        for path in files:
            world.write(b"first\n" + b"a\n" * 20_000, path)
        agent = world.start()
        most = 0
        for _ in range(200):
            await world.clock.sleep(0.1)
            most = max(most, sum(map(_keeps_text, agent.registry.sources)))
        await world.settle(600)
        for path in files:
            assert contents(world.stored(path)) == [b"first\n" + b"a\n" * 20_000]
        assert most <= 1, "a source may wait alone"
        await world.stop()

    run(main())


def _keeps_text(source: Source) -> bool:
    waiting = source.unacknowledged.runs[source.unacknowledged.sent :]
    return any(
        isinstance(run.records, RunPack) and not run.records.is_compressed for run in waiting
    )


_WELL = b"a line that compresses well, as lines of logs do\n" * 40_000
_BADLY = b"".join(
    random.Random(number).randbytes(200).replace(b"\n", b" ") + b"\n" for number in range(16_000)
)
"""3 MiB of lines that stay as long as they are."""


def _pack_sizes(world: World) -> list[int]:
    return [len(data) for stored in world.stored() for _, _, data in stored.data]


@pytest.mark.parametrize("compression", ["zlib", "zstd"])
def test_text_that_compresses_well_goes_in_large_packs__R8(compression: str) -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["compression"] = compression
        await world.ships(_WELL)
        world.write(_WELL * 2)
        await world.settle(60)
        assert contents(world.stored()) == [_WELL * 3]
        sizes = _pack_sizes(world)
        assert TEXT_BYTES < max(sizes) <= LARGE_TEXT_BYTES
        await world.stop()

    run(main())


def test_large_text_that_does_not_compress_is_sent_in_smaller_packs__R8() -> None:
    async def main() -> None:
        world = World()
        await world.ships(_WELL)
        await world.settle(60)
        world.write(_BADLY)
        with capture_logs() as logs:
            await world.settle(300)
            world.write(_WELL + _BADLY)
            await world.settle(300)
        assert contents(world.stored()) == [_WELL + _BADLY + _WELL + _BADLY]
        assert max(_pack_sizes(world)[-4:]) <= TEXT_BYTES
        # a second time it would be known
        reasons = [str(line["reason"]) for line in logs if line["event"] == "connection failed"]
        assert ["more than a record has" in reason for reason in reasons] == [True]
        await world.stop()

    run(main())


def test_empty_lines_are_no_more_than_a_pack_may_have__R8() -> None:
    async def main() -> None:
        world = World()
        await world.ships(_WELL)
        world.write(b"\n" * (2 * MIB))
        await world.settle(60)
        assert contents(world.stored()) == [_WELL + b"\n" * (2 * MIB)]
        await world.stop()

    run(main())
