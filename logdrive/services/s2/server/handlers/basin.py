"""Handlers of the requests about basins."""

from logdrive.services.s2.server.basins import ProvisionedBasin
from logdrive.services.s2.server.handlers.call import Answer, Call
from logdrive.services.s2.server.locations import check_location
from logdrive.wire.s2.configs import parse_basin_patch
from logdrive.wire.s2.info import (
    encode_basins,
    encode_config,
    encode_info,
    parse_create_basin,
    parse_ensure_basin,
)
from logdrive.wire.s2.names import check_basin
from logdrive.wire.s2.queries import parse_list_query


async def list_basins(call: Call) -> Answer:
    """GET /v1/basins."""
    call.principal.check("list-basins")
    query = parse_list_query(call.request.query)
    page, more = await call.service.basins.page(query, call.principal.sees_basin)
    return Answer(200, encode_basins(page, has_more=more))


async def create_basin(call: Call) -> Answer:
    """POST /v1/basins."""
    wanted = parse_create_basin(await call.json_body())
    token = call.request_token()
    call.principal.check("create-basin", basin=wanted.basin)
    check_location(wanted.location)
    made = await call.service.basins.create(
        wanted.basin, wanted.config, location=wanted.location, token=token
    )
    return _provisioned(made, 201)


async def ensure_basin(call: Call) -> Answer:
    """PUT /v1/basins/{basin}."""
    name = check_basin(call.names[0])
    wanted = parse_ensure_basin(await call.json_body())
    call.principal.check("create-basin", basin=name)
    call.principal.check("reconfigure-basin", basin=name)
    check_location(wanted.location)
    made = await call.service.basins.ensure(name, wanted.config, location=wanted.location)
    return _provisioned(made, 201 if made.result == "created" else 200)


async def basin_config(call: Call) -> Answer:
    """GET /v1/basins/{basin}."""
    name = check_basin(call.names[0])
    call.principal.check("get-basin-config", basin=name)
    return Answer(200, encode_config(await call.service.basins.config(name)))


async def reconfigure_basin(call: Call) -> Answer:
    """PATCH /v1/basins/{basin}."""
    name = check_basin(call.names[0])
    patch = parse_basin_patch(await call.json_body())
    call.principal.check("reconfigure-basin", basin=name)
    return Answer(200, encode_config(await call.service.basins.reconfigure(name, patch)))


async def delete_basin(call: Call) -> Answer:
    """DELETE /v1/basins/{basin}."""
    name = check_basin(call.names[0])
    call.principal.check("delete-basin", basin=name)
    await call.service.basins.delete(name)
    return Answer(202)


def _provisioned(made: ProvisionedBasin, status: int) -> Answer:
    return Answer(status, encode_info(made.info), headers=(("s2-provision-result", made.result),))
