"""Fault points: named places at which a test may kill the process. Inert unless one is armed.

`LOGDRIVE_FAULT=agent.checkpoint.before_rename` kills the process (SIGKILL) when it first passes
that point; `…before_rename:7` when it passes for the seventh time. A simulator sets `on_reach`
instead and decides itself.
"""

import os
import signal
from collections.abc import Callable

POINTS = (
    "agent.checkpoint.before_write",
    "agent.checkpoint.before_rename",
    "agent.checkpoint.after_rename",
    "agent.window.before_send",
    "agent.window.after_send",
    "agent.ack.before_apply",
    "agent.ack.after_apply",
    "receiver.window.before_append",
    "receiver.ack.before_send",
    "receiver.ack.after_send",
    "store.commit.before_write",
    "store.commit.after_write",
    "store.commit.before_sync",
    "store.commit.after_sync",
    "store.roll.before_create",
    "store.pages.before_write",
    "store.pages.before_sync",
    "store.pages.between_syncs",
    "store.index.before_rename",
    "store.index.between_renames",
    "store.index.after_rename",
    "store.free.after_copy",
    "store.free.before_remove",
    "store.free.after_remove",
    "store.free.before_sweep",
    "pipeline.commit.before_events",
    "pipeline.commit.between",
    "pipeline.commit.after_batches",
    "pipeline.silver.after_files",
    "pipeline.silver.before_sources",
    "pipeline.silver.after_sources",
    "pipeline.silver.between_tables",
    "pipeline.silver.after_tables",
    "pipeline.gold.before_commit",
    "pipeline.gold.after_commit",
    "pipeline.erase.after_record",
    "pipeline.erase.between_tables",
    "pipeline.erase.after_tables",
    "pipeline.rebuild.between",
)
"""All fault points; `reach` takes no other name."""


def _armed(setting: str) -> tuple[str, int]:
    name, _, count = setting.partition(":")
    if name and name not in POINTS:
        raise ValueError(
            f"LOGDRIVE_FAULT={setting}: no such fault point; there are {', '.join(POINTS)}"
        )
    return name, int(count or 1)


# the armed point, "" for none, and how often it is still to be passed
_name, _remaining = _armed(os.environ.get("LOGDRIVE_FAULT", ""))
on_reach: Callable[[str], None] | None = None
"""A simulator's hook, called with the name of each point that is passed."""


def reach(name: str) -> None:
    """Pass the fault point *name*; costs one comparison if nothing is armed.

    Call it per batch, never per event.
    """
    global _remaining
    if on_reach is not None:
        on_reach(name)
    # "" is no point's name, so nothing matches unless one is armed
    if name == _name:
        _remaining -= 1
        if _remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)
