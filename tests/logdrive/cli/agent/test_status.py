"""The screen of `agent status`, and what is said where no agent runs."""

import io
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from click.testing import CliRunner
from rich.console import Console

from agent.control.client import NoAgentError
from agent.control.messages import (
    AgentStatus,
    ControlAnswer,
    Request,
    RuleStatus,
    StatusRequest,
    UnreadableFile,
)
from agent.status import SourceStatus
from logdrive.cli.agent import sources, status
from logdrive.cli.agent.source_table import duration, size, source_table
from logdrive.cli.main import cli

_SOURCE = SourceStatus(
    path="/var/log/[red]a\x1b[2J.log",
    origin="0" * 36,
    count=0,
    state="open",
    position=1000,
    seen=5000,
    store=None,
    events=10,
    bytes=1000,
    gap_bytes=0,
    acknowledged_ms=0,
    problem="can't be read",
    lag_bytes=4000,
    lag_seconds=90.0,
    rate=2048.0,
    format="json",
    failed=3,
    truncated=5,
)
_STATUS = AgentStatus(
    agent="web-1",
    version="0.1",
    phase="running",
    uptime_seconds=7200.0,
    host="receiver:5044",
    problem="",
    files=2,
    unreadable=1,
    living=2,
    ended=0,
    absent=1,
    behind=1,
    events=10,
    bytes=1000,
    gap_bytes=0,
    rate=2048.0,
    lag_bytes=4000,
    lag_seconds=90.0,
    rules=[
        RuleStatus(
            input="input[0]",
            processor=1,
            action="redact",
            rule="email",
            events=2,
            bytes=0,
            matches=3,
        )
    ],
    matching=2,
    sources=[_SOURCE],
)


class _Agent:
    """Answers, or not; then the user presses Ctrl-C."""

    def __init__(self, *answers: AgentStatus | NoAgentError) -> None:
        self.answers = list(answers)
        self.asked: list[StatusRequest] = []

    def ask(self, path: str, request: Request) -> ControlAnswer:
        assert isinstance(request, StatusRequest)
        self.asked.append(request)
        if not self.answers:
            raise KeyboardInterrupt
        answer = self.answers.pop(0)
        if isinstance(answer, NoAgentError):
            raise answer
        return ControlAnswer(ok=True, status=answer)


def _run(monkeypatch: pytest.MonkeyPatch, agent: _Agent, *options: str) -> Any:
    monkeypatch.setattr(status, "ask_agent", agent.ask)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return CliRunner().invoke(cli, ["agent", "status", "--socket", "/s", *options])


def test_figures_rules_and_sources_are_shown_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = _Agent(_STATUS)
    result = _run(monkeypatch, agent, "--sort", "age", "--behind", "--limit", "1")
    assert result.exit_code == 0, result.output
    text = result.output
    assert "agent web-1 running for 2.0 h, connected to receiver:5044; version 0.1" in text
    assert "2 files (1 can't be read), 2 sources" in text
    assert "1 behind by 3.9 KiB and 2 min; 2.0 KiB/s" in text
    assert "input[0].processor[1] redact email: 2 events in 3 places" in text
    assert r"/var/log/[red]a\x1b[2J.log" in text
    for word in (
        "1,000",
        "5,000",
        "4,000",
        "2 min",
        "json (3 lines are not)",
        "5 events",
        "can't be read",
    ):
        assert word in text
    assert "… and 1 more" in text
    assert agent.asked == [StatusRequest(limit=1, sort="age", behind=True)]


def test_a_narrow_terminal_shows_whole_paths() -> None:
    long = msgspec.structs.replace(_SOURCE, path=f"/var/log/{'deep/' * 12}app.log.1")
    console = Console(width=80, file=io.StringIO(), highlight=False)
    console.print(source_table([long]))
    assert isinstance(console.file, io.StringIO)
    column = "".join(line.split(" ")[1] for line in console.file.getvalue().splitlines())
    assert column == f"path{long.path}"


def test_of_a_rotated_file_both_paths_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    rotated = msgspec.structs.replace(_SOURCE, path="/l/a.log", name="/l/a\x1b.1")
    status_of_it = msgspec.structs.replace(_STATUS, sources=[rotated])
    assert r"/l/a.log (at /l/a\x1b.1)" in _run(monkeypatch, _Agent(status_of_it)).output


def test_files_that_can_not_be_read_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "1 absent; --problems names them" in _run(monkeypatch, _Agent(_STATUS)).output
    unreadable = [UnreadableFile(path="/var/log/a\x1b[2J", problem="Permission denied")]
    agent = _Agent(msgspec.structs.replace(_STATUS, unreadable_files=unreadable))
    text = _run(monkeypatch, agent, "--problems").output
    assert r"/var/log/a\x1b[2J can't be read: Permission denied" in text
    assert "names them" not in text
    assert "more" not in text


def test_a_path_on_the_command_line_may_have_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = _Agent(_STATUS)
    assert _run(monkeypatch, agent, "--path", "/logs/\udcff.log").exit_code == 0
    assert agent.asked[0].path == "/logs/\ufffd.log"


def test_where_no_source_matches_it_is_said_in_place_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = msgspec.structs.replace(_STATUS, matching=0, sources=[])
    text = _run(monkeypatch, _Agent(nothing), "--path", "nosuch*").output
    assert text.endswith("\nno source matches\n")
    assert "position" not in text
    assert "no source matches" not in _run(monkeypatch, _Agent(_STATUS), "--limit", "0").output

    monkeypatch.setattr(sources, "ask_status", lambda target, request: nothing)
    listed = ["agent", "source", "list", "--socket", "/s", "--path", "nosuch*"]
    result = CliRunner().invoke(cli, listed)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no source matches: --all lists ended and absent ones, too\n"
    assert CliRunner().invoke(cli, [*listed, "--all"]).stderr == "no source matches\n"
    assert CliRunner().invoke(cli, [*listed, "--json"]).stderr == ""


def test_json_is_what_the_agent_said(monkeypatch: pytest.MonkeyPatch) -> None:
    result = _run(monkeypatch, _Agent(_STATUS), "--json")
    assert orjson.loads(result.output) == msgspec.to_builtins(_STATUS)


def test_a_watch_goes_on_while_the_agent_is_restarted_and_ends_with_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = _Agent(_STATUS, NoAgentError("no agent runs here"), _STATUS)
    result = _run(monkeypatch, agent, "--watch")
    assert (result.exit_code, len(agent.asked)) == (0, 4)
    # a file or a pipe gets all of them, one after the other
    assert result.output.count("agent web-1 running") == 2
    assert "no agent runs here" in result.output
    result = _run(monkeypatch, _Agent(_STATUS, _STATUS), "--watch", "--json")
    assert [orjson.loads(line)["agent"] for line in result.output.splitlines()] == ["web-1"] * 2


def test_where_no_agent_runs_the_message_says_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(
        f'[agent]\nstate_dir = "{tmp_path}"\n[[input]]\npaths = ["/l/*"]\n'
        '[output]\nhosts = ["h"]\ntls = "off"\n'
    )
    result = CliRunner().invoke(cli, ["agent", "status", "--config", str(config)])
    assert isinstance(result.exception, NoAgentError)
    assert f"there is no socket {tmp_path}/control.sock" in str(result.exception)
    config.write_text(config.read_text() + '[control]\nsocket = ""\n')
    result = CliRunner().invoke(cli, ["agent", "status", "--config", str(config)])
    assert "control.socket: this agent has none" in str(result.exception)
    result = CliRunner().invoke(cli, ["agent", "status", "--config", "x", "--socket", "y"])
    assert "exclude each other" in result.output


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_have_few_digits(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (90, "2 min"), (7200, "2.0 h"), (1e6, "11.6 days")],
)
def test_durations_have_few_digits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
