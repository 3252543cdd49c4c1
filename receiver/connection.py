"""One connection as its session and its dialect see it: outgoing frames, acknowledgements, memory,
and tasks that end with it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from logdrive.errors import StorageError
from logdrive.host.transport import ByteStream
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

_LOGGED_CODES = (
    RefusalCode.NOT_ALLOWED,
    RefusalCode.NO_ROUTE,
    RefusalCode.NO_PROGRESS,
    RefusalCode.BAD_ATTRIBUTES,
)
"""Refusals of a source that its writer, or an operator, has to mend."""


class Disconnect(Exception):  # noqa: N818 - the reason to end a connection, not always an error
    """The reason why we end a connection on purpose.

    A `logdrive/1` peer is sent *code* and *text* in an E frame first (rule D1). With *finish*, what
    was received is made durable and acknowledged before. *logged* is True if the log has the reason
    already.
    """

    def __init__(
        self, code: RefusalCode, text: str, *, finish: bool = False, logged: bool = False
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.finish = finish
        self.logged = logged


class ConnectionContext:
    """State of one connection, shared by its session and its dialect."""

    __slots__ = (
        "_finishing",
        "_group",
        "_tasks",
        "acks",
        "allocation",
        "disconnect_reason",
        "host",
        "identity",
        "log",
        "offset",
        "on_disconnect",
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
        """The client identity that sources belong to (rule D6)."""
        self.log = services.log.bind(peer=stream.peer.address, identity=stream.peer.identity)
        self.version = VERSION_2
        """Version byte of our acknowledgements."""
        self.outbox = Outbox(stream, services.outbox_bytes)
        self.allocation: Allocation = services.memory.open_allocation()
        self.acks = AckQueue(self._acknowledge)
        self.offset = 0
        """Bytes of the peer's stream in whole frames so far."""
        self.disconnect_reason: Disconnect | None = None
        """Why the connection is to end, once something has asked for it."""
        self.on_disconnect: Callable[[], None] = lambda: None
        """Called when a reason is set; the session ends the wait that it is in."""
        self._finishing = False  # reading is over
        self._group = group
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order of their start

    def start_task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run *work* as a task until it ends, is cancelled, or the connection ends."""
        task = self._group.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def cancel_tasks(self) -> None:
        """Cancel the tasks that `start_task` started and that still run."""
        for task in list(self._tasks):
            task.cancel()

    def disconnect(self, farewell: Disconnect) -> None:
        """Ask the session to end the connection, at its next wait; only the first reason counts.

        While what was received is being finished, a reason that would only finish it is ignored.
        """
        if self.disconnect_reason is None and not (farewell.finish and self._finishing):
            self.disconnect_reason = farewell
            self.on_disconnect()

    def begin_finishing(self) -> None:
        """Note that reading is over and that what was received is being finished: from now on only
        a reason that ends this, too, counts.
        """
        self.disconnect_reason, self._finishing = None, True

    def peer_header(self, dialect: str) -> msgspec.Raw:
        """Return the field `peer` of this connection's batch headers."""
        return msgspec.Raw(
            msgspec.json.encode(
                {"address": self.host, "identity": self.identity, "dialect": dialect}
            )
        )

    def send_refusal(self, index: int, code: RefusalCode, text: str) -> None:
        """Send an E frame for the source with *index*, or for the connection (`CONNECTION`).

        The refusal of a source is logged if its writer, or an operator, has to mend something.
        """
        # the reason for the end of a connection is logged where it ends
        if index != CONNECTION and code in _LOGGED_CODES:
            self.log.warning("source refused", index=index, code=int(code), reason=text)
        self.outbox.enqueue(
            RefusalFrame(
                index, code, text.encode()[: LOGDRIVE_1.error_text].decode(errors="ignore")
            ).encode()
        )
        self.services.counters.count_refusal(code)

    def on_append_settled(self, size: int, future: "asyncio.Future[None]") -> BaseException | None:
        """Give back the *size* bytes of an append that has settled; return why it failed, None if
        it did not.

        A `StorageError` ends the receiver, a failure of another kind is counted.
        """
        self.allocation.remove_submitted(size)
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is not None:
            self.services.counters.sink_failures += 1
        if isinstance(error, StorageError):
            self.services.failure.set_error(error)
        return error

    def _acknowledge(self, numbers: list[int]) -> None:
        # a disk that failed once is not trusted again
        if self.services.failure.error is not None:
            return

        for number in numbers:
            self.outbox.enqueue(AckFrame(number).encode(self.version), ack=True)
        self.services.counters.windows_acknowledged += len(numbers)
