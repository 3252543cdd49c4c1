"""Reader groups and key-value tables survive restarts, and groups hold retention back."""

import msgspec
import pytest

from logdrive.services.pravega.server.streams.kv_tables import KeyValueTables
from logdrive.services.pravega.server.streams.reader_groups import ReaderGroups
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.store.retention import Retention
from logdrive.store.streams.errors import NoSuchGroupError
from logdrive.store.streams.journal import Journal
from logdrive.store.streams.state import KeyValueTable, MapPut, ReaderGroup, StreamConfig, StreamCut
from logdrive.wire.pravega.names import segment_id, segment_name
from tests.logdrive.store.streams.harness import SCOPE, STREAM, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

OLD = [segment_id(0, 0), segment_id(1, 0)]
GROUP = ReaderGroup(id="one", retention_type=1, starting=(StreamCut(SCOPE, STREAM),))
CONFIG = StreamConfig(min_segments=2)


def test_reader_groups_and_tables_survive_restarts_and_kills() -> None:
    async def main() -> None:
        for clean in (True, False):
            disk = MemoryDisk()
            async with rig(disk, clean=clean) as there:
                await there.made()
                await ReaderGroups(there.catalog).create_group(SCOPE, "group", GROUP)
                updated = await ReaderGroups(there.catalog).update_group(SCOPE, "group", GROUP)
                await ReaderGroups(there.catalog).update_read_cut(
                    f"{SCOPE}/group", GROUP.id, 1, SCOPE, STREAM, {OLD[0]: 3, OLD[1]: 0}
                )
                await ReaderGroups(there.catalog).create_group(SCOPE, "gone", GROUP)
                await ReaderGroups(there.catalog).delete_group(SCOPE, "gone", GROUP.id)
                for table in ("kept", "gone"):
                    await KeyValueTables(there.catalog).create_kv_table(
                        SCOPE, table, KeyValueTable(2, 8)
                    )
                await KeyValueTables(there.catalog).delete_kv_table(SCOPE, "gone")
            async with rig(disk if clean else disk.killed(), slack=0) as there:
                await there.streams.configure(SCOPE, STREAM, CONFIG)  # the journal is written anew
            async with rig(disk) as there:
                found = await ReaderGroups(there.catalog).get_group(SCOPE, "group")
                assert found == msgspec.structs.replace(
                    updated, read={f"{SCOPE}/{STREAM}": {OLD[0]: 3, OLD[1]: 0}}
                )
                assert await there.streams.streams(SCOPE) == ["_RGgroup", STREAM]
                assert await KeyValueTables(there.catalog).list_kv_tables(SCOPE) == ["kept"]
                assert there.store.segments(f"{SCOPE}/kept_kvtable/") == [
                    f"{SCOPE}/kept_kvtable/{n}.#epoch.0" for n in range(2)
                ]
                assert (
                    await Tables(there.store).create_table(f"{SCOPE}/kept_kvtable/0.#epoch.0", 8)
                    is False
                )
                with pytest.raises(NoSuchGroupError):
                    await ReaderGroups(there.catalog).get_group(SCOPE, "gone")

    run(main())


def test_a_tables_change_is_completed_after_a_crash() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with rig(disk) as there:
            await there.made()
            await KeyValueTables(there.catalog).create_kv_table(
                SCOPE, "removed", KeyValueTable(1, 8)
            )
            await there.store.create(f"{SCOPE}/made_kvtable/0.#epoch.0")
            journal = Journal(there.store)
            await journal.replay()
            await journal.append_puts(
                [
                    MapPut(SCOPE, "made", KeyValueTable(2, 8)),
                    MapPut(SCOPE, "removed", KeyValueTable(1, 8, status="deleting")),
                ]
            )
        async with rig(disk) as there:
            assert await KeyValueTables(there.catalog).list_kv_tables(SCOPE) == ["made"]
            assert there.store.segments(f"{SCOPE}/removed_kvtable/") == []
            for segment in there.store.segments(f"{SCOPE}/made_kvtable/"):
                assert (await Tables(there.store).table_info(segment)).key_length == 8

    run(main())


def test_unread_data_of_a_subscriber_is_kept_up_to_the_streams_limit() -> None:
    async def main() -> None:
        async with rig() as there:
            await there.streams.create_scope(SCOPE)
            config = StreamConfig(
                min_segments=1, retention_type=2, retention_param=30, retention_max=70
            )
            await there.streams.create(SCOPE, STREAM, config)
            groups = ReaderGroups(there.catalog)
            await groups.create_group(SCOPE, "group", GROUP)
            policies = (there.streams.retention_policy, there.streams.max_retention_policy)

            async def kept(count: int) -> dict[int, int]:
                for n in range(count):
                    await there.write(
                        segment_name(SCOPE, STREAM, 0), b"\0\0\0\0\0\0\0\x02" + f"{n:02}".encode()
                    )
                for policy_of in policies:
                    await Retention(there.store, policy_of, there.catalog.clock).apply_policies()
                return await there.streams.cut_at(SCOPE, STREAM)

            assert await kept(6) == {0: 0}  # nothing is known to be read
            await groups.update_read_cut(f"{SCOPE}/group", GROUP.id, 0, SCOPE, STREAM, {0: 20})
            assert await kept(0) == {0: 20}
            await groups.update_read_cut(f"{SCOPE}/group", GROUP.id, 0, SCOPE, STREAM, {0: 50})
            assert await kept(0) == {0: 30}
            assert await kept(9) == {0: 80}

    run(main())
