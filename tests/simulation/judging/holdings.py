"""What programs hold once all is at rest: open files, disk and memory for sources.

Open files and bytes are counted on the disks themselves.
"""

from collections.abc import Iterable

from tests.simulation.hosts.applications import LOGS, OLD
from tests.simulation.hosts.process import Process
from tests.simulation.hosts.programs import STATE, STORE, AgentHost, ReceiverHost
from tests.simulation.plan import Plan
from tests.simulation.promises import BrokenPromise

_SPARSE = 4  # limit on the bytes of log files for each byte that is kept
_FILES = 8  # log files on top of that: the one written to, and some that wait for the index
_GIVES_BACK_SECONDS = 10.0  # files that may be idle for less than that are closed by now


def judge_handles(agents: Iterable[AgentHost], processes: Iterable[Process]) -> None:
    """Raise `BrokenPromise` if a program has a removed file open, or too many files."""
    for process in processes:
        for directory in (LOGS, OLD, STATE, STORE):
            for file in process.disk.open_files(directory):
                if not file.stat().links and file not in process.others_handles:
                    raise BrokenPromise(
                        "handles are given back",
                        f"{process.name} has {file.path} open, which is gone",
                    )
    for agent in agents:
        files = [
            file
            for directory in (LOGS, OLD)
            for file in agent.disk.open_files(directory)
            if file not in agent.others_handles
        ]
        if len(dict.fromkeys(file.stat().inode for file in files)) < len(files):
            raise BrokenPromise(
                "handles are given back",
                f"{agent.name} has a file open twice: {[file.path for file in files]}",
            )
        if (
            len(files) > agent.plan.max_open_files
            and agent.plan.close_idle_seconds < _GIVES_BACK_SECONDS
        ):
            what = (
                f"{agent.name} has {len(files)} files open that rest, "
                f"{agent.plan.max_open_files} may be"
            )
            raise BrokenPromise("handles are given back", what)


def judge_last_handles(processes: Iterable[Process]) -> None:
    """Raise `BrokenPromise` if a stopped program has not closed a file of its own."""
    for process in processes:
        if left := [
            file.path for directory in (STATE, STORE) for file in process.disk.open_files(directory)
        ]:
            raise BrokenPromise(
                "handles are given back", f"{process.name} has ended and not closed {left[0]}"
            )


def differing_shares(
    plan: Plan, agents: Iterable[AgentHost], receivers: Iterable[ReceiverHost]
) -> str:
    """Return how receivers count other sources than agents have registered, "" if they don't.

    Looked at only where receivers started again once all was calm (`sources_bytes`), and have
    noticed the end of every connection.
    """
    hosts, known = list(receivers), list(agents)
    links = (link for agent in known for link in agent.network.connections(agent.name))
    if not plan.sources_bytes or any(link.half_open for link in links):
        return ""
    taken = sum(host.shares.used for host in hosts if host.shares is not None)
    registered = sum(agent.registered_bytes for agent in known)
    if taken == registered:
        return ""
    return f"sources of {registered} bytes are registered, and receivers count {taken}"


def judge_disk(plan: Plan, store: Process, kept: int) -> None:
    """Raise `BrokenPromise` if *store* has many more bytes of log files than the *kept* ones need.

    *kept* counts only the stream, so a store with other writers is not judged.
    """
    if not plan.retained or plan.clients or plan.writers or plan.tickers:
        return
    files = sorted(
        len(store.disk.content(path))
        for path in store.disk.paths()
        if path.startswith(f"{STORE}/log-")
    )
    # one, as large as a group, may wait for the next index
    if sum(files[:-1]) > _SPARSE * kept + _FILES * plan.log_file_bytes:
        raise BrokenPromise(
            "the disk has back what is deleted",
            f"{store.name} has {sum(files)} bytes of log files, and keeps {kept}",
        )
