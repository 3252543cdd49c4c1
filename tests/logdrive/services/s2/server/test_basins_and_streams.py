"""Basins and streams over the store's catalog: what is made, shown, configured and deleted."""

from logdrive.services.s2.server.streams import FOREIGN_CONFIG
from logdrive.store.streams.state import StreamConfig as CatalogConfig
from logdrive.wire.s2.configs import (
    BasinConfig,
    RetentionPeriod,
    S2StreamConfig,
    StreamPatch,
    TimestampingMode,
)
from logdrive.wire.s2.queries import ListQuery
from tests.logdrive.services.s2.server.harness import BASIN, Control, control, in_control, refused
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

ALL = ListQuery()
GIVEN = S2StreamConfig(retention=RetentionPeriod(60))


async def names(made: Control, query: ListQuery = ALL, prefix: str = "") -> list[str]:
    page, _ = await made.streams.page(BASIN, query, prefix, lambda name: True)
    return [info.name for info in page]


@in_control
async def test_a_basin_is_a_scope_and_a_scope_a_basin(made: Control) -> None:
    await made.with_basin()
    await made.inside.create_scope("by-pravega")
    await made.inside.create_scope("short")  # not a name for a basin

    page, more = await made.basins.page(ListQuery(), lambda name: True)

    assert [info.name for info in page] == ["by-pravega", BASIN]
    assert not more
    assert await made.inside.scope_exists(BASIN)
    assert await made.basins.config("by-pravega") == BasinConfig()


@in_control
async def test_a_repeated_request_to_create_is_known_by_its_token(made: Control) -> None:
    first = await made.basins.create(BASIN, BasinConfig(), location=None, token="t")
    again = await made.basins.create(BASIN, BasinConfig(), location=None, token="t")
    assert (first.result, again.result) == ("created", "noop")
    with refused("resource_already_exists"):
        await made.basins.create(BASIN, BasinConfig(), location=None, token="other")
    other = BasinConfig(create_stream_on_append=True)
    with refused("resource_already_exists"):
        await made.basins.create(BASIN, other, location=None, token="t")

    stream = await made.streams.create(BASIN, "a", GIVEN, token="t")
    await made.streams.reconfigure(BASIN, "a", StreamPatch({"uncapped": True}))
    repeated = await made.streams.create(BASIN, "a", GIVEN, token="t")
    assert (stream.result, repeated.result) == ("created", "noop")
    with refused("resource_already_exists"):
        await made.streams.create(BASIN, "a", GIVEN, token=None)


@in_control
async def test_ensuring_creates_then_changes_then_does_nothing(made: Control) -> None:
    config = BasinConfig(default_stream_config=S2StreamConfig(storage_class="standard"))
    results = [
        (await made.basins.ensure(BASIN, given, location=None)).result
        for given in (BasinConfig(), config, config)
    ]
    assert results == ["created", "updated", "noop"]

    results = [
        (await made.streams.ensure(BASIN, "a", given)).result
        for given in (GIVEN, S2StreamConfig(), S2StreamConfig())
    ]
    assert results == ["created", "updated", "noop"]
    found = await made.streams.find(BASIN, "a")
    assert found.config == S2StreamConfig(storage_class="standard").resolved()


@in_control
async def test_what_a_patch_sets_back_is_the_basins_default(made: Control) -> None:
    defaults = S2StreamConfig(mode=TimestampingMode.ARRIVAL)
    await made.with_basin(BasinConfig(default_stream_config=defaults))
    await made.streams.create(BASIN, "a", GIVEN, token=None)

    config = await made.streams.reconfigure(
        BASIN, "a", StreamPatch({"mode": TimestampingMode.CLIENT_REQUIRE})
    )
    assert (config.mode, config.retention.age) == (TimestampingMode.CLIENT_REQUIRE, 60)
    config = await made.streams.reconfigure(BASIN, "a", StreamPatch({"mode": None}))
    assert config.mode is TimestampingMode.ARRIVAL


@in_control
async def test_any_name_is_found_again_and_listed_as_it_was_given(made: Control) -> None:
    await made.with_basin()
    given = sorted(["a", "with/slash", "ünï", "_internal", "under_score", "a" * 512])
    for name in given:
        await made.streams.create(BASIN, name, GIVEN, token=None)

        found = await made.streams.find(BASIN, name)

        assert made.store.info(found.segment) is not None
        assert found.config.retention.age == 60
        with refused("resource_already_exists"):
            await made.streams.create(BASIN, name, GIVEN, token=None)
    assert await names(made) == given


@in_control
async def test_streams_of_other_faces_are_shown_and_never_cut_by_a_default(made: Control) -> None:
    await made.inside.create_scope(BASIN)
    await made.inside.create(BASIN, "one", CatalogConfig())
    await made.inside.create(BASIN, "two", CatalogConfig(min_segments=2))
    await made.inside.create(BASIN, "_MARKone", CatalogConfig())

    assert await names(made) == ["one", "two/0", "two/1"]
    assert (await made.streams.find(BASIN, "one")).config == FOREIGN_CONFIG
    assert FOREIGN_CONFIG.retention.age is None
    found = await made.streams.find(BASIN, "two/1")
    assert found.segment == f"{BASIN}/two/1.#epoch.0"
    for missing in ("two", "one/0", "two/2", "_MARKone"):
        with refused("stream_not_found"):
            await made.streams.find(BASIN, missing)
    with refused("invalid"):
        await made.streams.delete(BASIN, "two/1")

    await made.streams.reconfigure(BASIN, "two/1", StreamPatch({"uncapped": True}))
    assert (await made.streams.find(BASIN, "two/1")).config.uncapped
    assert not (await made.streams.find(BASIN, "two/0")).config.uncapped
    assert await names(made) == ["one", "two/0", "two/1"]


@in_control
async def test_a_stream_that_another_face_has_scaled_is_shown_as_its_segments(
    made: Control,
) -> None:
    await made.with_basin()
    await made.streams.create(BASIN, "a", GIVEN, token=None)
    await made.inside.scale(BASIN, "a", [0], [(0.0, 0.5), (0.5, 1.0)])
    assert await names(made) == ["a/0", "a/1", "a/2"]
    assert (await made.streams.find(BASIN, "a/2")).config == FOREIGN_CONFIG
    with refused("stream_not_found"):
        await made.streams.find(BASIN, "a")


@in_control
async def test_a_stream_that_another_face_made_anew_has_nothing_of_the_former_one(
    made: Control,
) -> None:
    await made.with_basin()
    await made.streams.create(BASIN, "a", GIVEN, token="t")
    await made.inside.seal(BASIN, "a")
    await made.inside.delete(BASIN, "a")
    with refused("stream_not_found"):
        await made.streams.find(BASIN, "a")
    assert await names(made) == []

    await made.inside.create(BASIN, "a", CatalogConfig())
    assert (await made.streams.find(BASIN, "a")).config == FOREIGN_CONFIG


@in_control
async def test_a_deleted_stream_is_pending_until_it_is_purged_and_then_gone(made: Control) -> None:
    await made.with_basin()
    for name in ("plain", "with/slash"):
        await made.streams.create(BASIN, name, GIVEN, token=None)
        segment = (await made.streams.find(BASIN, name)).segment
        await made.streams.delete(BASIN, name)
        await made.streams.delete(BASIN, name)
        with refused("stream_deletion_pending"):
            await made.streams.find(BASIN, name)
        with refused("stream_deletion_pending"):
            await made.streams.create(BASIN, name, GIVEN, token=None)
        page, _ = await made.streams.page(BASIN, ListQuery(), "", lambda _: True)
        assert [info.deleted_ms is not None for info in page] == [True]

        await made.purger.purge()

        assert made.store.info(segment) is None
        assert made.forgotten[-1] == segment
        with refused("stream_not_found"):
            await made.streams.delete(BASIN, name)
        await made.streams.create(BASIN, name, GIVEN, token=None)
        assert (await made.streams.find(BASIN, name)).segment != segment
        await made.streams.delete(BASIN, name)
        await made.purger.purge()


@in_control
async def test_a_deleted_basin_goes_with_all_its_streams(made: Control) -> None:
    await made.with_basin()
    await made.streams.create(BASIN, "with/slash", GIVEN, token=None)
    await made.inside.create(BASIN, "foreign", CatalogConfig())
    await made.basins.delete(BASIN)
    await made.basins.delete(BASIN)
    with refused("basin_deletion_pending"):
        await made.streams.create(BASIN, "b", GIVEN, token=None)
    with refused("basin_deletion_pending"):
        await made.basins.create(BASIN, BasinConfig(), location=None, token=None)

    await made.purger.purge()

    with refused("basin_not_found"):
        await made.basins.delete(BASIN)
    assert made.store.segments(f"{BASIN}/") == []
    await made.with_basin()
    assert await names(made) == []


def test_a_deletion_that_a_crash_interrupted_goes_on_at_the_next_start() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with control(disk, clean=False) as made:
            await made.with_basin()
            await made.streams.create(BASIN, "a", GIVEN, token=None)
            await made.streams.create(BASIN, "b/c", GIVEN, token=None)
            await made.streams.delete(BASIN, "a")

        async with control(disk.killed()) as made:
            with refused("stream_deletion_pending"):
                await made.streams.find(BASIN, "a")
            assert (await made.streams.find(BASIN, "b/c")).config.retention.age == 60
            await made.purger.purge()
            assert await names(made) == ["b/c"]

    run(main())


@in_control
async def test_streams_are_created_by_an_append_or_a_read_only_where_the_basin_says_so(
    made: Control,
) -> None:
    await made.with_basin(BasinConfig(create_stream_on_append=True))
    with refused("stream_not_found"):
        await made.streams.find_or_create(BASIN, "a", GIVEN, to_append=False)
    found = await made.streams.find_or_create(BASIN, "a", GIVEN, to_append=True)
    assert found.config.retention.age == 60
    again = await made.streams.find_or_create(BASIN, "a", S2StreamConfig(), to_append=True)
    assert again == found
    with refused("basin_not_found"):
        await made.streams.find_or_create("other-basin", "a", GIVEN, to_append=True)


@in_control
async def test_a_list_has_pages_in_the_order_of_bytes(made: Control) -> None:
    await made.with_basin()
    for name in ("b", "a/2", "a/1", "é", "z"):
        await made.streams.create(BASIN, name, GIVEN, token=None)

    assert await names(made) == ["a/1", "a/2", "b", "z", "é"]
    assert await names(made, ListQuery(start_after="a/2", limit=2)) == ["b", "z"]
    assert await names(made, ListQuery(prefix="a/")) == ["a/1", "a/2"]
    assert await names(made, prefix="a/") == ["1", "2"]
    page, more = await made.streams.page(BASIN, ListQuery(limit=1), "", lambda _: True)
    assert more
    assert len(page) == 1
