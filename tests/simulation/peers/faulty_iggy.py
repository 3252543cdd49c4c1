"""An Iggy with the faults of real servers as the shared store of a history (docs/adr/0027).

It acknowledges what a crash loses or tears, stores a send late, twice, or behind the next one,
leaves sends unanswered, and hides its list of clients. What it has told is kept apart from what it
has, so that a judge knows what may be missing, and that nothing else may.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

import orjson

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.record_walker import frame_batch
from logdrive.services.iggy.batches import BATCH_HEADER, NUMBER_HEADER
from logdrive.services.iggy.reader.polling import (
    IggyRequester,
    Partition,
    PartitionReading,
    partition_states,
)
from logdrive.wire.iggy.messages.envelope import StoredMessage, decode_message
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.pravega.names import segment_name
from tests.simulation.hosts.process import Process
from tests.simulation.hosts.programs import IGGY_PORT, SEGMENTS
from tests.simulation.judging.arrivals import Batch
from tests.simulation.plan import Plan
from tests.simulation.trace import Trace
from tests.support.iggy.faulty import FaultyIggy
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork

FAULTS = (
    "crashes amid sends",
    "stores a send twice",
    "stores a send behind the next",
    "answers no send",
    "cuts all connections",
)
"""What may come with a send, as the trace has it."""
_HELD_SECONDS = 2.0  # until a send that is held is stored though none follows
_SILENT_SECONDS = 5.0  # without answers, then all connections are cut


class FaultyIggyHost(Process):
    """A host with a `FaultyIggy`; with a plan of "drawn" faults these come amid sends."""

    def __init__(self, name: str, plan: Plan, network: MemoryNetwork, trace: Trace) -> None:
        super().__init__(name, network, trace, plan.seed, MemoryDisk())
        # what the server has in memory and on its disk
        self.iggy = FaultyIggy(Revision.R2C, partitions=SEGMENTS)
        # True: it saves each send before it acknowledges it
        self.saves = False
        self._pick = Random(f"iggy {plan.seed}")
        # messages of each partition that a crash leaves at least
        self._saved = [0] * SEGMENTS
        if plan.faulty_iggy == "drawn":
            self._draw()

    def _draw(self) -> None:
        """Choose how the server is, and which of its faults come with a send, and how often."""
        pick, iggy = self._pick, self.iggy
        iggy.revision = pick.choice((Revision.R1, Revision.R2C))
        iggy.lists_clients = pick.random() < 0.8
        iggy.store_seconds = pick.choice((0.0, 0.0, 0.01, 0.3, 2.0))
        self.saves = pick.random() < 0.3
        self._often = {kind: pick.choice((0.0, 0.05, 0.2)) for kind in FAULTS}
        iggy.on_send = self._on_send

    async def _main(self, stop: asyncio.Event) -> None:
        transport = self.network.host(self.name)
        await transport.listen("0.0.0.0", IGGY_PORT, None, self.iggy.serve)
        await stop.wait()
        self.iggy.release()

    def kill(self, *, power: bool = False, down: float = 1.0) -> None:
        """End the server: what it has not saved is lost, from any message on."""
        was_running = self.running
        super().kill(power=power, down=down)
        if not was_running:
            return
        self.iggy.answers = True
        if self.saves:
            self.iggy.release()
        lengths = [len(events) for events in self.iggy.stored]
        least = lengths if self.saves else self._saved
        keep = [self._pick.randint(*ends) for ends in zip(least, lengths, strict=True)]
        self.lose(keep)

    def lose(self, keep: Sequence[int]) -> None:
        """Reset all connections; of each partition so many messages are left."""
        lengths = [len(events) for events in self.iggy.stored]
        if list(keep) != lengths:
            self.trace.add(self.name, f"of {lengths} messages {list(keep)} are left")
        self.iggy.crash(list(keep))
        self._saved = list(keep)

    def _on_send(self) -> None:
        """Let a fault come with a send, as it was drawn."""
        if self._calmed:
            return
        pick, iggy, loop = self._pick, self.iggy, asyncio.get_running_loop()
        if pick.random() < 0.3:
            self._saved = [len(events) for events in iggy.stored]
        came = [kind for kind, often in self._often.items() if pick.random() < often]
        for kind in came:
            self.trace.add(self.name, kind)
            match kind:
                case "crashes amid sends":
                    loop.call_later(pick.choice((0.0, 0.05, 1.0)), partial(self._crash, pick))
                case "stores a send twice":
                    iggy.doubles = 1
                case "stores a send behind the next":
                    iggy.swaps = 1
                    loop.call_later(_HELD_SECONDS + iggy.store_seconds, iggy.release)
                case "answers no send":
                    iggy.answers = False
                    loop.call_later(_SILENT_SECONDS, self._speak)
                case _:
                    loop.call_soon(iggy.cut)

    def _crash(self, pick: Random) -> None:
        if not self._calmed:
            self.kill(down=pick.choice((0.0, 0.2, 2.0)))

    def _speak(self) -> None:
        """Answer again. What was not answered never will be, so its connections end."""
        if not self.iggy.answers:
            self.iggy.answers = True
            self.iggy.cut()

    def calm(self) -> None:
        """End all faults."""
        super().calm()
        self.iggy.store_seconds = 0.0
        self.iggy.doubles = self.iggy.swaps = 0
        self.iggy.release()
        self._speak()


async def read_framed(service: IggyRequester, scope: str, stream: str) -> list[bytearray]:
    """Return each partition as the pipeline's reader frames it, up to its last whole batch."""
    framed = []
    for index, state in enumerate(await partition_states(service, scope, stream)):
        reading = PartitionReading(service, Partition(scope, stream, index), 0)
        batches = [frame_batch(*found) async for found in reading.read_batches(state.length)]
        framed.append(bytearray(b"".join(batches)))
    return framed


def foundation(
    peer: FaultyIggy, store: str, scope: str, stream: str
) -> tuple[list[Batch], list[Batch]]:
    """Return the whole batches that *peer* has, and those that it has or acknowledged.

    Of the latter each is there once, and those of a source are in the order of their numbers. The
    code is the tests' own.
    """
    there: list[Batch] = []
    told: dict[str, tuple[str, int, Batch]] = {}
    acknowledged = peer.acknowledged
    for index, events in (*enumerate(peer.stored), *acknowledged):
        segment = segment_name(scope, stream, index)
        for at, (marks, header, records) in _whole(events):
            batch = Batch(store, segment, at, at + 1 + len(records), header, records)
            if events is peer.stored[index]:
                there.append(batch)
            number = int(marks[NUMBER_HEADER])
            told.setdefault(marks[BATCH_HEADER], (str(header["source"]), number, batch))
    ordered = sorted(told.values(), key=lambda one: one[:2])
    return there, [batch for _, _, batch in ordered]


def _whole(
    events: Sequence[bytes],
) -> Iterator[tuple[int, tuple[dict[str, str], dict[str, object], list[bytes]]]]:
    """Yield place, marks, header and records of each batch that is whole."""
    messages = [decode_message(event[EVENT_HEAD:]) for event in events]
    marks = [_marks(message) for message in messages]
    for at, message in enumerate(messages):
        if not marks[at]:
            continue
        header = orjson.loads(message.payload)["logdrive"]
        end = at + 1 + header["records"]
        if end <= len(messages) and not any(marks[at + 1 : end]):
            yield at, (marks[at], header, [bytes(one.payload) for one in messages[at + 1 : end]])


def _marks(message: StoredMessage) -> dict[str, str]:
    """Return the user headers of the first message of a batch; of others there are none."""
    return {str(key.value): str(value.value) for key, value in decode_headers(message.headers)}
