"""Handlers of reads: the tail, unary reads, sessions of frames, and server-sent events."""

import contextlib
from collections.abc import AsyncIterator

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.s2.server import counters
from logdrive.services.s2.server.failures import as_s2_error
from logdrive.services.s2.server.handlers.call import (
    EVENTS,
    PROTOBUF,
    SESSION_HEADERS,
    Answer,
    Call,
)
from logdrive.services.s2.server.log.encryption import check_key
from logdrive.services.s2.server.log.reading import Chunk, Reading
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.wire.s2.compression import accepted_compression
from logdrive.wire.s2.configs import S2StreamConfig, parse_stream_config
from logdrive.wire.s2.errors import bad_header
from logdrive.wire.s2.frames import encode_frame, encode_terminal
from logdrive.wire.s2.json import encode_read_batch, encode_tail, parse_format
from logdrive.wire.s2.protobuf import decode_read_batch
from logdrive.wire.s2.queries import ReadQuery, parse_read_query
from logdrive.wire.s2.sse import (
    DONE,
    LastEventId,
    encode_batch,
    encode_error,
    encode_ping,
    parse_last_event_id,
)


async def check_tail(call: Call) -> Answer:
    """GET /v1/streams/{stream}/records/tail."""
    basin, name = call.basin(), call.stream()
    call.principal.check("check-tail", basin=basin, stream=name)
    log = await _open(call, basin, name, with_key=False)
    await log.sync()
    call.service.counters.add("check-tail", basin)
    return Answer(200, encode_tail(log.tail()))


async def read(call: Call) -> Answer | None:
    """GET /v1/streams/{stream}/records."""
    basin, name = call.basin(), call.stream()
    query = parse_read_query(call.request.query)
    form = parse_format(call.header("s2-format"))
    call.principal.check("read", basin=basin, stream=name)
    call.service.counters.add("read", basin)
    if call.is_session():
        await _read_session(call, await _open(call, basin, name), query, basin)
        return None
    if call.wants_events():
        await _read_events(call, basin, name, query)
        return None

    log = await _open(call, basin, name)
    async with _reading(call, log, query, unary=True) as reading:
        chunk = await _next_chunk(call, reading)
    batch = chunk.batch if chunk is not None else b""
    call.service.counters.add(counters.READ, basin, chunk.metered if chunk is not None else 0)
    if call.wants_protobuf():
        return Answer(200, batch, PROTOBUF)
    return Answer(200, encode_read_batch(decode_read_batch(batch), form))


async def _read_session(call: Call, log: StreamLog, query: ReadQuery, basin: str) -> None:
    compression = accepted_compression(call.header("accept-encoding"))
    async with _reading(call, log, query) as reading:
        await call.response.start(200, SESSION_HEADERS)
        try:
            async for chunk in _chunks(call, reading):
                frame = encode_frame(
                    chunk.batch,
                    compression=compression,
                    reconnect_advised=call.service.draining.is_set(),
                )
                await call.send_part(frame)
                call.service.counters.add(counters.READ, basin, chunk.metered)
        except LogdriveError as error:
            if isinstance(error, TransientError):
                raise
            await call.response.send(encode_terminal(as_s2_error(error)))
    await call.response.end()


async def _read_events(call: Call, basin: str, name: str, query: ReadQuery) -> None:
    form = parse_format(call.header("s2-format"))
    seen = LastEventId(0, 0, 0)
    if (header := call.header("last-event-id")) is not None:
        seen = parse_last_event_id(header)
        query = query.resumed(seen)
    log = await _open(call, basin, name)
    async with _reading(call, log, query) as reading:
        headers = [("content-type", EVENTS), *SESSION_HEADERS[1:]]
        await call.response.start(200, headers)
        try:
            async for chunk in _chunks(call, reading):
                if chunk.count:
                    seen = LastEventId(
                        chunk.first + chunk.count - 1,
                        seen.count + chunk.count,
                        seen.bytes + chunk.metered,
                    )
                    event = encode_batch(decode_read_batch(chunk.batch), seen, form)
                else:
                    assert chunk.tail is not None
                    event = encode_ping(call.service.clock.now_ms(), chunk.tail)
                await call.send_part(event)
                call.service.counters.add(counters.READ, basin, chunk.metered)
                if call.service.draining.is_set():
                    break  # without DONE: the reader comes again, with the last event's id
            else:
                await call.response.send(DONE)
        except LogdriveError as error:
            if isinstance(error, TransientError):
                raise
            await call.response.send(encode_error(as_s2_error(error)))
    await call.response.end()


async def _chunks(call: Call, reading: Reading) -> AsyncIterator[Chunk]:
    """Yield the chunks of a reading; one that waits gives a heartbeat once the store drains."""
    with call.service.sessions.during(reading.hurry):
        while (chunk := await _next_chunk(call, reading)) is not None:
            call.principal.check_valid()
            yield chunk


async def _next_chunk(call: Call, reading: Reading) -> Chunk | None:
    await call.service.leaving.turn()
    return await reading.next_chunk()


async def _open(call: Call, basin: str, name: str, *, with_key: bool = True) -> StreamLog:
    """Return the log of a stream, which may be created now."""
    header = call.header("s2-stream-config")
    given = parse_stream_config(header, bad_header) if header is not None else S2StreamConfig()
    found = await call.service.streams.find_or_create(basin, name, given, to_append=False)
    if with_key:
        check_key(found.cipher, call.encryption_key())
    return await call.service.open_log(found)


@contextlib.asynccontextmanager
async def _reading(
    call: Call, log: StreamLog, query: ReadQuery, *, unary: bool = False
) -> AsyncIterator[Reading]:
    reading = await log.read(query, unary=unary, key=call.encryption_key())
    try:
        yield reading
    finally:
        reading.close()
