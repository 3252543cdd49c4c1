"""Retention by age, and deletion of empty streams: late, and never early."""

from logdrive.services.s2.server.upkeep import Upkeep
from logdrive.store.streams.state import StreamConfig as CatalogConfig
from logdrive.wire.s2.configs import RetentionPeriod, S2StreamConfig
from tests.logdrive.services.s2.server.harness import BASIN, Control, in_control, refused
from tests.logdrive.services.s2.server.served import Face, with_face
from tests.logdrive.store.streams.harness import WRITER

MINUTE = S2StreamConfig(retention=RetentionPeriod(60))


def upkeep_of(made: Control) -> Upkeep:
    return Upkeep(made.store, made.registry, made.streams, clock=made.clock)


async def write(made: Control, segment: str, data: bytes) -> None:
    number = max(made.store.submitted_number(segment, WRITER), 0) + 1
    event = (0).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
    await made.store.append(segment, event, writer=WRITER, expected=None, number=number, events=1)


def start_of(made: Control, segment: str) -> int:
    info = made.store.info(segment)
    assert info is not None
    return info.start


@in_control
async def test_records_are_cut_off_once_they_are_older_than_the_stream_keeps(
    made: Control,
) -> None:
    await made.with_basin()
    for name in ("plain", "with/slash"):
        await made.streams.create(BASIN, name, MINUTE, token=None)
        segment = (await made.streams.find(BASIN, name)).segment
        upkeep = upkeep_of(made)
        times = []
        for _ in range(20):
            times.append(made.clock.now_ms())
            await write(made, segment, b"x" * 92)
            await made.clock.sleep(10)
        cut = []
        for _ in range(4):
            before = made.clock.now_ms() - 60_000
            await upkeep.apply()
            cut.append(start_of(made, segment) // 100)
            assert cut[-1] == sum(time < before for time in times), name
            await made.clock.sleep(30)
        assert 0 < cut[0] < cut[1] < 20
        assert cut[3] == 20


@in_control
async def test_a_segment_that_another_face_made_is_never_cut_by_a_default(made: Control) -> None:
    await made.inside.create_scope(BASIN)
    await made.inside.create(BASIN, "foreign", CatalogConfig())
    segment = (await made.streams.find(BASIN, "foreign")).segment
    await write(made, segment, b"x")
    await made.clock.sleep(30 * 24 * 3600)
    await upkeep_of(made).apply()
    assert start_of(made, segment) == 0


@in_control
async def test_a_piece_of_a_large_event_is_not_cut_from_the_rest(made: Control) -> None:
    await made.with_basin()
    await made.streams.create(BASIN, "a", MINUTE, token=None)
    segment = (await made.streams.find(BASIN, "a")).segment
    await write(made, segment, b"x" * 92)
    event = (0).to_bytes(4, "big") + (2 << 20).to_bytes(4, "big") + bytes(2 << 20)
    for number, piece in enumerate((event[: 1 << 20], event[1 << 20 :]), start=2):
        await made.store.append(
            segment, piece, writer=WRITER, expected=None, number=number, events=0
        )
        await made.clock.sleep(40)
    await made.clock.sleep(30)
    await upkeep_of(made).apply()
    # the first piece is 110 s old, the last one 70
    assert start_of(made, segment) == 100 + len(event)


@in_control
async def test_an_empty_stream_is_deleted_late_and_never_early(made: Control) -> None:
    await made.with_basin()
    keeps = S2StreamConfig(retention=RetentionPeriod(None), delete_on_empty_seconds=60)
    for name in ("never", "full", "trimmed"):
        await made.streams.create(BASIN, name, keeps, token=None)
    upkeep = upkeep_of(made)
    full, trimmed = [(await made.streams.find(BASIN, name)).segment for name in ("full", "trimmed")]
    await write(made, full, b"x")

    await made.clock.sleep(600)
    await write(made, trimmed, b"x")
    await made.store.truncate(trimmed, 9)
    await made.clock.sleep(58)
    await upkeep.apply()
    await made.streams.find(BASIN, "never")

    await made.clock.sleep(3)
    await upkeep.apply()
    with refused("stream_deletion_pending"):
        await made.streams.find(BASIN, "never")
    await made.streams.find(BASIN, "trimmed")

    await made.clock.sleep(600)
    await upkeep.apply()
    with refused("stream_deletion_pending"):
        await made.streams.find(BASIN, "trimmed")
    await made.streams.find(BASIN, "full")


@with_face
async def test_a_stream_whose_records_were_cut_off_goes_on_with_the_next_number(
    made: Face,
) -> None:
    await made.make(
        "a", config={"retention_policy": {"age": 60}, "delete_on_empty": {"min_age_secs": 3600}}
    )
    await made.append("a", "one", "two")
    await made.clock.sleep(300)
    got = await made.append("a", "three")
    assert got.json["start"]["seq_num"] == 2
    got = await made.ask("GET", "/v1/streams/a/records?seq_num=0")
    assert [record["seq_num"] for record in got.json["records"]] == [2]

    await made.clock.sleep(600)
    got = await made.ask("GET", "/v1/streams/a/records/tail")
    assert got.json["tail"]["seq_num"] == 3
    await made.clock.sleep(2 * 3600)
    assert (await made.ask("GET", "/v1/streams/a")).code == (404, "stream_not_found")
