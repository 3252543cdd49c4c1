"""From an append to the events that are stored: timestamps, envelopes, encryption."""

from collections.abc import Sequence
from typing import NamedTuple

from logdrive.model.framing import frame_events, split_events
from logdrive.services.numbering.appends import EncodedAppend
from logdrive.services.numbering.heads import COMMAND, ENCRYPTED, MAGIC, RECORD, encode_payload
from logdrive.services.s2.server.log.encryption import Transform, check_key, sealer
from logdrive.services.s2.server.log.hot import ParsedAppend
from logdrive.services.s2.server.log.payload import encode_fields
from logdrive.wire.s2.configs import Cipher, TimestampingMode
from logdrive.wire.s2.errors import invalid
from logdrive.wire.s2.records import Fence, Record, Trim, command_of, metered_size


class LogSettings(NamedTuple):
    """What a stream's configuration says about its records; it may change at any time."""

    mode: TimestampingMode = TimestampingMode.CLIENT_PREFER
    uncapped: bool = False
    cipher: Cipher | None = None


def encode_append(
    append: ParsedAppend, now_ms: int, settings: LogSettings, key: bytes | None, *, floor: int = 0
) -> EncodedAppend:
    """Return the events of *append*, which came at *now_ms*.

    No timestamp is lower than *floor*, that of the record before, where it is known: so what is
    stored does not rest on a record that may be truncated. Raises `S2Error`: 422 for a missing
    timestamp, 400 for a missing key.
    """
    check_key(settings.cipher, key)
    if settings.cipher is None or key is None:
        if (
            append.events is not None
            and settings.mode is not TimestampingMode.CLIENT_REQUIRE
            and floor <= now_ms
        ):
            return EncodedAppend(append.events, append.count, now_ms, now_ms)
        seal = None
    else:
        seal = sealer(settings.cipher, key)
    if append.fields and settings.mode is not TimestampingMode.CLIENT_REQUIRE:
        return _encode_fields(append, max(now_ms, floor), seal)
    records: Sequence[Record] = append.records
    if append.fields:
        records = [Record(b"")]  # none has a timestamp, and so they are refused
    if append.events is not None:
        records = [Record(body) for body in split_events(append.events)]
    return _encode_records(records, now_ms, settings, seal, floor)


def _encode_fields(append: ParsedAppend, timestamp: int, seal: Transform | None) -> EncodedAppend:
    kind = RECORD if seal is None else ENCRYPTED
    payloads = [
        encode_payload(kind, timestamp, metered, fields if seal is None else seal(fields))
        for fields, metered in append.fields
    ]
    return EncodedAppend(frame_events(payloads), append.count, timestamp, timestamp)


def _encode_records(
    records: Sequence[Record],
    now_ms: int,
    settings: LogSettings,
    seal: Transform | None,
    floor: int,
) -> EncodedAppend:
    payloads: list[bytes] = []
    commands: list[tuple[int, Fence | Trim]] = []
    first, latest = -1, floor
    for at, record in enumerate(records):
        latest = timestamp = max(latest, _timestamp(record, now_ms, settings))
        if at == 0:
            first = timestamp
        command = command_of(record) if record.headers else None
        if command is not None:
            commands.append((at, command))
        payloads.append(_payload(record, timestamp, now_ms, command is not None, seal))
    return EncodedAppend(frame_events(payloads), len(payloads), first, latest, commands)


def _timestamp(record: Record, now_ms: int, settings: LogSettings) -> int:
    timestamp = record.timestamp
    if settings.mode is TimestampingMode.ARRIVAL:
        return now_ms
    if timestamp is None:
        if settings.mode is TimestampingMode.CLIENT_REQUIRE:
            raise invalid("the stream's configuration requires a timestamp of each record")
        return now_ms
    return timestamp if settings.uncapped else min(timestamp, now_ms)


def _payload(
    record: Record, timestamp: int, now_ms: int, command: bool, seal: Transform | None
) -> bytes:
    sealed = seal is not None and not command
    if (
        not sealed
        and not record.headers
        and timestamp == now_ms
        and not record.body.startswith(MAGIC)
    ):
        return record.body
    fields = encode_fields(record.headers, record.body)
    kind = COMMAND if command else RECORD
    if seal is not None and sealed:
        kind, fields = ENCRYPTED, seal(fields)
    return encode_payload(kind, timestamp, metered_size(record), fields)
