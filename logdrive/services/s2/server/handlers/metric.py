"""Handlers of the requests about health and metrics."""

from typing import Final, NamedTuple
from urllib.parse import parse_qs

import orjson

from logdrive.services.s2.server import counters
from logdrive.services.s2.server.handlers.call import Answer, Call
from logdrive.services.s2.server.operations import ALL, OPERATIONS
from logdrive.wire.s2.errors import bad_query, invalid, unavailable
from logdrive.wire.s2.names import check_basin, check_stream

_INTERVALS: Final = {"minute": 60, "hour": 3600, "day": 86_400}
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_ACCOUNT_SETS: Final = ("active-basins", "account-ops", "estimated-billable-usage")
_BASIN_SETS: Final = (
    "storage",
    "append-ops",
    "read-ops",
    "read-throughput",
    "append-throughput",
    "basin-ops",
)
_STREAM_SETS: Final = ("storage",)


class _Asked(NamedTuple):
    """What a request for metrics asks for; times in seconds since 1970."""

    set: str
    start: int
    end: int
    interval: str


async def health(call: Call) -> Answer:
    """GET /health, and /ping."""
    if not call.service.healthy():
        raise unavailable("the store is about to stop, or can't write")
    return Answer(200, b"OK", "text/plain")


async def prometheus(call: Call) -> Answer:
    """GET /metrics: counters since the start, as Prometheus reads them."""
    call.principal.check("account-metrics")
    lines = ["# TYPE logdrive_s2_operations_total counter"]
    totals = call.service.counters.totals
    lines += [
        f'logdrive_s2_operations_total{{operation="{name}"}} {totals[name]}'
        for name in sorted(totals)
        if name in ALL
    ]
    for name, key in (("appended", counters.APPENDED), ("read", counters.READ)):
        lines += [
            f"# TYPE logdrive_s2_{name}_bytes_total counter",
            f"logdrive_s2_{name}_bytes_total {totals.get(key, 0)}",
        ]
    lines += [
        "# TYPE logdrive_s2_held_bytes gauge",
        f"logdrive_s2_held_bytes {call.service.budget.held}",
    ]
    return Answer(200, ("\n".join(lines) + "\n").encode(), _TEXT)


async def account_metrics(call: Call) -> Answer:
    """GET /v1/metrics."""
    asked = _parse(call.request.query, _ACCOUNT_SETS)
    call.principal.check("account-metrics")
    values: list[object] = []
    if asked.set == "active-basins":
        names = call.service.active_basins()
        values = [{"label": {"name": "active_basins", "values": names}}]
    elif asked.set == "account-ops":
        values = _operations(call, asked, None, ALL)
    return _answer(values)


async def basin_metrics(call: Call) -> Answer:
    """GET /v1/metrics/{basin}."""
    basin = check_basin(call.names[0])
    asked = _parse(call.request.query, _BASIN_SETS)
    call.principal.check("basin-metrics", basin=basin)
    await call.service.basins.active(basin)
    match asked.set:
        case "storage":
            values = _storage(call, asked, call.service.stored_bytes(basin))
        case "append-ops":
            values = _operations(call, asked, basin, frozenset(("append",)))
        case "read-ops":
            values = _operations(call, asked, basin, frozenset(("read", "check-tail")))
        case "append-throughput":
            values = [_sums(call, asked, basin, counters.APPENDED, "bytes")]
        case "read-throughput":
            values = [_sums(call, asked, basin, counters.READ, "bytes")]
        case _:
            values = _operations(call, asked, basin, frozenset(OPERATIONS["basin"]))
    return _answer(values)


async def stream_metrics(call: Call) -> Answer:
    """GET /v1/metrics/{basin}/{stream}."""
    basin = check_basin(call.names[0])
    name = check_stream(call.principal.prefix + call.names[1])
    asked = _parse(call.request.query, _STREAM_SETS)
    call.principal.check("stream-metrics", basin=basin, stream=name)
    found = await call.service.streams.find(basin, name)
    return _answer(_storage(call, asked, call.service.segment_bytes(found.segment)))


def _parse(query: str, sets: tuple[str, ...]) -> _Asked:
    given = {key: values[-1] for key, values in parse_qs(query, max_num_fields=100).items()}
    if (wanted := given.get("set")) not in sets or wanted is None:
        raise bad_query(f"set is one of {', '.join(sets)}")
    if (interval := given.get("interval", "minute")) not in _INTERVALS:
        raise bad_query("interval is minute, hour or day")
    try:
        start, end = int(given.get("start", 0)), int(given.get("end", 2**53))
    except ValueError as error:
        raise bad_query("start and end are seconds since 1970") from error
    if start > end:
        raise invalid("start is after end")
    return _Asked(wanted, start, end, interval)


def _operations(
    call: Call, asked: _Asked, basin: str | None, names: frozenset[str]
) -> list[object]:
    counted = call.service.counters.operations(basin)
    return [_sums(call, asked, basin, name, "operations") for name in counted if name in names]


def _sums(call: Call, asked: _Asked, basin: str | None, name: str, unit: str) -> object:
    interval = _INTERVALS[asked.interval]
    sums = call.service.counters.sums(name, basin, asked.start, asked.end, interval)
    values = {"name": name, "unit": unit, "interval": asked.interval, "values": sums}
    return {"accumulation": values}


def _storage(call: Call, asked: _Asked, stored: int) -> list[object]:
    now = call.service.clock.now_ms() // 1000
    values = [(now, stored)] if asked.start <= now <= asked.end else []
    return [{"gauge": {"name": "storage", "unit": "bytes", "values": values}}]


def _answer(values: list[object]) -> Answer:
    return Answer(200, orjson.dumps({"values": values}))
