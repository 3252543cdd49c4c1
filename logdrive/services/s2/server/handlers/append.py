"""Handler of appends: unary ones, and sessions of frames."""

import asyncio

from logdrive.services.s2.server import counters
from logdrive.services.s2.server.handlers.append_session import AppendConversation
from logdrive.services.s2.server.handlers.call import PROTOBUF, Answer, ArrivedBody, Call
from logdrive.services.s2.server.log.encryption import check_key
from logdrive.services.s2.server.log.hot import MOST_MEMORY, ParsedAppend, of_input, parse_append
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.wire.s2.configs import S2StreamConfig, parse_stream_config
from logdrive.wire.s2.errors import bad_header
from logdrive.wire.s2.json import decode_append_input, encode_append_ack, parse_format
from logdrive.wire.s2.protobuf import encode_append_ack as encode_append_ack_message


async def append(call: Call) -> Answer | None:
    """POST /v1/streams/{stream}/records."""
    basin, name = call.basin(), call.stream()
    call.principal.check("append", basin=basin, stream=name)
    if call.is_session():
        log = await _open(call, basin, name)
        with call.service.sessions.during(), log.in_use():
            await AppendConversation(call, log, call.encryption_key(), basin).run()
        return None

    # before the body is decompressed: many small ones may be large ones then
    body = await call.arrived_body()
    async with call.service.budget.hold(MOST_MEMORY * body.most_bytes()) as held:
        parsed = _parse(call, body)
        held.shrink(parsed.memory())
        call.check_commands(parsed.records, basin)
        log = await _open(call, basin, name)
        answer = log.submit(parsed, key=call.encryption_key())
        held.give_when_done(answer)
    ack = await asyncio.shield(answer)  # it is done, and holds memory, even if the client leaves
    call.service.counters.add("append", basin)
    call.service.counters.add(counters.APPENDED, basin, parsed.metered)
    if call.wants_protobuf():
        return Answer(200, encode_append_ack_message(ack), PROTOBUF)
    return Answer(200, encode_append_ack(ack))


def _parse(call: Call, body: ArrivedBody) -> ParsedAppend:
    form = parse_format(call.header("s2-format"))
    if call.sends_protobuf():
        return parse_append(body.decompressed())
    return of_input(decode_append_input(call.as_json(body), form))


async def _open(call: Call, basin: str, name: str) -> StreamLog:
    """Return the log of a stream, which may be created now."""
    header = call.header("s2-stream-config")
    given = parse_stream_config(header, bad_header) if header is not None else S2StreamConfig()
    found = await call.service.streams.find_or_create(basin, name, given, to_append=True)
    check_key(found.cipher, call.encryption_key())
    return await call.service.open_log(found)
