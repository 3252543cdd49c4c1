"""Messages that our client sends."""

from collections.abc import Sequence
from typing import NamedTuple

from logdrive.wire.iggy.revision import Revision


class OutgoingMessage(NamedTuple):
    """A message to send: *headers* in R2C's form, *id* 0 (the server chooses), *origin* in µs."""

    payload: bytes
    headers: bytes = b""
    id: int = 0
    origin: int = 0


def encode_sent(revision: Revision, messages: Sequence[OutgoingMessage]) -> bytes:
    """Return *messages* as `SendMessages.batch`; its count is `len(messages)`."""
