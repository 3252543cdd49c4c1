"""`agent source …`: how an operator names a source, and what is said where there is none."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agent.control.messages import Change, ChangeRequest, ControlAnswer
from logdrive.cli.agent import sources
from logdrive.cli.main import cli


class _Agent:
    """Says that it would do what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, path: str, request: Any) -> ControlAnswer:
        assert isinstance(request, ChangeRequest)
        self.asked.append(request.source)
        change = Change(
            action="resend", path=request.source, origin="0" * 36, start=0, end=1, text="planned"
        )
        return ControlAnswer(ok=True, change=change)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Agent:
    """Return an agent that is asked from a directory with a file, a link and a directory."""
    agent = _Agent()
    monkeypatch.setattr(sources, "ask_agent", agent.ask)
    (tmp_path / "real.log").touch()
    (tmp_path / "link.log").symlink_to("real.log")
    (tmp_path / "old").mkdir()
    monkeypatch.chdir(tmp_path)
    return agent


def _run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["agent", "source", *words, "--socket", "/s", "--dry-run"])


@pytest.mark.parametrize("do", ["skip", "resend", "forget"])
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("real.log", "{here}/real.log"),
        ("./real.log", "{here}/real.log"),
        ("old/../link.log", "{here}/link.log"),
        ("gone.log", "{here}/gone.log"),
        ("./2024-01-01", "{here}/2024-01-01"),
        ("\udcff.log", "{here}/\ufffd.log"),
        ("/var/link/../app.log", "/var/link/../app.log"),
        ("3F2a-91", "3F2a-91"),
        ("abc", "abc"),
    ],
)
def test_a_path_is_taken_from_the_working_directory_and_an_id_as_it_is(
    agent: _Agent, tmp_path: Path, do: str, name: str, asked: str
) -> None:
    assert _run(do, name).exit_code == 0
    assert agent.asked == [asked.format(here=tmp_path)]


@pytest.mark.parametrize("do", ["skip", "resend", "forget"])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", "a source is named by its path, or by its origin id"),
        ("old", "/old is a directory, and a source is one file"),
        (".", "is a directory, and a source is one file"),
    ],
)
def test_what_can_be_no_source_is_refused_before_the_agent_is_asked(
    agent: _Agent, do: str, name: str, error: str
) -> None:
    result = _run(do, name)
    assert result.exit_code == 2
    assert error in " ".join(result.output.split())
    assert agent.asked == []
