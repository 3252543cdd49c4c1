"""Lines of the log on refused clients: one a minute for a host and a code, then the number more."""

from structlog.testing import capture_logs

from logdrive.services.refusals import RefusalLog
from tests.support import virtual_time
from tests.support.virtual_time import VirtualClock


def _note(log: RefusalLog, peer: str, code: str = "authn") -> None:
    log.note(peer, "GET /v1/basins", code, "who?")


def test_one_line_a_minute_for_a_host_and_a_code() -> None:
    async def play() -> None:
        clock = VirtualClock()
        log = RefusalLog(clock, "logdrive.store.s2")
        for port in range(5):
            _note(log, f"192.0.2.1:{port}")
        _note(log, "192.0.2.1:1", "permission_denied")
        _note(log, "192.0.2.2:1")
        await clock.sleep(61)
        _note(log, "192.0.2.1:9")

    with capture_logs() as logs:
        virtual_time.run(play())
    assert [(line["peer"], line["reason"], line.get("more_before")) for line in logs] == [
        ("192.0.2.1:0", "who?", None),
        ("192.0.2.1:1", "who?", None),
        ("192.0.2.2:1", "who?", None),
        ("192.0.2.1:9", "who?", 4),
    ]


def test_what_is_remembered_is_limited() -> None:
    async def play() -> None:
        clock = VirtualClock()
        log = RefusalLog(clock, "logdrive.store.s2")
        for number in range(1000):
            _note(log, f"192.0.2.{number}:1")
        await clock.sleep(61)
        _note(log, "198.51.100.1:1")

    with capture_logs() as logs:
        virtual_time.run(play())
    assert len(logs) == 256 + 1
    assert logs[-1]["peer"] == "198.51.100.1:1"
