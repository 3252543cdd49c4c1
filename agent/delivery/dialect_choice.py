"""Choice of the dialect that is spoken with a peer, and the reason for it (rule D8, ADR 18)."""

from dataclasses import dataclass
from typing import Final, Literal

from agent.config.output import DialectSetting
from logdrive.host.transport import Peer
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2
from logdrive.wire.lumberjack.limits import NATIVE, PACKED

_V2: Final = "lumberjack/2"
_V1: Final = "lumberjack/1"

NOT_LOGDRIVE: Final = (
    "the other side does not speak logdrive/1: connect to a logdrive receiver, or set "
    'dialect = "auto"'
)
"""What an operator is told where no dialect can be spoken."""

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

    packs: bool = False
    """Whether Z frames may be sent (rule R8)."""

    agreed: bool = True
    """Whether the peer itself said what it takes; else it may refuse it."""

    @property
    def version(self) -> bytes:
        """The version byte of its frames."""
        return VERSION_1 if self.dialect == _V1 else VERSION_2


def offered_protocols(configured: DialectSetting) -> tuple[str, ...]:
    """Return the protocols to offer by ALPN in the TLS handshake, the best first.

    None for a plain dialect: its readers may not know ALPN.
    """
    if configured == "auto":
        return (PACKED, NATIVE, _V2, _V1)
    return (PACKED, NATIVE) if configured == NATIVE else ()


def choose_dialect(
    configured: DialectSetting,
    peer: Peer,
    *,
    answers_in_1: bool = False,
    refused_packs: bool = False,
) -> DialectChoice | None:
    """Return the dialect to speak with *peer*; None if it does not speak the *configured* one.

    *answers_in_1*: this host answered a window of version 2 in version 1 before. *refused_packs*:
    it refused a Z frame before.
    """
    if peer.alpn in (PACKED, NATIVE) and configured in (NATIVE, "auto"):
        packs = peer.alpn == PACKED
        agreed = "agreed on in the TLS handshake" + ("" if packs else ", without packs")
        return DialectChoice(NATIVE, agreed, packs=packs)
    if configured == NATIVE:
        return None if peer.secure else _choose_unasked(refused_packs=refused_packs)
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


def _choose_unasked(*, refused_packs: bool) -> DialectChoice:
    """Return the choice for a peer without TLS, which has nothing to agree in.

    The configuration is trusted, and packs are sent until they are refused.
    """
    reason = "configured" + ("; without packs, which it refused" if refused_packs else "")
    return DialectChoice(NATIVE, reason, packs=not refused_packs, agreed=False)
