"""The agent's figures for Prometheus. Their number depends on the inputs, never on the files."""

import os
import resource
from collections.abc import Callable
from typing import Final

from agent.health import RUNNING, AgentHealth, InputFigures
from agent.metrics.text import Family
from agent.version import agent_version

_PAGE_BYTES: Final = resource.getpagesize()

_BY_INPUT: Final[tuple[tuple[str, str, str, Callable[[InputFigures], float]], ...]] = (
    ("sources", "gauge", "Sources that have not ended: lives of files.", lambda one: one.sources),
    (
        "sources_behind",
        "gauge",
        "Sources of which something can be sent and is not acknowledged.",
        lambda one: one.behind,
    ),
    ("lag_bytes", "gauge", "Bytes seen and not acknowledged.", lambda one: one.lag_bytes),
    (
        "lag_seconds",
        "gauge",
        "How long the oldest line that can be sent has waited at least, in seconds.",
        lambda one: one.lag_seconds,
    ),
    ("events_total", "counter", "Events acknowledged.", lambda one: one.totals.acknowledged.events),
    (
        "bytes_total",
        "counter",
        "Bytes of files acknowledged, gaps left out.",
        lambda one: one.totals.acknowledged.bytes,
    ),
    (
        "gap_bytes_total",
        "counter",
        "Bytes of gaps acknowledged: not sent, for the reason in their records.",
        lambda one: one.totals.acknowledged.gap_bytes,
    ),
    (
        "truncated_events_total",
        "counter",
        "Events of which a part was left out, as they were over longest_event_bytes.",
        lambda one: one.totals.truncated,
    ),
)
"""Name without `logdrive_agent_`, kind, text, and value of each figure that inputs have."""


def agent_families(health: AgentHealth) -> list[Family]:
    """Return the figures as of now. Takes about 2 µs for each source."""
    health.look_if_stale()
    connection, registry = health.connection, health.registry
    families = [
        _family(
            "info",
            "gauge",
            "1, with the agent's id and version.",
            1,
            agent=registry.agent,
            version=agent_version(),
        ),
        _family("up_seconds", "gauge", "Seconds since the start.", health.uptime_seconds),
        _family(
            "running", "gauge", "1 unless the agent starts or drains.", health.phase == RUNNING
        ),
        _family("ready", "gauge", "What /readyz says: 1 or 0.", not health.not_ready_because),
        _family("connected", "gauge", "1 while connected to a receiver.", bool(connection.host)),
        _family(
            "connections_total",
            "counter",
            "Connections made.",
            connection.counts.made,
        ),
        _family(
            "connection_failures_total",
            "counter",
            "Connections that failed or ended with an error.",
            connection.counts.failed,
        ),
        _family("files", "gauge", "Files followed.", len(health.followed)),
        _family(
            "files_with_trouble",
            "gauge",
            "Files that can't be read now.",
            sum(bool(file.trouble) for file in health.followed),
        ),
        _family("ended_sources", "gauge", "Ended sources in the checkpoint.", len(registry.ended)),
        _family(
            "absent_sources",
            "gauge",
            "Sources whose files can't be looked for, or that no input names.",
            len(registry.absent),
        ),
    ]
    for name, kind, text, value in _BY_INPUT:
        family = Family(f"logdrive_agent_{name}", kind, text)  # type: ignore[arg-type]
        for label, figures in health.inputs.items():
            family.add(value(figures), input=label)
        families.append(family)
    return [*families, _format_family(health), *_rule_families(health), *_process_families()]


def _format_family(health: AgentHealth) -> Family:
    """Return how many lines had their format, of inputs that name one."""
    family = Family(
        "logdrive_agent_format_lines_total", "counter", "Lines by what their format said."
    )
    for label, figures in health.inputs.items():
        totals = figures.totals
        if totals.parsed or totals.failed:
            family.add(totals.parsed, input=label, result="parsed")
            family.add(totals.failed, input=label, result="failed")
    return family


def _rule_families(health: AgentHealth) -> list[Family]:
    """Return what processors did."""
    families = [
        Family(
            "logdrive_agent_processor_events_total",
            "counter",
            "Events dropped, held back or changed.",
        ),
        Family("logdrive_agent_processor_bytes_total", "counter", "Bytes of the events dropped."),
        Family(
            "logdrive_agent_processor_matches_total",
            "counter",
            "Places where something was replaced.",
        ),
    ]
    for name, counter in health.rules():
        labels = {
            "input": name,
            "processor": str(counter.number),
            "action": counter.action,
            "rule": counter.rule,
        }
        values = (counter.events, counter.bytes, counter.matches)
        for family, value in zip(families, values, strict=True):
            family.add(value, **labels)
    return families


def _family(name: str, kind: str, text: str, value: float, **labels: str) -> Family:
    family = Family(f"logdrive_agent_{name}", kind, text)  # type: ignore[arg-type]
    family.add(float(value), **labels)
    return family


def _process_families() -> list[Family]:
    """Return figures of the process, by the names that they have everywhere."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    families = [
        Family("process_cpu_seconds_total", "counter", "Time on the CPU, in seconds."),
        Family("process_resident_memory_bytes", "gauge", "Memory in use, in bytes."),
        Family("process_open_fds", "gauge", "Open files and connections."),
    ]
    families[0].add(used.ru_utime + used.ru_stime)
    try:
        with open("/proc/self/statm", "rb") as file:
            families[1].add(int(file.read().split()[1]) * _PAGE_BYTES)
        families[2].add(len(os.listdir("/proc/self/fd")))
    except OSError:
        return families[:1]  # no /proc, as in some containers
    return families
