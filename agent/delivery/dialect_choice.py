"""Which dialect is spoken with a peer, and why (rule D8, docs/adr/0018)."""

from dataclasses import dataclass
from typing import Final, Literal

from agent.config import DialectSetting
from logdrive.net.stream import Peer
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2

NATIVE: Final = "logdrive/1"
_V2: Final = "lumberjack/2"
_V1: Final = "lumberjack/1"

DialectName = Literal["logdrive/1", "lumberjack/2", "lumberjack/1"]


@dataclass(frozen=True, slots=True)
class DialectChoice:
    """*dialect* is spoken for this *reason*.

    *fell_back*: logdrive/1 was wanted and was not to be had.
    """

    dialect: DialectName
    reason: str
    fell_back: bool = False

    @property
    def version(self) -> bytes:
        """The version byte of its frames."""
        return VERSION_1 if self.dialect == _V1 else VERSION_2


def offered_protocols(configured: DialectSetting) -> tuple[str, ...]:
    """Return what to offer in the TLS handshake, the best first.

    Plain readers may know nothing of ALPN, so it is not asked of them.
    """
    if configured == "auto":
        return (NATIVE, _V2, _V1)
    return (NATIVE,) if configured == NATIVE else ()


def choose_dialect(
    configured: DialectSetting, peer: Peer, *, answers_in_1: bool = False
) -> DialectChoice | None:
    """Return what to speak with *peer*, None where that would not be what was *configured*.

    *answers_in_1*: it answered a window of version 2 in version 1 before.
    """
    if peer.alpn == NATIVE and configured in (NATIVE, "auto"):
        return DialectChoice(NATIVE, "agreed on in the TLS handshake")
    if configured == NATIVE:
        return None if peer.secure else DialectChoice(NATIVE, "configured")
    if configured != "auto":
        return DialectChoice(configured, "configured")
    if peer.alpn in (_V2, _V1):
        return DialectChoice(
            _V1 if peer.alpn == _V1 else _V2,
            "the receiver chose it in the TLS handshake, instead of logdrive/1",
            fell_back=True,
        )
    if answers_in_1:
        return DialectChoice(
            _V1,
            "the receiver did not agree on logdrive/1, and answered lumberjack/2 in version 1",
            fell_back=True,
        )
    return DialectChoice(_V2, "the receiver did not agree on logdrive/1", fell_back=True)
