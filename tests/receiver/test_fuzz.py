"""Peers that send valid frames in an invalid order.

The receiver never fails inside, and serves the next peer.
"""

from random import Random
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.framing import frame_events
from logdrive.model.numbers import CLOSED, number_of
from logdrive.model.records import DATA, END, GAP, block_record, end_record, gap_record
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    PackFrame,
    PositionFrame,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from tests.receiver.peers import NativePeer, Peer, run_of
from tests.receiver.world import World, configuration, in_virtual_time, receiver

NUMBERS = (
    0,
    1,
    5 << 16,
    number_of(10, b"x"),
    (1 << 46) - 1 << 16,
    CLOSED - 1,
    CLOSED,
    CLOSED + 5,
    (1 << 63) - 1,
    -1,
    -(1 << 63),
)
COUNTS = (0, 1, 2, 3, 999, 1000, 65_535, 2**32 - 1)
ATTRIBUTES = (
    b"",
    b"{}",
    b'{"path":"/a"}',
    b'{"tags":5}',
    b"\xff",
    b"null",
    b'{"fields":{"a":' + b"[" * 60 + b"]" * 60 + b"}}",
)
RECORDS = (
    b"{}",
    b"x",
    b"\xff\0",
    block_record(0, 10, 1, "line 0000\n"),
    gap_record(0, 5, "removed"),
    end_record(9, "removed"),
    b"[" * 3000,
    b"y" * 70_000,
)

_HONEST = (
    make_pack(PackForm.TEXT, b"line 00", PackCodec.DEFLATE),
    make_pack(PackForm.TEXT, b"\xff\0 = 1\n", PackCodec.STORED),
    make_pack(PackForm.CUT_TEXT, join_cuts([7], b"one\ntwo"), PackCodec.ZSTD),
    make_pack(PackForm.RECORDS, frame_events([b"{}"]), PackCodec.DEFLATE),
)
PACKS = (
    *_HONEST * 2,
    # of so many bytes, and with another inside
    *(pack_[:-1] + bytes([pack_[-1] ^ 0x55]) for pack_ in _HONEST),
    make_pack(PackForm.TEXT, b"a\nb\nc\nd", PackCodec.STORED),
    make_pack(PackForm.CUT_TEXT, join_cuts([3, -4], b"one"), PackCodec.STORED),
    make_pack(PackForm.RECORDS, frame_events([b"{}", b"{}"]), PackCodec.STORED),
    make_pack(PackForm.RECORDS, b"x" * 40, PackCodec.STORED),
    b"\1\1\0\0\0\7\0\0\0\0" + b"no deflate stream",
    b"\1\2\0\0\0\7\0\0\0\0" + b"\x28\xb5\x2f\xfd" + bytes(9),
    b"\7\7" + bytes(20),
)
"""Packs of runs of 7 bytes and one event, and of no run."""


class Babbler:
    """Makes frames; most fit together now and then, so that babble gets somewhere."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sequence = 0
        self._numbers: dict[int, int] = {}

    def native(self) -> bytes:
        pick = self._random.choice
        kind = self._random.randrange(24)
        if kind < 4:
            return SourceFrame(
                pick((0, 1, 2, 2**32 - 1)), UUID(int=pick((1, 2, 3))), pick(ATTRIBUTES)
            ).encode()
        if kind < 21:
            return self._window()
        if kind == 21:
            return EnvelopeFrame(
                pick(
                    (
                        b"",
                        b"x" * 30,
                        pack(b"noise"),
                        pack(self._window()),
                        pack(self._run(1)),
                        pack(self._run(1), "zstd"),
                    )
                )
            ).encode()
        if kind == 22:
            return pick(
                (
                    AckFrame(1).encode(),
                    PositionFrame(0, 0, UUID(int=0)).encode(),
                    RefusalFrame(0, 1, "no").encode(),
                    WindowFrame(pick(COUNTS)).encode(),
                )
            )
        return self._run(pick((0, 1, 2)))

    def _window(self) -> bytes:
        records = self._random.choice((1, 1, 1, 2, 5))
        run = self._run(records)
        return WindowFrame(records).encode() + (
            EnvelopeFrame(pack(run)).encode() if self._random.random() < 0.3 else run
        )

    def _run(self, records: int) -> bytes:
        pick, chance = self._random.choice, self._random.random
        index, kind = pick((0, 0, 0, 1, 2)), pick((DATA, DATA, DATA, DATA, DATA, GAP, END, 7))
        previous = self._numbers.get(index, 0) if chance() < 0.8 else pick(NUMBERS)
        number = (
            pick(NUMBERS)
            if chance() < 0.2
            else previous + (7 << 16) + (CLOSED if kind == END else 0)
        )
        if -(1 << 63) <= previous < number < 1 << 63:
            self._numbers[index] = number
        else:
            previous, number = (
                max(-(1 << 63), min(previous, (1 << 63) - 1)),
                max(-(1 << 63), min(number, (1 << 63) - 1)),
            )
        announced = records if chance() < 0.95 else pick(COUNTS)
        run = RunFrame(index, kind, previous, number, 0, 0, 1 if kind == DATA else 0, announced)
        first = self._sequence + 1 if chance() < 0.97 else pick(COUNTS[:-1])
        self._sequence += records
        said = (
            {GAP: gap_record(0, 5, "removed"), END: end_record(9, "removed")}.get(kind)
            if chance() < 0.8
            else None
        )
        if kind == DATA and records == 1 and chance() < 0.4:
            return run.encode() + PackFrame.of(first, pick(PACKS)).encode()
        return run.encode() + (
            JsonRun.of(first, [said or pick(RECORDS) for _ in range(records)]).encode()
            if records
            else b""
        )

    def plain(self) -> bytes:
        pick = self._random.choice
        frames = (
            WindowFrame(pick(COUNTS)).encode(pick((b"1", b"2"))),
            JsonFrame(pick(COUNTS), pick(RECORDS)).encode(pick((b"1", b"2"))),
            KeyValueFrame(
                pick(COUNTS), ((pick(("a", "", "\u20ac")), "v"),) * pick((0, 1, 3))
            ).encode(),
            JsonRun.of(pick(COUNTS[:4]), [pick(RECORDS) for _ in range(pick((1, 2, 3)))]).encode(),
            EnvelopeFrame(pack(JsonFrame(1, b"{}").encode() * pick((0, 1, 40)))).encode(),
            EnvelopeFrame(pick((b"", b"noise"))).encode() if self._random.random() < 0.1 else b"",
        )
        return pick(frames)


async def _babble(world: World, seed: int, plain: bool) -> None:
    random = Random(seed)
    babbler = Babbler(random)
    peer: Peer = await (world.native(plain=plain) if seed % 3 else world.foreign(plain=plain))
    try:
        if isinstance(peer, NativePeer) and seed % 4:
            for index in range(3):
                await peer.register(index, UUID(int=index + seed % 5))
        for _ in range(random.randrange(1, 25)):
            await peer.send(babbler.native() if seed % 3 else babbler.plain())
            if random.random() < 0.5 and not await peer.silent(random.choice((0.0, 0.02, 1.0))):
                await peer.next(keepalives=True)
    except (TransientError, AssertionError):  # it was shown the door
        return
    await peer.stream.close() if random.random() < 0.5 else peer.stream.abort()


@pytest.mark.parametrize(
    ("start", "plain", "unpack"),
    [
        (0, False, "no"),
        (100, False, "no"),
        (200, False, "blocks"),
        (300, True, "no"),
        (400, True, "full"),
    ],
)
@in_virtual_time
async def test_babble_ends_the_babblers_connection_at_most(
    start: int, plain: bool, unpack: str
) -> None:
    tls = {"tls": "off"} if plain else {}
    async with receiver(config=configuration(unpack=unpack, **tls)) as world:
        for seed in range(start, start + 100):
            await _babble(world, seed, plain)
            if seed % 20 == 0:
                world.disk.capacity = 0 if seed % 40 else None
        world.disk.capacity = None
        good = await world.native("web-9", "cn:web-9", plain=plain)
        await good.register(0, UUID(int=9))
        await good.acknowledged(await good.send_window(run_of(0, 0, 30)))
        await good.stream.close()
    assert world.counters.connections_open == 0
    assert world.memory.used == 0
    assert len(world.network.failures) == 0


@pytest.mark.parametrize("unpack", ["no", "blocks", "full"])
@in_virtual_time
async def test_packs_of_any_kind_end_their_senders_connection_at_most(unpack: str) -> None:
    async with receiver(config=configuration(unpack=unpack)) as world:
        for seed in range(150):
            world.disk.capacity = 0 if seed % 10 == 9 else None
            await _send_packs(world, Random(seed))
        world.disk.capacity = None
        good = await world.native("web-9", "cn:web-9")
        await good.register(0, UUID(int=9))
        await good.acknowledged(await good.send_window(run_of(0, 0, 30)))
    counted = world.counters
    assert world.memory.used == 0
    assert counted.protocol_errors > 20
    assert counted.packs > 50
    assert (counted.packs_unpacked > 50, counted.packs_damaged > 50) == (unpack != "no",) * 2


async def _send_packs(world: World, random: Random) -> None:
    """Send runs that follow one another, each with one of `PACKS`, until shown the door."""
    peer = await world.native()
    try:
        position = await peer.register(0, UUID(int=random.randrange(1 << 60)))
        assert isinstance(position, PositionFrame)
        previous = 0
        for _ in range(random.randrange(1, 9)):
            number = previous + (7 << 16)
            run = RunFrame(0, DATA, previous, number, 0, 0, 1, 1)
            await peer.send_window((run, random.choice(PACKS)))
            previous = number
            if random.random() < 0.5:
                await peer.next()
    except (TransientError, AssertionError):
        return
    await peer.stream.close() if random.random() < 0.5 else peer.stream.abort()
