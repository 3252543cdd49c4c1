"""First run: the agent asks the store whether it was here before, where `start = "end"` is set and
there is no checkpoint (rule P2, ADR 15).

A source of its own stands for the agent. Its origin id is made of agent and host alone, as no
file's is; all that is ever stored of it is an end record, `first_run`. If the store has that
record, this is no first run: the checkpoint was lost, files that the store does not know are new,
and they are read from their beginning. Until the answer comes, files wait whose start depends on
it.

The record is sent only once the checkpoint holds the decision. Otherwise an agent that is killed in
between would take its own record for that of an earlier run.
"""

from typing import Any
from uuid import UUID

from agent.sources.identity import FirstLine, Identity
from agent.sources.place import FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import Labels
from agent.sources.registration import NextStep
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.model.numbers import LOST, NOT_KEPT
from logdrive.records.runs import FIRST_RUN, GapOrEndMark, make_end_run


def log_start_decision(log: Any, number: int, files: int) -> None:
    """Log where *files*, as many as waited for the store's answer, begin.

    *number* is the answer: negative for none, `NOT_KEPT` from a peer that keeps no numbers.
    """
    if number >= 0:
        log.warning(
            "checkpoint lost: files that the receiver does not know are read from their beginning",
            files=files,
        )
    elif number in (NOT_KEPT, LOST):
        log.warning(
            "unknown whether this agent has run before: files begin at their end",
            files=files,
        )
    else:
        log.info("first run: files begin at their end", files=files)


class FirstRunSource(Source):
    """The source of the agent itself.

    It registers first on the first connection. Later connections register what
    `SourceRegistry.revive_first_run` makes of its entry.
    """

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        clock: Clock,
        path: str,
        labels: Labels,
        log: Any,
    ) -> None:
        identity = Identity(registry.agent, registry.host, "", 0, 0, b"")
        super().__init__(
            None,
            registry.incarnations_of(identity.stem, identity),
            registry.encode_attributes(path, labels),
            count=0,
            ended=GapOrEndMark(FIRST_RUN),
        )
        self._registry = registry
        self._send_queue = send_queue
        self._clock = clock
        self._log = log
        self._deciding = False  # whether the record waits for the checkpoint

        self.registration.require()
        registry.add_source(self, FileLocation(path, path, "", 0, 0, 0), FirstLine(b"", 0, 0))

    def on_position(self, number: int, store: UUID, now_ms: int) -> NextStep:
        """Handle the store's answer: decide where files begin; send the record if it has none."""
        decided = self._registry.decide_starts(here_before=number >= 0, now_ms=now_ms)
        for source in decided:
            self._send_queue.enqueue(source, self._clock.monotonic())
        if decided:
            log_start_decision(self._log, number, len(decided))

        step = super().on_position(number, store, now_ms)
        has_record = number >= 0 or number == NOT_KEPT
        if not has_record and not self.unacknowledged and not self._deciding:
            self._deciding = True
            # the checkpoint must hold the files' starts before the store says that we ran
            if decided:
                self._registry.call_after_write(self._send_record)
            else:
                self._send_record()
        return step

    def open_unregistered(self) -> None:
        """End it once the checkpoint holds the starts: this peer keeps no record (rule D8)."""
        super().open_unregistered()
        if not self.unacknowledged and not self._deciding:
            self._deciding = True
            self._registry.call_after_write(self._send_record)

    def _send_record(self) -> None:
        """Send the record that tells the next run without a checkpoint that this one was."""
        self._deciding = False
        self.add_runs([make_end_run(0, GapOrEndMark(FIRST_RUN), self._clock.now_ms())])
        self._send_queue.enqueue(self, self._clock.monotonic())
