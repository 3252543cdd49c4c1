"""An Iggy client that costs next to nothing: a blocking socket, and frames that were made before.

For loads where the server is to be the limit. It speaks every revision, as it is told.
"""

import os
import socket
from typing import Final, TypeVar

from bench.processes import BenchmarkError
from logdrive.wire.iggy.commands import COMMAND_BY_REQUEST, REGISTER
from logdrive.wire.iggy.errors import error_of
from logdrive.wire.iggy.frames import ReplyFrames, encode_request_frame
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import IggyLogin, IggyRequest, IggyRequestFor
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.frames import VsrReplies, VsrReply, encode_vsr_request
from logdrive.wire.iggy.vsr.headers import RequestHeader
from logdrive.wire.iggy.vsr.register import (
    CURRENT_PROTOCOL,
    IggyRegistration,
    decode_registered,
    encode_register,
)
from logdrive.wire.iggy.vsr.results import unframe_result

R = TypeVar("R")

_RECV_BYTES = 1 << 20
_SECONDS = 120.0
_LOGIN = ("iggy", "iggy")
# the versions of libraries that speak these revisions
_VERSIONS: Final = {Revision.R1: "0.6.202", Revision.R2C: "0.10.0"}


class IggySocket:
    """One connection, logged in where the revision has a login; requests are answered in order."""

    def __init__(self, port: int, revision: Revision) -> None:
        self.revision = revision
        self._sock = socket.create_connection(("127.0.0.1", port))
        self._sock.settimeout(_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._classic, self._vsr = ReplyFrames(), VsrReplies()
        self._client, self._session, self._number = os.urandom(16), 0, 0
        if revision is Revision.R3:
            self._register()
        elif revision is not Revision.R0:
            self.call(IggyLogin(*_LOGIN, _VERSIONS[revision], ""))

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def frame_of(self, request: IggyRequest) -> bytes:
        """Return the bytes that send *request*; those of a send or a poll may be sent again."""
        code, payload = encode_request(self.revision, request)
        if self.revision is not Revision.R3:
            return encode_request_frame(code, payload)
        self._number += 1
        return encode_vsr_request(
            code, payload, client=self._client, number=self._number, session=self._session
        )

    def send(self, frame: bytes) -> None:
        """Send *frame*."""
        self._sock.sendall(frame)

    def next_payload(self, request: type[IggyRequest]) -> bytes | memoryview:
        """Return what the next reply has, which answers such a *request*.

        Raises `BenchmarkError`, and `IggyError` for one that tells a failure.
        """
        if self.revision is Revision.R3:
            reply = self._next_vsr_reply()
            if reply.header.status:
                raise error_of(self.revision, reply.header.status)
            return unframe_result(COMMAND_BY_REQUEST[request].operation, reply.body)
        while (frame := self._classic.next_frame()) is None:
            self._classic.receive(self._receive())
        if frame.status:
            raise error_of(self.revision, frame.status)
        return frame.payload

    def call(self, request: IggyRequestFor[R]) -> R:
        """Send *request* and return its reply. Raises `IggyError`, `BenchmarkError`."""
        self.send(self.frame_of(request))
        return decode_reply(self.revision, request, self.next_payload(type(request)))

    def _register(self) -> None:
        body = encode_register(
            IggyRegistration(CURRENT_PROTOCOL, "rust-sdk", "0.11.0", IggyLogin(*_LOGIN))
        )
        self.send(RequestHeader(self._client, REGISTER, len(body)).encode() + body)
        reply = self._next_vsr_reply()
        if reply.header.status:
            raise error_of(self.revision, reply.header.status)
        self._session = decode_registered(unframe_result(REGISTER, reply.body)).session

    def _next_vsr_reply(self) -> VsrReply:
        while (reply := self._vsr.next_reply()) is None:
            self._vsr.receive(self._receive())
        if not isinstance(reply, VsrReply):
            raise BenchmarkError(f"the session was ended: {reply}")
        return reply

    def _receive(self) -> bytes:
        data = self._sock.recv(_RECV_BYTES)
        if not data:
            raise BenchmarkError("the server closed the connection")
        return data
