"""Layouts of logins, requests 38, 39 and 44, in the classic revisions, and their reply.

R3 registers a session instead: `logdrive.wire.iggy.vsr` has its request, the reply is here.
"""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.payloads.cursor import PayloadReader
from logdrive.wire.iggy.payloads.fields import TEXT8, TEXT32, U32, U64
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, Simple, at
from logdrive.wire.iggy.replies import LoggedIn
from logdrive.wire.iggy.revision import Revision, revision_of_version

# a client may have nothing to tell of itself
_OWN: Final[FieldCodec[str | None]] = Simple(
    TEXT32.read, lambda value, writer: TEXT32.write(value or "", writer)
)

SESSION_REQUESTS: Final = (
    Shape(requests.Ping),
    Shape(
        requests.IggyLogin,
        at("user", TEXT8),
        at("password", TEXT8),
        at("version", _OWN, first=Revision.R1),
        at("context", _OWN, first=Revision.R1),
    ),
    Shape(requests.LoginWithToken, at("token", TEXT8)),
    Shape(requests.Logout),
)

LOGGED_IN: Final = Shape(
    LoggedIn,
    at("user_id", U32),
    at("session", U64, first=Revision.R3),
    at("protocol", U32, first=Revision.R3),
    at("version", TEXT8, first=Revision.R3),
)


def revision_of_login(payload: bytes | memoryview) -> Revision | None:
    """Return the classic revision of the client that sent request 38 with this *payload*.

    R0B: there is nothing behind the password. None: what is there tells none that is known, or
    the payload is none of a login.
    """
    reader = PayloadReader(Revision.R1, payload)
    try:
        TEXT8.read(reader)
        TEXT8.read(reader)
        return revision_of_version(TEXT32.read(reader)) if reader.left else Revision.R0B
    except ValueError:
        return None
