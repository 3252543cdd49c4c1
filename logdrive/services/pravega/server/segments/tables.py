"""Requests about table segments (docs/protocols/pravega.md#tables)."""

from logdrive.services.pravega.server.tables.errors import (
    FixedKeysError,
    KeyNotThereError,
    KeyVersionError,
    TableNotEmptyError,
    TableOffsetError,
)
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.wire.pravega.control import (
    OperationUnsupported,
    SegmentAlreadyExists,
    SegmentIsTruncated,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    TableSegmentNotEmpty,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import SegmentCreated, SegmentDeleted
from logdrive.wire.pravega.tables import (
    CreateTableSegment,
    DeleteTableSegment,
    GetTableSegmentInfo,
    ReadTable,
    ReadTableEntries,
    ReadTableEntriesDelta,
    ReadTableKeys,
    RemoveTableKeys,
    TableEntriesDeltaRead,
    TableEntriesRead,
    TableEntriesUpdated,
    TableKeysRead,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
    UpdateTableEntries,
)

TableChangeRequest = CreateTableSegment | DeleteTableSegment | UpdateTableEntries | RemoveTableKeys
TableQuestion = (
    GetTableSegmentInfo | ReadTable | ReadTableKeys | ReadTableEntries | ReadTableEntriesDelta
)
TableRequest = TableChangeRequest | TableQuestion


async def answer_table_request(tables: Tables, request: TableRequest) -> Message:
    """Return the reply to *request*. Raises the errors of `Tables` for which there is no reply."""
    number, segment = request.request_id, request.segment
    try:
        return await (
            _change(tables, request)
            if isinstance(request, TableChangeRequest)
            else _read(tables, request)
        )
    except KeyNotThereError:
        return TableKeyDoesNotExist(number, segment)
    except KeyVersionError:
        return TableKeyBadVersion(number, segment)
    except TableNotEmptyError:
        return TableSegmentNotEmpty(number, segment)
    except TableOffsetError as error:
        expected = (
            request.table_offset
            if isinstance(request, UpdateTableEntries | RemoveTableKeys)
            else -1
        )
        return SegmentIsTruncated(number, segment, error.length, "", expected)
    except FixedKeysError:
        return OperationUnsupported(number, type(request).__name__)


async def _change(tables: Tables, request: TableChangeRequest) -> Message:
    number, segment = request.request_id, request.segment
    match request:
        case CreateTableSegment():
            created = await tables.create_table(segment, request.key_length)
            return (
                SegmentCreated(number, segment)
                if created
                else SegmentAlreadyExists(number, segment)
            )
        case DeleteTableSegment():
            await tables.delete_table(segment, must_be_empty=request.must_be_empty)
            return SegmentDeleted(number, segment)
        case UpdateTableEntries():
            return TableEntriesUpdated(
                number,
                tuple(await tables.put_entries(segment, request.entries, request.table_offset)),
            )
        case RemoveTableKeys():
            await tables.remove_keys(segment, request.keys, request.table_offset)
            return TableKeysRemoved(number, segment)


async def _read(tables: Tables, request: TableQuestion) -> Message:
    number, segment = request.request_id, request.segment
    match request:
        case GetTableSegmentInfo():
            return TableSegmentInfo(number, segment, *await tables.table_info(segment))
        case ReadTable():
            return TableRead(
                number, segment, tuple(await tables.get_entries(segment, request.keys))
            )
        case ReadTableKeys(continuation_token=after):
            keys = await tables.list_keys(
                segment, after, request.from_key, request.to_key, request.suggested_count
            )
            return TableKeysRead(number, segment, tuple(keys), keys[-1].key if keys else after)
        case ReadTableEntries(continuation_token=after):
            entries = await tables.list_entries(
                segment, after, request.from_key, request.to_key, request.suggested_count
            )
            return TableEntriesRead(
                number, segment, tuple(entries), entries[-1].key.key if entries else after
            )
        case ReadTableEntriesDelta():
            delta = await tables.read_delta(segment, request.from_position, request.suggested_count)
            return TableEntriesDeltaRead(
                number,
                segment,
                tuple(delta.entries),
                delta.should_clear,
                delta.reached_end,
                delta.position,
            )
