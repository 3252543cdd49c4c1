"""Whether this agent was here before: asked of the store, for `start = "end"` without a checkpoint
(rule P2, ADR 15).

One source stands for the agent itself. Its origin is made of agent and host alone, as no file's is;
all that is ever stored of it is an end record, `first_run`. Where the store has that, this is no
first run, and the checkpoint was lost: files that the store does not know came later, and are read
from their beginning. Until the answer is there, files wait whose start depends on it.

The record is sent only once the checkpoint holds the decision. Otherwise an agent that is killed in
between would take its own record for that of an earlier run.
"""

from typing import Any
from uuid import UUID

from agent.records.batch import FIRST_RUN, Mark, end_run
from agent.sources.identity import FirstLine, Identity
from agent.sources.place import FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import Labels
from agent.sources.registry import SourceRegistry
from agent.sources.source import NextStep, Source
from logdrive.host.clock import Clock
from logdrive.model.numbers import LOST, NOT_KEPT


def log_start_decision(log: Any, number: int, files: int) -> None:
    """Log where *files* begin whose start depended on the answer *number* of the store,
    `record.NOT_KEPT` where none is to be had.
    """
    if number >= 0:
        log.warning(
            "checkpoint lost: files that the receiver does not know are read from their beginning",
            files=files,
        )
    elif number in (NOT_KEPT, LOST):
        log.warning(
            "nobody can tell whether this agent was here before: files begin at their end",
            files=files,
        )
    else:
        log.info("first run: files begin at their end", files=files)


class FirstRunSource(Source):
    """The source of the agent itself.

    It registers first on the first connection; later ones register what `SourceRegistry.ended` has
    of it.
    """

    def __init__(
        self,
        book: SourceRegistry,
        demand: SendQueue,
        clock: Clock,
        path: str,
        labels: Labels,
        log: Any,
    ) -> None:
        identity = Identity(book.agent, book.host, "", 0, 0, b"")
        super().__init__(
            None,
            book.incarnations_of(identity.stem, identity),
            book.encode_attributes(path, labels),
            count=0,
        )
        self._book, self._demand, self._clock, self._log = book, demand, clock, log
        self._deciding = False
        self.ended = Mark(FIRST_RUN)
        self.must_register = True
        book.add_source(self, FileLocation(path, path, "", 0, 0, 0), FirstLine(b"", 0, 0))

    def on_position(self, number: int, store: UUID, now_ms: int) -> NextStep:
        """Take the store's answer: decide where files begin, and leave a record where it has
        none.
        """
        decided = self._book.decide_starts(here_before=number >= 0, now_ms=now_ms)
        for source in decided:
            self._demand.enqueue(source, self._clock.monotonic())
        if decided:
            log_start_decision(self._log, number, len(decided))
        outcome = super().on_position(number, store, now_ms)
        if number < 0 and number != NOT_KEPT and not self.kept and not self._deciding:
            self._deciding = True
            if decided:
                self._book.after_write.append(self._leave)
            else:
                self._leave()
        return outcome

    def _leave(self) -> None:
        """Send the record by which the next run without a checkpoint will know."""
        self._deciding = False
        self.add_runs([end_run(0, Mark(FIRST_RUN), self._clock.now_ms())])
        self._demand.enqueue(self, self._clock.monotonic())
