"""Control desk: answers the requests of operators. No I/O but on the files that are concerned."""

import asyncio
from typing import Final

import msgspec

from agent.control.changes import SourceChanges
from agent.control.messages import (
    AgentStatus,
    Change,
    ControlAnswer,
    ControlError,
    RuleStatus,
    StatusRequest,
    decode_request,
    encode_answer,
)
from agent.control.selection import select_sources, select_unreadable
from agent.health import STARTING, AgentHealth
from agent.status import SourceReporter
from agent.version import agent_version
from logdrive.host.clock import Clock

_SECONDS: Final = 5.0
"""Limit on how long a change waits for the checkpoint, which is written each second."""


class ControlDesk:
    """Answers one line with another."""

    def __init__(self, health: AgentHealth, changes: SourceChanges, clock: Clock) -> None:
        self._health = health
        self._changes = changes
        self._clock = clock

    async def answer(self, line: bytes) -> bytes:
        """Return the answer to the request in *line*, both with their line end."""
        try:
            request = decode_request(line)
            if isinstance(request, StatusRequest):
                answer = ControlAnswer(ok=True, status=await self._status(request))
            elif self._health.phase == STARTING:
                raise ControlError(
                    "the agent is still looking for its files, this one perhaps: try again once "
                    "`logdrive agent status` says no more that it is starting"
                )
            else:
                change = self._changes.change(request)
                if change.done:
                    change = await self._made_durable(change)
                answer = ControlAnswer(ok=True, change=change)
        except ControlError as error:
            answer = ControlAnswer(ok=False, error=str(error))
        return encode_answer(answer)

    async def _made_durable(self, change: Change) -> Change:
        """Return *change* once the checkpoint has it, as an agent that is killed before does not
        know of it; or, if that takes too long, marked as not durable.
        """
        durable, registry = asyncio.Event(), self._health.registry
        registry.mark_changed()
        registry.call_after_write(durable.set)
        try:
            async with asyncio.timeout(_SECONDS):
                await durable.wait()
        except TimeoutError:
            return msgspec.structs.replace(change, durable=False)
        return change

    async def _status(self, request: StatusRequest) -> AgentStatus:
        health = self._health
        registry, connection = health.registry, health.connection
        health.look_if_stale()
        now = self._clock.monotonic()
        reporter = SourceReporter(registry, health.followed, health.lag, now)
        matching, sources = await select_sources(request, registry, reporter, health.lag, now)
        unreadable = select_unreadable(request, health.followed)
        total = health.total

        return AgentStatus(
            agent=registry.agent,
            version=agent_version(),
            phase=health.phase,
            uptime_seconds=round(health.uptime_seconds, 1),
            host=connection.host,
            problem=connection.problem,
            files=len(health.followed),
            unreadable=sum(bool(file.trouble) for file in health.followed),
            living=len(registry.sources),
            ended=len(registry.ended),
            absent=len(registry.absent),
            behind=total.behind,
            events=total.totals.acknowledged.events,
            bytes=total.totals.acknowledged.bytes,
            gap_bytes=total.totals.acknowledged.gap_bytes,
            rate=round(health.lag.total_rate, 1),
            lag_bytes=total.lag_bytes,
            lag_seconds=round(total.lag_seconds, 3),
            rules=[
                RuleStatus(
                    input=name,
                    processor=counter.number,
                    action=counter.action,
                    rule=counter.rule,
                    events=counter.events,
                    bytes=counter.bytes,
                    matches=counter.matches,
                )
                for name, counter in health.rules()
            ],
            matching=matching + len(unreadable),
            sources=sources,
            unreadable_files=unreadable[: request.limit - len(sources)],
        )
