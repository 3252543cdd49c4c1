"""The demo from beginning to end: write, rotate, ship, kill, restart, drain, tabulate, audit,
report.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from logdrive.cli.demo.applications import Applications
from logdrive.cli.demo.system import Child, DemoError, free_port, logdrive, run_step, wait_for_port
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

Say = Callable[[str, float], None]
"""Takes what is going on and how far the whole is, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo ends with.

    *lines* and *bytes* are what the applications wrote; the audit speaks for all sources.
    """

    lines: int
    bytes: int
    files: int
    machine_files: int
    kills: int
    sources: int
    table_lines: int
    table_bytes: int
    lost: int
    doubled: int
    complete: bool
    seconds: float
    report: str

    def as_json(self) -> dict[str, Any]:
        """Return it as the object that `--json` prints."""
        return asdict(self)


class Performance:
    """One demo in one work directory, which is left as it is for looking around.

    *service* is the stream, where not the directory's.

    *machine_logs* are read beside what the applications write. *login* goes to the programs that
    come in at the service, by variables: what is left behind does not tell it.
    """

    def __init__(
        self,
        work: Path,
        lines: int,
        say: Say,
        *,
        machine_logs: Sequence[str] = (),
        service: str | None = None,
        login: Login | None = None,
    ) -> None:
        self._work, self._lines, self._say = work, lines, say
        self._receiver_port, self._face_port = free_port(), free_port()
        self._own_store = service is None
        self._uri = service or f"file://{work / 'store'}#demo/logs"
        self._machine_logs = machine_logs
        self._login = login
        receive = logdrive("receiver", "run", "--config", str(work / "receiver.toml"))
        self._receiver = Child("receiver", receive, work / "receiver.log", sink_login(login))
        self._agent = Child(
            "agent",
            logdrive("agent", "run", "--config", str(work / "agent.toml")),
            work / "agent.log",
        )

    def run(self) -> DemoResult:
        """Play it.

        Raises `DemoError` where a part fails; processes started are ended in any case.
        """
        started = time.monotonic()
        try:
            self._prepare()
            applications = self._write_and_kill()
            self._say("the agent drains: every line acknowledged, then it ends", 0.5)
            # before, SIGTERM would end it as it ends any program
            self._agent.wait_until_it_says("files found")
            self._agent.drain(_DRAIN_SECONDS + 15)
            audit = self._tabulate()
            self._receiver.drain(30)
        finally:
            self._agent.kill()
            self._receiver.kill()
        return self._outcome(applications, audit, time.monotonic() - started)

    def _prepare(self) -> None:
        work, tls = self._work, self._work / "tls"
        self._say("a small CA, certificates and the two configurations", 0.0)
        run_step(
            "logdrive certs", logdrive("certs", str(tls), "--name", "localhost"), work / "certs.log"
        )
        names = {
            "receiver": self._receiver_port,
            "face": self._face_port,
            "uri": self._uri,
            "tls": tls,
            "state": work / "agent",
            "drain": _DRAIN_SECONDS,
        }
        paths = [str(work / "logs" / "*.log*"), *self._machine_logs]
        (work / "receiver.toml").write_text((_RECEIVER + _FACE * self._own_store).format(**names))
        (work / "agent.toml").write_text(_AGENT.format(**names, paths=paths))
        self._receiver.start()
        wait_for_port(self._receiver_port, self._receiver)
        self._agent.start()

    def _write_and_kill(self) -> Applications:
        """Write at an even pace; SIGKILL the receiver after a third of the lines and the agent
        after two thirds.
        """
        applications = Applications(
            str(self._work / "logs"),
            count=_APPLICATIONS,
            lines=self._lines,
            random_=random.Random(self._lines),
        )
        kills = [(self._lines // 3, self._receiver), (2 * self._lines // 3, self._agent)]
        per_turn = max(1, int(self._lines / _WRITING_SECONDS * _TURN_SECONDS))
        more = True
        while more:
            more = applications.write(per_turn)
            share = 0.05 + 0.45 * applications.lines / self._lines
            if kills and applications.lines >= kills[0][0]:
                _, victim = kills.pop(0)
                victim.kill()
                self._say(
                    f"SIGKILL to the {victim.name} after {applications.lines:,} lines; "
                    "the applications write on",
                    share,
                )
                more = applications.write(per_turn * 4)
                victim.start()
            else:
                self._say(
                    f"{applications.lines:,} lines in {applications.files} files, rotating", share
                )
            self._receiver.check()
            self._agent.check()
            time.sleep(_TURN_SECONDS)
        applications.close()
        return applications

    def _tabulate(self) -> dict[str, Any]:
        tables, work = str(self._work / "tables"), self._work
        self._say("Spark reads the segments and writes the tables", 0.6)
        run = logdrive("pipeline", "run", "--from", self._uri, "--to", tables, "--once")
        run_step("the pipeline", run, work / "pipeline.log", variables=command_login(self._login))
        self._say("the audit compares every byte of every source with the table", 0.8)
        audit = orjson.loads(
            run_step(
                "the audit",
                logdrive("pipeline", "audit", tables, "--json"),
                work / "pipeline.log",
                codes=(0, 1),
            )
        )
        self._say("the report", 0.9)
        run_step(
            "the report",
            logdrive("pipeline", "report", tables, "--out", str(work / "report.html")),
            work / "pipeline.log",
        )
        return dict(audit)

    def _outcome(
        self, applications: Applications, audit: dict[str, Any], seconds: float
    ) -> DemoResult:
        """Hold the audit against the applications' own books: a line that never reached an agent's
        eye counts as lost too.
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
                f"the applications wrote {applications.lines:,} lines, the table holds "
                f"{lines:,} of theirs"
            )
        return DemoResult(
            lines=applications.lines,
            bytes=applications.written,
            files=applications.files,
            machine_files=len(self._machine_logs),
            kills=2,
            sources=audit["sources"],
            table_lines=audit["events"],
            table_bytes=audit["bytes"],
            lost=audit["lost_bytes"] + missing,
            doubled=audit["duplicate_events"],
            complete=bool(audit["complete"]) and not missing,
            seconds=round(seconds, 1),
            report=str(self._work / "report.html"),
        )


def command_login(login: Login | None) -> dict[str, str]:
    """Return the variables that are the options --user and --password-file of a command, the
    latter's file none.
    """
    if login is None:
        return {}
    return {
        "LOGDRIVE_USER": login.user,
        "LOGDRIVE_PASSWORD": login.password,
        "LOGDRIVE_PASSWORD_FILE": "",
    }


def sink_login(login: Login | None) -> dict[str, str]:
    """Return the variables that are a receiver's [sink.login].

    Their values are TOML: a JSON string is one of its strings, too.
    """
    if login is None:
        return {}
    return {
        f"LOGDRIVE_SINK__LOGIN__{key}": orjson.dumps(value).decode()
        for key, value in (("USER", login.user), ("PASSWORD", login.password))
    }
