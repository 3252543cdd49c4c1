"""Lines of the log on refused clients: one a minute for a host and a code, then the number more."""

from structlog.testing import capture_logs

from logdrive.host.transport import Peer
from logdrive.net.http.bodies import BodyQueue
from logdrive.net.http.exchange import HttpRequest
from logdrive.services.s2.server.refusals import RefusalLog
from logdrive.wire.s2.errors import authn, permission_denied, stream_not_found
from tests.support import virtual_time
from tests.support.virtual_time import VirtualClock


def _request(host: str = "192.0.2.1", port: int = 1) -> HttpRequest:
    peer = Peer(f"{host}:{port}")
    body = BodyQueue(lambda _: None, lambda: None)
    return HttpRequest("GET", "/v1/basins", {}, peer=peer, version="2", body=body)


def test_one_line_a_minute_for_a_host_and_a_code() -> None:
    async def play() -> None:
        clock = VirtualClock()
        log = RefusalLog(clock)
        for port in range(5):
            log.note(_request(port=port), authn("who?"))
        log.note(_request(), permission_denied("no"))
        log.note(_request(), stream_not_found("a"))
        log.note(_request("192.0.2.2"), authn("who?"))
        await clock.sleep(61)
        log.note(_request(port=9), authn("who?"))

    with capture_logs() as logs:
        virtual_time.run(play())
    assert [(line["peer"], line["reason"], line.get("more_before")) for line in logs] == [
        ("192.0.2.1:0", "authn: who?", None),
        ("192.0.2.1:1", "permission_denied: no", None),
        ("192.0.2.2:1", "authn: who?", None),
        ("192.0.2.1:9", "authn: who?", 4),
    ]


def test_what_is_remembered_is_limited() -> None:
    async def play() -> None:
        clock = VirtualClock()
        log = RefusalLog(clock)
        for number in range(1000):
            log.note(_request(f"192.0.2.{number}"), authn("authn: who?"))
        await clock.sleep(61)
        log.note(_request("198.51.100.1"), authn("authn: who?"))

    with capture_logs() as logs:
        virtual_time.run(play())
    assert len(logs) == 256 + 1
    assert logs[-1]["peer"] == "198.51.100.1:1"
