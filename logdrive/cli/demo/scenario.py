"""The demo's scenario: write, rotate, ship, kill, restart, drain, fill tables, audit, report."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from logdrive.cli.demo.applications import Applications
from logdrive.cli.demo.system import (
    DemoError,
    DemoProcess,
    free_port,
    logdrive_command,
    run_step,
    wait_for_port,
)
from logdrive.services.pravega.client.controller import Login

_APPLICATIONS = 24
_WRITING_SECONDS = 12.0
_TURN_SECONDS = 0.05
_DRAIN_SECONDS = 60.0

_RECEIVER = """\
[listen]
address = "127.0.0.1:{receiver}"

[listen.tls]
ca = "{tls}/ca.pem"
cert = "{tls}/server.pem"
key = "{tls}/server.key"

[sink]
uri = "{uri}"
"""

_FACE = """
[listen.pravega]
address = "127.0.0.1:{face}"
"""

_STORE = """\
[store]
path = "{store}"

[listen.pravega]
address = "127.0.0.1:{face}"

[listen.{protocol}]
address = "127.0.0.1:{served}"
"""

_AGENT = """\
[agent]
id = "demo"
state_dir = "{state}"
drain_seconds = {drain}

[[input]]
paths = {paths}

[output]
hosts = ["127.0.0.1:{receiver}"]

[output.tls]
ca = "{tls}/ca.pem"
cert = "{tls}/client.pem"
key = "{tls}/client.key"
server_name = "localhost"
"""

SERVED_STORES = {
    "s2": "s2://127.0.0.1:{port}/demo-logs/events",
    "iggy": "iggy://127.0.0.1:{port}/demo/logs",
}
"""The services of a demo with a store of its own in another process, by the protocol by which the
receiver appends to it, and their addresses.
"""

ReportStep = Callable[[str, float], None]
"""Called at each step with what is going on, and the share of the demo that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Figures of a demo: what the applications wrote, and the audit of the tables."""

    lines: int  # written by the applications
    bytes: int  # written by the applications
    files: int  # of the applications
    machine_files: int  # logs of this machine
    kills: int
    sources: int  # the audit's, of all files
    table_lines: int  # the audit's, of all files
    table_bytes: int  # the audit's, of all files
    lost: int  # bytes
    doubled: int  # lines
    complete: bool
    seconds: float
    report: str  # path of the HTML report

    def as_json(self) -> dict[str, Any]:
        """Return it as the object that `--json` prints."""
        return asdict(self)


class DemoScenario:
    """One demo in the directory *work*, which it leaves in place for inspection.

    *service* is the address of the stream; None: a store in *work*, which the receiver opens;
    one of `SERVED_STORES`: a store in *work*, served by a process that is killed once, too. The
    agent reads *machine_logs* besides what the applications write. The programs that connect to
    *service* get *login* in environment variables, so that no file in *work* holds the password.
    """

    def __init__(
        self,
        work: Path,
        lines: int,
        report_step: ReportStep,
        *,
        machine_logs: Sequence[str] = (),
        service: str | None = None,
        login: Login | None = None,
    ) -> None:
        self._work = work
        self._lines = lines  # to be written by the applications
        self._report_step = report_step
        self._receiver_port = free_port()
        self._face_port = free_port()
        self._served_port = free_port()
        self._own_store = service is None
        self._protocol = service if service in SERVED_STORES else None
        if service is None:
            self._uri = f"file://{work / 'store'}#demo/logs"
        else:
            self._uri = self._address_of(service)
        self._machine_logs = machine_logs
        self._login = login

        serve = logdrive_command("store", "run", "--config", str(work / "store.toml"))
        store = DemoProcess("store", serve, work / "store.log")
        self._store = store if self._protocol is not None else None
        receive = logdrive_command("receiver", "run", "--config", str(work / "receiver.toml"))
        self._receiver = DemoProcess(
            "receiver", receive, work / "receiver.log", sink_login_variables(login)
        )
        self._agent = DemoProcess(
            "agent",
            logdrive_command("agent", "run", "--config", str(work / "agent.toml")),
            work / "agent.log",
        )

    def _address_of(self, service: str) -> str:
        own = SERVED_STORES.get(service)
        return service if own is None else own.format(port=self._served_port)

    def play(self) -> DemoResult:
        """Play the whole demo and return its figures.

        Raises `DemoError` if a step fails. Ends the processes that it started in any case.
        """
        started = time.monotonic()
        try:
            self._prepare()
            applications = self._write_and_kill()
            self._report_step("the agent drains: it ends once every line is acknowledged", 0.5)
            # until the agent has found its files it has no signal handler, and SIGTERM kills it
            self._agent.wait_for_output("files found")
            self._agent.terminate(_DRAIN_SECONDS + 15)
            audit = self._fill_tables()
            self._receiver.terminate(30)
            if self._store is not None:
                self._store.terminate(30)
        finally:
            self._agent.kill()
            self._receiver.kill()
            if self._store is not None:
                self._store.kill()
        return self._compare(applications, audit, time.monotonic() - started)

    def _prepare(self) -> None:
        work, tls = self._work, self._work / "tls"
        self._report_step("making a CA, certificates and the two configurations", 0.0)
        run_step(
            "logdrive certs",
            logdrive_command("certs", str(tls), "--name", "localhost"),
            work / "certs.log",
        )
        names = {
            "receiver": self._receiver_port,
            "face": self._face_port,
            "protocol": self._protocol,
            "served": self._served_port,
            "store": work / "store",
            "uri": self._uri,
            "tls": tls,
            "state": work / "agent",
            "drain": _DRAIN_SECONDS,
        }
        paths = [str(work / "logs" / "*.log*"), *self._machine_logs]
        (work / "receiver.toml").write_text((_RECEIVER + _FACE * self._own_store).format(**names))
        (work / "agent.toml").write_text(_AGENT.format(**names, paths=paths))
        if self._store is not None:
            (work / "store.toml").write_text(_STORE.format(**names))
            self._store.start()
            wait_for_port(self._served_port, self._store)
        self._receiver.start()
        wait_for_port(self._receiver_port, self._receiver)
        self._agent.start()

    def _write_and_kill(self) -> Applications:
        """Write at an even pace; kill the receiver after 1/3 of the lines, the agent after 2/3.

        A store of its own process is killed after half of them.
        """
        applications = Applications(
            str(self._work / "logs"),
            count=_APPLICATIONS,
            lines=self._lines,
            random_=random.Random(self._lines),
        )
        kills = [(self._lines // 3, self._receiver), (2 * self._lines // 3, self._agent)]
        if self._store is not None:
            kills.insert(1, (self._lines // 2, self._store))
        per_turn = max(1, int(self._lines / _WRITING_SECONDS * _TURN_SECONDS))
        more = True
        while more:
            more = applications.write_burst(per_turn)
            share = 0.05 + 0.45 * applications.lines / self._lines
            if kills and applications.lines >= kills[0][0]:
                _, victim = kills.pop(0)
                victim.kill()
                self._report_step(
                    f"SIGKILL to the {victim.name} after {applications.lines:,} lines; "
                    "the applications keep writing",
                    share,
                )
                # the applications write for four turns while the victim is down
                more = applications.write_burst(per_turn * 4)
                victim.start()
            else:
                self._report_step(
                    f"{applications.lines:,} lines in {applications.files} files, rotating", share
                )
            for process in (self._receiver, self._agent, self._store):
                if process is not None:
                    process.raise_if_ended()
            time.sleep(_TURN_SECONDS)
        applications.close()
        return applications

    def _fill_tables(self) -> dict[str, Any]:
        tables, work = str(self._work / "tables"), self._work
        self._report_step("the pipeline reads the segments and fills the tables", 0.6)
        run = logdrive_command("pipeline", "run", "--from", self._uri, "--to", tables, "--once")
        run_step("the pipeline", run, work / "pipeline.log", variables=login_variables(self._login))
        self._report_step("the audit compares every byte of every source with the tables", 0.8)
        audit = orjson.loads(
            run_step(
                "the audit",
                logdrive_command("pipeline", "audit", tables, "--json"),
                work / "pipeline.log",
                codes=(0, 1),
            )
        )
        self._report_step("writing the report", 0.9)
        run_step(
            "the report",
            logdrive_command("pipeline", "report", tables, "--out", str(work / "report.html")),
            work / "pipeline.log",
        )
        return dict(audit)

    def _compare(
        self, applications: Applications, audit: dict[str, Any], seconds: float
    ) -> DemoResult:
        """Compare the audit with what the applications wrote, and return the figures.

        Lines that the agent never saw are in no source, so only this comparison finds them. Raises
        `DemoError` if the numbers of lines differ though no byte does.
        """
        directory = str(self._work / "logs")
        own = [source for source in audit["by_source"] if str(source["path"]).startswith(directory)]
        lines, size = (
            sum(source["events"] for source in own),
            sum(source["bytes"] for source in own),
        )
        missing = max(0, applications.written - size)
        if lines != applications.lines and not missing and not audit["duplicate_events"]:
            raise DemoError(
                f"the applications wrote {applications.lines:,} lines, but the table holds "
                f"{lines:,} lines of their files"
            )
        return DemoResult(
            lines=applications.lines,
            bytes=applications.written,
            files=applications.files,
            machine_files=len(self._machine_logs),
            kills=2 if self._store is None else 3,
            sources=audit["sources"],
            table_lines=audit["events"],
            table_bytes=audit["bytes"],
            lost=audit["lost_bytes"] + missing,
            doubled=audit["duplicate_events"],
            complete=bool(audit["complete"]) and not missing,
            seconds=round(seconds, 1),
            report=str(self._work / "report.html"),
        )


def login_variables(login: Login | None) -> dict[str, str]:
    """Return the variables that stand for the options --user and --password-file of a command.

    The password file is set to none, so that one in the caller's environment does not count.
    """
    if login is None:
        return {}
    return {
        "LOGDRIVE_USER": login.user,
        "LOGDRIVE_PASSWORD": login.password,
        "LOGDRIVE_PASSWORD_FILE": "",
    }


def sink_login_variables(login: Login | None) -> dict[str, str]:
    """Return the variables that set a receiver's [sink.login].

    Their values are TOML strings; each JSON string is one.
    """
    if login is None:
        return {}
    return {
        f"LOGDRIVE_SINK__LOGIN__{key}": orjson.dumps(value).decode()
        for key, value in (("USER", login.user), ("PASSWORD", login.password))
    }
