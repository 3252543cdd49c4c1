"""Control desk: answers the requests of operators. No I/O but on the files that are concerned."""

from agent.control.changes import SourceChanges
from agent.control.messages import (
    AgentStatus,
    ControlAnswer,
    ControlError,
    RuleStatus,
    StatusRequest,
    decode_request,
    encode_answer,
)
from agent.control.selection import select_sources, select_unreadable
from agent.health import AgentHealth
from agent.status import SourceReporter
from agent.version import agent_version
from logdrive.host.clock import Clock


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
            else:
                answer = ControlAnswer(ok=True, change=self._changes.change(request))
        except ControlError as error:
            answer = ControlAnswer(ok=False, error=str(error))
        return encode_answer(answer)

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
