"""What real servers were asked, asked of our face: it answers with the same statuses, or as told
here.
"""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from logdrive.errors import TransientError
from logdrive.services.iggy.server.config import IggyFaceConfig
from tests.logdrive.services.iggy.server.served import ServedFace, iggy_face
from tests.support import virtual_time
from tests.support.memory.transport import MemoryStream

FOLDER = Path(__file__).parents[4] / "vectors/iggy"
HEAD = 256  # of R3's frames
CREATE_TOKEN = 42
SECRET_BYTES = 60
UNANSWERED = -1
"""Instead of a status: the server closed the connection, or sent nothing."""

Setting = Literal["auto", "R0", "R1", "R2c", "R3"]


@dataclass
class Answer:
    """What a server answered: *status*, of R3 also that in the body; *body* behind the head."""

    status: int
    body: bytes = b""


@dataclass
class Replayed:
    """A conversation with our face: bytes of the recorded server that stand for other ones here."""

    face: ServedFace
    replicated: bool
    # by the id of R3's client: its connection, and the number of its session
    streams: dict[bytes, MemoryStream] = field(default_factory=dict)
    sessions: dict[bytes, int] = field(default_factory=dict)
    secrets: dict[bytes, bytes] = field(default_factory=dict)

    async def ask(self, recorded: bytes) -> Answer:
        request = bytearray(recorded)
        client = bytes(request[128:144]) if self.replicated else b""
        for theirs, ours in self.secrets.items():
            if theirs in request:
                request = bytearray(bytes(request).replace(theirs, ours))
                struct.pack_into("<I", request, 0, len(request) - 4)
        if self.replicated and struct.unpack_from("<Q", request, 184)[0]:
            struct.pack_into("<Q", request, 184, self.sessions.get(client, 0))
        if client not in self.streams:
            self.streams[client] = await self.face.connect()
        reply = await self._exchange(self.streams[client], bytes(request))
        if reply is None:
            del self.streams[client]
            return Answer(UNANSWERED)
        if self.replicated and request[176] == 1 and reply[60] == 8:
            self.sessions[client] = struct.unpack_from("<Q", reply, HEAD + 8)[0]
        return answer_of(reply, self.replicated)

    def note_secret(self, theirs: bytes, ours: bytes) -> None:
        """Note the token that our face made where the recorded server made *theirs*."""
        if len(theirs) > SECRET_BYTES:
            self.secrets[theirs] = ours

    async def _exchange(self, stream: MemoryStream, request: bytes) -> bytes | None:
        reply = b""
        try:
            await stream.write([request])
            while not self._is_whole(reply):
                data = await stream.read()
                if not data:
                    return None
                reply += data
        except TransientError:
            return None
        return reply

    def _is_whole(self, reply: bytes) -> bool:
        if self.replicated:
            return len(reply) >= HEAD and len(reply) >= struct.unpack_from("<I", reply, 48)[0]
        return len(reply) >= 8 and len(reply) >= 8 + struct.unpack_from("<I", reply, 4)[0]


def answer_of(reply: bytes, replicated: bool) -> Answer:
    """Return the status of a reply; that of an eviction is its reason, with a minus."""
    if not replicated:
        return Answer(struct.unpack_from("<I", reply)[0], reply[8:])
    if reply[60] != 8:
        return Answer(-reply[255])
    status, operation = struct.unpack_from("<I", reply, 216)[0], reply[208]
    body = reply[HEAD:]
    if operation in (*range(128, 150), 161, 162) and len(body) == 12 and body[:4] == b"\1\0\0\0":
        status = struct.unpack_from("<I", body, 8)[0]
    return Answer(status, body)


# file, setting, and where we differ: the number of the exchange, our status
R0_DROPS = dict.fromkeys((2, 3, 7, 47, 48, 84), 3)  # R0 closes the connection instead of telling
R0_DROPS |= dict.fromkeys((5, 6, 15), 1013) | {4: 1014, 43: 4009, 44: 4024}
CASES: list[tuple[str, Setting, dict[int, int]]] = [
    ("server-r0-commands", "R0", {32: 100}),  # the number of another client
    ("server-r0-log", "R0", R0_DROPS),
    # the offset of a partition that is missing, and of a group that was left by the logout
    ("server-0.4.213-commands", "auto", {58: 3007, 95: 5006, 96: 5006}),
    ("server-0.4.213-log", "auto", {}),
    ("server-0.8.0-log", "auto", {}),
    # durability is an option that the server did not know, so that it made the topic later
    ("server-0.9.0-edge.5-log", "auto", {8: 1009, 12: 0, 14: 2013}),
]


@pytest.mark.parametrize(("name", "setting", "others"), CASES, ids=lambda value: str(value)[:30])
def test_real_servers_exchanges_have_the_same_statuses_here(
    name: str, setting: Setting, others: dict[int, int]
) -> None:
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    replicated = recorded["revision"] == "R3"
    found: dict[int, tuple[str, int, int]] = {}

    async def main() -> None:
        config = IggyFaceConfig(address="127.0.0.1", revision=setting)
        async with iggy_face(config=config) as face:
            replayed = Replayed(face, replicated)
            for number, exchange in enumerate(recorded["exchanges"]):
                request = bytes.fromhex(exchange["request"])
                reply = exchange["reply"]
                theirs = (
                    answer_of(bytes.fromhex(reply), replicated) if reply else Answer(UNANSWERED)
                )
                ours = await replayed.ask(request)
                if not replicated and struct.unpack_from("<I", request, 4)[0] == CREATE_TOKEN:
                    replayed.note_secret(theirs.body, ours.body)
                if ours.status != theirs.status:
                    found[number] = (exchange["name"], theirs.status, ours.status)

    virtual_time.run(main())
    assert {number: status for number, (_, _, status) in found.items()} == others, found
