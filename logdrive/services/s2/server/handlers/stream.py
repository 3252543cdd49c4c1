"""Handlers of the requests about streams, but not their records."""

from msgspec.structs import replace

from logdrive.services.s2.server.handlers.call import Answer, Call
from logdrive.services.s2.server.streams import ProvisionedStream
from logdrive.wire.s2.configs import parse_stream_config, parse_stream_patch
from logdrive.wire.s2.errors import bad_json
from logdrive.wire.s2.info import (
    encode_config,
    encode_info,
    encode_streams,
    parse_create_stream,
)
from logdrive.wire.s2.names import check_stream
from logdrive.wire.s2.queries import parse_list_query


async def list_streams(call: Call) -> Answer:
    """GET /v1/streams."""
    query, basin = parse_list_query(call.request.query), call.basin()
    call.principal.check("list-streams", basin=basin)
    page, more = await call.service.streams.page(
        basin, query, call.principal.prefix, lambda name: call.principal.sees_stream(basin, name)
    )
    return Answer(200, encode_streams(page, has_more=more))


async def create_stream(call: Call) -> Answer:
    """POST /v1/streams."""
    basin = call.basin()
    wanted = parse_create_stream(await call.json_body())
    token = call.request_token()
    name = check_stream(call.principal.prefix + wanted.stream, bad_json)
    call.principal.check("create-stream", basin=basin, stream=name)
    made = await call.service.streams.create(basin, name, wanted.config, token=token)
    return _provisioned(call, made, 201)


async def ensure_stream(call: Call) -> Answer:
    """PUT /v1/streams/{stream}."""
    basin, name = call.basin(), call.stream()
    config = parse_stream_config(await call.json_body() or b"{}")
    call.principal.check("create-stream", basin=basin, stream=name)
    call.principal.check("reconfigure-stream", basin=basin, stream=name)
    made = await call.service.streams.ensure(basin, name, config)
    return _provisioned(call, made, 201 if made.result == "created" else 200)


async def stream_config(call: Call) -> Answer:
    """GET /v1/streams/{stream}."""
    basin, name = call.basin(), call.stream()
    call.principal.check("get-stream-config", basin=basin, stream=name)
    found = await call.service.streams.find(basin, name)
    return Answer(200, encode_config(found.config))


async def reconfigure_stream(call: Call) -> Answer:
    """PATCH /v1/streams/{stream}."""
    basin, name = call.basin(), call.stream()
    patch = parse_stream_patch(await call.json_body() or b"{}")
    call.principal.check("reconfigure-stream", basin=basin, stream=name)
    return Answer(200, encode_config(await call.service.streams.reconfigure(basin, name, patch)))


async def delete_stream(call: Call) -> Answer:
    """DELETE /v1/streams/{stream}."""
    basin, name = call.basin(), call.stream()
    call.principal.check("delete-stream", basin=basin, stream=name)
    await call.service.streams.delete(basin, name)
    return Answer(202)


def _provisioned(call: Call, made: ProvisionedStream, status: int) -> Answer:
    info = replace(made.info, name=made.info.name.removeprefix(call.principal.prefix))
    return Answer(status, encode_info(info), headers=(("s2-provision-result", made.result),))
