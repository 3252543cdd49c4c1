"""Messages of a poll's reply, at a client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_loops import cut_messages
from logdrive.kernel.iggy_polled import FaultyMessagesError, polled_messages
from logdrive.model.framing import Part
from logdrive.wire.iggy.messages.layouts import fault_error, layout_of
from logdrive.wire.iggy.revision import Revision


class IggyMessage(NamedTuple):
    """A message of a partition; times in µs since 1970, *headers* in R2C's form (`headers.py`)."""

    offset: int
    id: int
    timestamp: int
    # 0 before R2A
    origin: int
    headers: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class PolledRun:
    """*count* messages with consecutive offsets from *offset* on: their payloads as *events*.

    `logdrive.model.framing.split_events` takes them apart.
    """

    offset: int
    count: int
    events: bytes


def decode_polled(revision: Revision, batches: Part) -> Iterator[IggyMessage]:
    """Yield the messages of `Polled.batches`. Raises `IggyError` where one is cut off or damaged.

    About 2 µs a message; `polled_runs` is the fast way to the payloads.
    """
    layout, at = layout_of(revision), 0
    typed = layout >= forms.HEAD_64
    try:
        while at < len(batches):
            for message in polled_messages(layout, batches, at):
                headers = bytes(batches[message.headers : message.headers_end])
                if headers and not typed:
                    headers = _typed(revision, headers)
                yield IggyMessage(
                    message.offset,
                    int.from_bytes(message.id, "little"),
                    message.timestamp,
                    message.origin,
                    headers,
                    bytes(batches[message.payload : message.payload_end]),
                )
                at = message.end
    except FaultyMessagesError as error:
        raise fault_error(revision, error.fault) from None


def _typed(revision: Revision, headers: bytes) -> bytes:
    """Return *headers*, whose keys are texts, in R2C's form."""
    fault = forms.headers_fault(headers, 0, len(headers), typed=False)
    if fault:
        raise fault_error(revision, fault)
    return forms.add_key_kinds(headers)


def polled_runs(revision: Revision, batches: Part) -> Iterator[PolledRun]:
    """Yield the payloads of `Polled.batches` in runs. Raises `IggyError` as `decode_polled` does.

    A run ends where an offset is missing; in R3 each record is a run of its own.
    """
    layout, at = layout_of(revision), 0
    while at < len(batches):
        events, offset, count, at, fault = cut_messages(layout, batches, at)
        if count:
            yield PolledRun(offset, count, events)
        if fault != forms.NONE:
            raise fault_error(revision, fault)
