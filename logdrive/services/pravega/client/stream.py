"""The map from routing keys to a stream's current segments; refreshed when scaling seals one."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.net.retry import Exponential, retry_async
from logdrive.services.pravega.client.cluster import Cluster
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.wire.pravega.routing import key_fraction

_WAIT = Exponential(0.1, 5.0)


class StreamMap:
    """The segments of one stream at *service* that take appends; *changed* is called before others
    take their place.

    With a controller, `run` must run as a task: it asks for the successors of sealed segments.
    *changed* is called before the current segments are replaced. Without a controller they never
    change.
    """

    def __init__(
        self, segments: Sequence[StreamSegment], service: Cluster, changed: Callable[[], None]
    ) -> None:
        self._service = service
        self._on_change = changed
        # Current segments that are known to be sealed.
        self._sealed: dict[str, None] = {}
        # Set when `run` must ask for the current segments.
        self._wanted = asyncio.Event()
        # Set and cleared when they were replaced.
        self._changed = asyncio.Event()
        self._replace(segments)

    def _replace(self, segments: Sequence[StreamSegment]) -> None:
        self.segments = sorted(segments, key=lambda segment: segment.high)
        self._bounds = [segment.high for segment in self.segments]
        self._by_name = {segment.name: segment for segment in self.segments}

    def segment_for_key(self, key: str) -> StreamSegment:
        """Return the segment that the routing key *key* belongs to, by Pravega's hash."""
        return self.segments[
            min(bisect_left(self._bounds, key_fraction(key)), len(self.segments) - 1)
        ]

    def find_current(self, name: str) -> StreamSegment | None:
        """Return the segment with the full name *name*, None if it is not a current one."""
        return self._by_name.get(name)

    def on_sealed(self, name: str) -> None:
        """Record that the segment *name* is sealed, and wake `run` to ask for its successors."""
        if self._service.controller is not None and name in self._by_name:
            self._sealed[name] = None
            self._wanted.set()

    async def wait_current(self) -> None:
        """Wait until no current segment is known to be sealed."""
        while self._sealed:
            await self._changed.wait()

    async def run(self) -> None:
        """Ask for the current segments whenever one was found sealed, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._sealed:
                until_known = retry_async(
                    LogdriveError,
                    sleep=self._service.clock.sleep,
                    wait=_WAIT,
                    on_failure=_warning_of_each_reason(),
                )
                await until_known(self._refresh)

    async def _refresh(self) -> None:
        controller, first = self._service.controller, self.segments[0]
        assert controller is not None
        current = await controller.current_segments(first.scope, first.stream)
        if not current:
            raise TransientError(
                f"the stream {first.scope}/{first.stream} is sealed: let the sink's uri "
                "name another"
            )

        # the controller lists the sealed segment until the scaling is complete: ask again
        names = {segment.name: None for segment in current}
        if still := [name for name in self._sealed if name in names]:
            raise TransientError(f"{still[0]} is sealed, and no segment follows it yet")

        # each must have a connection before appends are routed to it
        for segment in current:
            await self._service.locate_connection(segment)
        self._on_change()
        self._sealed.clear()
        self._replace(current)
        self._changed.set()
        self._changed.clear()
        structlog.get_logger("logdrive.sinks").info(
            "the stream was scaled", stream=f"{first.scope}/{first.stream}", segments=len(current)
        )


def _warning_of_each_reason() -> Callable[[BaseException, float], None]:
    """Return a function that logs a failure, but not the same one twice in a row."""
    last = ""

    def warn(error: BaseException, _: float) -> None:
        nonlocal last
        if str(error) != last:
            structlog.get_logger("logdrive.sinks").warning(
                "the segments that follow are not known yet", reason=str(error)
            )
        last = str(error)

    return warn
