"""Appends and reads over S2's protocol, and the memory that they take: at logdrive's store, and at
a real s2-lite, by one client.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.measure import Benchmark, Sample, Setting
from bench.s2.load import BATCH_BYTES, RECORD_BYTES, RECORDS, append, read
from bench.s2.places import S2Place, lite, no_lite, ours
from bench.store.read import warm

_IN_FLIGHT = (1, 4, 16)
_MEMORY_BYTES = 1 << 30
_APPENDED = f"{RECORDS:,} records of {RECORD_BYTES} bytes at a time"


def _batches(setting: Setting) -> int:
    """Return how many batches are appended: one record for two lines of the log."""
    return max(1, setting.lines // 2 // RECORDS)


def _append(in_flight: int, place: S2Place, setting: Setting) -> Mapping[str, Sample]:
    with place(setting) as server:
        session = append(server, _batches(setting), in_flight)
        return session.samples() | session.waits_samples() | server.memory()


def _read(place: S2Place, setting: Setting) -> Mapping[str, Sample]:
    batches = _batches(setting)
    with place(setting) as server:
        append(server, batches, _IN_FLIGHT[-1])
        warm(server.files)
        return read(server, batches).samples()


def _memory(place: S2Place, setting: Setting) -> Mapping[str, Sample]:
    with place(setting) as server:
        append(server, _MEMORY_BYTES // BATCH_BYTES, _IN_FLIGHT[-1])
        return server.memory()


_PLACES: Sequence[tuple[str, S2Place, str]] = (
    ("ours", ours, "logdrive store run"),
    ("lite", lite, "s2-lite 0.43.4"),
)


def _pair(
    name: str, what: str, run: Callable[[S2Place, Setting], Mapping[str, Sample]]
) -> Sequence[Benchmark]:
    return [
        Benchmark(
            f"{name}.{short}",
            f"{told}: {what}",
            partial(run, place),
            missing=no_lite if place is lite else lambda: None,
            peers=(f"{name}.lite",) if place is ours else (),
        )
        for short, place, told in _PLACES
    ]


GROUPS = (
    *(
        _pair(
            f"s2.append_{in_flight}",
            f"{_APPENDED}, {in_flight} in flight, durable before each acknowledgement",
            partial(_append, in_flight),
        )
        for in_flight in _IN_FLIGHT
    ),
    _pair("s2.read", "what was appended so, in one session", _read),
    _pair("s2.memory", "after 1 GiB was appended so, 16 in flight", _memory),
)
