"""Choice of the dialect that is spoken with a peer, and the reason for it (rule D8, ADR 18)."""

from dataclasses import dataclass
from typing import Final, Literal

from agent.config import DialectSetting
from logdrive.host.transport import Peer
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2

NATIVE: Final = "logdrive/1"
_V2: Final = "lumberjack/2"
_V1: Final = "lumberjack/1"

DialectName = Literal["logdrive/1", "lumberjack/2", "lumberjack/1"]


@dataclass(frozen=True, slots=True)
class DialectChoice:
    """A dialect, and why it was chosen."""

    dialect: DialectName
    """The dialect to speak."""

    reason: str
    """Why it is spoken, for the log."""

    fell_back: bool = False
    """`logdrive/1` was wanted, and the peer does not speak it."""

    @property
    def version(self) -> bytes:
        """The version byte of its frames."""
        return VERSION_1 if self.dialect == _V1 else VERSION_2


def offered_protocols(configured: DialectSetting) -> tuple[str, ...]:
    """Return the protocols to offer by ALPN in the TLS handshake, the best first.

    None for a plain dialect: its readers may not know ALPN.
    """
    if configured == "auto":
        return (NATIVE, _V2, _V1)
    return (NATIVE,) if configured == NATIVE else ()


def choose_dialect(
    configured: DialectSetting, peer: Peer, *, answers_in_1: bool = False
) -> DialectChoice | None:
    """Return the dialect to speak with *peer*; None if it does not speak the *configured* one.

    *answers_in_1*: this host answered a window of version 2 in version 1 before.
    """
    if peer.alpn == NATIVE and configured in (NATIVE, "auto"):
        return DialectChoice(NATIVE, "agreed on in the TLS handshake")
    if configured == NATIVE:
        # without TLS there is nothing to agree in: trust the configuration
        return None if peer.secure else DialectChoice(NATIVE, "configured")
    if configured != "auto":
        return DialectChoice(configured, "configured")

    # "auto", and logdrive/1 was not agreed on
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
