"""The recorded exchanges of tests/vectors/iggy, cut into payloads."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logdrive.wire.iggy.commands import (
    COMMAND_BY_CODE,
    COMMAND_BY_OPERATION,
    NON_REPLICATED,
    REGISTER,
)
from logdrive.wire.iggy.frames import ReplyFrames, RequestFrames
from logdrive.wire.iggy.revision import Revision

FOLDER = Path(__file__).parents[3] / "vectors/iggy"
_HEAD_BYTES = 256  # of R3's frames
_RESULTS = {*range(128, 150), 161, 162}  # operations whose replies begin with a result


@dataclass(frozen=True)
class Exchange:
    """A request and its reply, as payloads; *reply* is None where the connection was closed."""

    label: str
    revision: Revision
    code: int
    request: bytes
    status: int
    reply: bytes | None

    @property
    def answered(self) -> bool:
        """Whether the reply has a payload to decode, be it empty."""
        return self.reply is not None and self.status == 0


def exchanges() -> Iterator[Exchange]:
    """Yield all exchanges; logins of R3 are not among them: `wire.iggy.vsr` has their layouts."""
    for file in sorted(FOLDER.glob("*.json")):
        recorded = json.loads(file.read_text())
        revision = Revision[recorded["revision"]]
        for number, one in enumerate(recorded["exchanges"]):
            label = f"{file.stem}-{number}-{one['name'].replace(' ', '-')}"
            request = bytes.fromhex(one["request"])
            reply = None if one["reply"] is None else bytes.fromhex(one["reply"])
            if revision is Revision.R3:
                yield from _newest(label, request, reply)
            else:
                yield _classic(label, revision, request, reply)


def _classic(label: str, revision: Revision, request: bytes, reply: bytes | None) -> Exchange:
    frames = RequestFrames()
    frames.receive(request)
    asked = frames.next_frame()
    assert asked is not None
    assert frames.buffered == 0
    if reply is None:
        return Exchange(label, revision, asked.code, bytes(asked.payload), 0, None)
    replies = ReplyFrames()
    replies.receive(reply)
    got = replies.next_frame()
    assert got is not None
    return Exchange(
        label, revision, asked.code, bytes(asked.payload), got.status, bytes(got.payload)
    )


def _newest(label: str, request: bytes, reply: bytes | None) -> Iterator[Exchange]:
    operation = request[176]
    command = (
        COMMAND_BY_CODE[int.from_bytes(request[196:200], "little")]
        if operation == NON_REPLICATED
        else COMMAND_BY_OPERATION.get(operation)
    )
    # an eviction ends the session: it is no reply
    if command is None or operation == REGISTER or (reply is not None and reply[60] != 8):
        return
    status, body = 0, None
    if reply is not None:
        status, body = int.from_bytes(reply[216:220], "little"), reply[_HEAD_BYTES:]
        if status == 0 and operation in _RESULTS:
            failed, body = int.from_bytes(body[:4], "little"), body[4:]
            if failed:
                status, body = int.from_bytes(body[4:8], "little"), b""
    yield Exchange(label, Revision.R3, command.code, request[_HEAD_BYTES:], status, body)
