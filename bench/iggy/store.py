"""Sends, polls and groups over Iggy's protocol: at logdrive's store, and at real servers that save
and sync each send, by one client.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.iggy.load import MEMBERS, MESSAGE_BYTES, POLLED, poll, poll_group, send
from bench.iggy.places import MakePlace, no_real, ours, real
from bench.measure import Benchmark, Sample, Setting
from bench.store.read import warm
from logdrive.wire.iggy.revision import Revision
from tests.support.iggy.servers import REVISIONS

_SIZES = {"70k": 70 << 10, "300k": 300 << 10, "1100k": 1100 << 10}  # bytes of payloads of a send
_IN_FLIGHT = (1, 8)
_POLLED_SEND = _SIZES["300k"] // MESSAGE_BYTES  # messages of the sends that are polled


def _sends(setting: Setting, count: int, groups: int = 1) -> int:
    """Return how many sends there are, a multiple of *groups*: a message for two lines."""
    return max(1, setting.lines // 2 // count // groups) * groups


def _send(size: int, in_flight: int, place: MakePlace, setting: Setting) -> Mapping[str, Sample]:
    count = size // MESSAGE_BYTES
    with place(setting, 1) as server:
        run = send(server, _sends(setting, count), count, in_flight)
        return run.samples() | run.waits_samples()


def _poll(place: MakePlace, setting: Setting) -> Mapping[str, Sample]:
    sends = _sends(setting, _POLLED_SEND)
    with place(setting, 1) as server:
        send(server, sends, _POLLED_SEND, _IN_FLIGHT[-1])
        warm(server.files)
        return poll(server, sends, _POLLED_SEND).samples()


def _groups(place: MakePlace, setting: Setting) -> Mapping[str, Sample]:
    sends = _sends(setting, _POLLED_SEND, MEMBERS)
    with place(setting, MEMBERS) as server:
        send(server, sends, _POLLED_SEND, _IN_FLIGHT[-1], MEMBERS)
        warm(server.files)
        return poll_group(server, sends, _POLLED_SEND).samples()


_OURS = (Revision.R0, Revision.R1, Revision.R2C, Revision.R3)


def _group(
    name: str, what: str, run: Callable[[MakePlace, Setting], Mapping[str, Sample]]
) -> Sequence[Benchmark]:
    return [
        *(
            Benchmark(
                f"{name}.real_{one.lower()}",
                f"a real Iggy {one}: {what}",
                partial(run, real(one)),
                missing=partial(no_real, one),
            )
            for one in REVISIONS
        ),
        *(
            Benchmark(
                f"{name}.ours_{one.name.lower()}",
                f"logdrive, in {one.name}: {what}",
                partial(run, ours(one)),
                peers=tuple(f"{name}.real_{other.lower()}" for other in REVISIONS),
            )
            for one in _OURS
        ),
    ]


GROUPS = (
    *(
        _group(
            f"iggy.send_{short}_{in_flight}",
            f"{size // MESSAGE_BYTES:,} messages of {MESSAGE_BYTES} bytes a send, {in_flight} in "
            "flight, durable",
            partial(_send, size, in_flight),
        )
        for short, size in _SIZES.items()
        for in_flight in _IN_FLIGHT
    ),
    _group("iggy.poll", f"polled by {POLLED:,}s", _poll),
    _group(
        "iggy.groups", f"a group of {MEMBERS} polls {MEMBERS} partitions by {POLLED:,}s", _groups
    ),
)
