"""One connection as its session sees it: frames out, acknowledgements in window order, memory held,
tasks that end with it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from logdrive.errors import StorageError
from logdrive.net.stream import ByteStream
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    VERSION_2,
    AckFrame,
    RefusalCode,
    RefusalFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1
from receiver.acks import AckQueue
from receiver.memory_budget import Allocation
from receiver.outbox import Outbox
from receiver.services import ReceiverServices

_TO_BE_MENDED = (
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)


class Disconnect(Exception):  # noqa: N818 - it ends a conversation, which need be nobody's error
    """We end the connection on purpose; a `logdrive/1` peer is told *code* and *text* (rule D1:
    before every deliberate close).

    With *finish* what was received is made durable and acknowledged first. *told*: the log says why
    already.
    """

    def __init__(
        self, code: RefusalCode, text: str, *, finish: bool = False, logged: bool = False
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.finish, self.logged = code, text, finish, logged


class ConnectionContext:
    """What a session has of its connection. *version* is the byte that acknowledgements carry."""

    __slots__ = (
        "_finishing",
        "_group",
        "_tasks",
        "account",
        "acks",
        "farewell",
        "host",
        "identity",
        "log",
        "offset",
        "on_leave",
        "outbox",
        "peer",
        "services",
        "version",
    )

    def __init__(
        self, services: ReceiverServices, stream: ByteStream, group: asyncio.TaskGroup
    ) -> None:
        self.services = services
        self.peer = stream.peer
        self.host = stream.peer.address.rpartition(":")[0]
        self.identity = services.identity_of(stream.peer)
        self.log = services.log.bind(peer=stream.peer.address, identity=stream.peer.identity)
        self.version = VERSION_2
        self.outbox = Outbox(stream, services.outbox_bytes)
        self.allocation: Allocation = services.memory.open_allocation()
        self.acks = AckQueue(self._acknowledge)
        self.offset = 0
        """Bytes of the peer's stream in whole frames so far."""
        self.disconnect_reason: Disconnect | None = None
        self._finishing = False
        self.on_disconnect: Callable[[], None] = lambda: None
        self._group = group
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start_task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run *work* until it ends, is cancelled, or the connection ends."""
        task = self._group.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def cancel_tasks(self) -> None:
        """End what was spawned."""
        for task in list(self._tasks):
            task.cancel()

    def disconnect(self, farewell: Disconnect) -> None:
        """End the connection as soon as its reader looks up, which `on_disconnect` makes it do; the
        first reason counts.
        """
        if self.disconnect_reason is None and not (farewell.finish and self._finishing):
            self.disconnect_reason = farewell
            self.on_disconnect()

    def begin_finishing(self) -> None:
        """Reading is over, and what was received is being finished: only what ends that too is a
        reason to leave now.
        """
        self.disconnect_reason, self._finishing = None, True

    def peer_header(self, dialect: str) -> msgspec.Raw:
        """Return the `peer` of this connection's batch headers."""
        return msgspec.Raw(
            msgspec.json.encode(
                {"address": self.host, "identity": self.identity, "dialect": dialect}
            )
        )

    def send_refusal(self, index: int, code: RefusalCode, text: str) -> None:
        """Send E for a source, or for the connection; of a source, say so where its writer, or an
        operator, has to mend something.
        """
        if index != CONNECTION and code in _TO_BE_MENDED:
            self.log.warning("source refused", index=index, code=int(code), reason=text)
        self.outbox.enqueue(
            RefusalFrame(
                index, code, text.encode()[: LOGDRIVE_1.error_text].decode(errors="ignore")
            ).encode()
        )
        self.services.counters.count_refusal(code)

    def on_append_settled(self, size: int, future: "asyncio.Future[None]") -> BaseException | None:
        """Book *size* bytes as no longer held; return why their append failed, if it did, having
        told whom that concerns.
        """
        self.allocation.remove_submitted(size)
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self.services.counters.sink_failures += 1
        if isinstance(error, StorageError):
            self.services.failure.set_error(error)
        return error

    def _acknowledge(self, numbers: list[int]) -> None:
        if self.services.failure.error is not None:  # a disk that failed once is not believed again
            return
        for number in numbers:
            self.outbox.enqueue(AckFrame(number).encode(self.version), ack=True)
        self.services.counters.windows_acknowledged += len(numbers)
