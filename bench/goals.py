"""The goals of the figures, which the table compares with what was measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit for a figure itself, or for its ratio to *peer*."""

    at_least: float | None = None
    at_most: float | None = None
    peer: str | None = None

    def met(self, measured: float) -> bool:
        """Return whether *measured* keeps the limit."""
        return (self.at_least is None or measured >= self.at_least) and (
            self.at_most is None or measured <= self.at_most
        )

    def wanted(self) -> str:
        """The limit in words."""
        limit = (
            f"at least {self.at_least:g}"
            if self.at_least is not None
            else f"at most {self.at_most:g}"
        )
        return limit if self.peer is None else f"{limit} × {self.peer}"


_PACKED = {
    "lines_per_second": (
        Goal(at_least=1.6, peer="c_tools_raw_lines"),
        Goal(at_least=40, peer="rsyslog_relp_tls"),
    ),
    "sender_cpu": (Goal(at_most=1.5, peer="igzip_alone"),),
    "receiver_cpu": (Goal(at_most=0.12),),
    "wire_bytes": (Goal(at_most=40),),
    "disk_bytes": (Goal(at_most=40),),
    "sender_rss": (Goal(at_most=64),),
    "receiver_rss": (Goal(at_most=64),),
}
"""Of both rows with packs, by figure."""

_BESIDE_FILEBEAT = (
    "plain",
    "exclude",
    "add",
    "fields",
    "multiline",
    "json",
    "csv",
    "docker",
    "cri",
    "klog",
    "access",
)
"""Rows of `steps` that Filebeat has, too."""

GOALS: dict[str, tuple[Goal, ...]] = {
    **{
        f"end_to_end.{row}.{figure}": goals
        for row in ("packed", "packed_zstd")
        for figure, goals in _PACKED.items()
    },
    "end_to_end.blocks.lines_per_second": (
        Goal(at_least=1.0, peer="c_tools_json_frames"),
        Goal(at_least=15, peer="rsyslog_relp_tls"),
    ),
    "end_to_end.blocks.sender_cpu": (Goal(at_most=0.8),),
    "end_to_end.blocks.receiver_cpu": (Goal(at_most=0.5),),
    "end_to_end.full_records.lines_per_second": (Goal(at_least=1.0, peer="c_tools_json_frames"),),
    "end_to_end.full_records.sender_cpu": (Goal(at_most=1.6),),
    "end_to_end.full_records.receiver_cpu": (Goal(at_most=1.3),),
    **{
        f"append_{writers}.{place}.throughput": (Goal(at_least=0.7, peer="dd_conv_fdatasync"),)
        for writers in (1, 16, 1000)
        for place in ("engine", "face")
    },
    "spark.table.raw_bytes": (Goal(at_least=300), Goal(at_least=1.8, peer="read_text")),
    "spark.table.cpu": (Goal(at_most=0.55, peer="read_text"),),
    "spark.table.first_commit": (Goal(at_most=12),),
    "spark.table.peak_rss": (Goal(at_most=1.5),),
    "spark.table_network.raw_bytes": (Goal(at_least=150),),
    "spark.table_python_loops.cpu": (Goal(at_most=1.2, peer="read_text"),),
    "spark.trickle.p50": (Goal(at_most=250),),
    "spark.keep_up_rate.delay_max": (Goal(at_most=5),),
    "silver.access.raw_bytes": (Goal(at_least=60),),
    "tables.audit.seconds": (Goal(at_most=5),),
    "demo.seconds": (Goal(at_most=45),),
    **{f"steps.{row}.cpu": (Goal(at_most=1, peer=f"filebeat_{row}"),) for row in _BESIDE_FILEBEAT},
    "agent.idle.cpu": (Goal(at_most=2),),
    "agent.idle.rss": (Goal(at_most=64),),
    "agent.rotation.missed": (Goal(at_most=0),),
    "agent.rotation.pace": (Goal(at_least=100),),
    "agent.many.seconds": (Goal(at_most=10.7),),
    "agent.steady.rss": (Goal(at_most=47),),
    "agent.trickle.p50": (Goal(at_most=50),),
    "receiver.idle.rss": (Goal(at_most=32),),
    "read.engine.throughput": (Goal(at_least=1000),),
    "read.face.throughput": (Goal(at_least=1000),),
    "tail.face.p50": (Goal(at_most=10),),
    **{
        f"flood.{kind}.face.longest": (Goal(at_most=0.3),)
        for kind in ("keepalives", "polls", "infos", "set_ups", "appends")
    },
    **{
        f"open.{shape}.{after}": (Goal(at_most=2),)
        for shape in ("few_segments", "many_segments", "small_batches")
        for after in ("stopped", "killed")
    },
    **{
        f"s2.append_{in_flight}.ours.throughput": (Goal(at_least=1.5, peer="lite"),)
        for in_flight in (1, 4, 16)
    },
    "s2.read.ours.throughput": (Goal(at_least=1.0, peer="lite"),),
    "s2.memory.ours.rss": (Goal(at_most=200),),
    **{
        f"iggy.send_{size}_{in_flight}.ours_{revision}.throughput": (
            Goal(at_least=1.0, peer="real_r0"),
            Goal(at_least=1.0, peer="real_r1"),
        )
        for size in ("70k", "300k", "1100k")
        for in_flight in (1, 8)
        for revision in ("r0", "r1", "r2c", "r3")
    },
}
"""By full name.

CPU in µs a line, of an idle agent in % of a core; memory in MiB, of a connection in KiB.

The ratios are those of lines a second, or of MB/s.
"""
