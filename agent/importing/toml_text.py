"""Writes what was imported as agent.toml, and checks that the agent takes it."""

import textwrap
from typing import Any, Final

import tomli_w

from agent.config.config import AgentConfig
from agent.importing.imported import Imported
from logdrive.config.load import parse_config
from logdrive.printable import escape_unprintable

_ORDER: Final = ("agent", "input", "stdin", "output")
_WIDTH: Final = 100


def toml_text(imported: Imported, *, origin: str, state_dir: str) -> str:
    """Return agent.toml, with the remarks as comments before it; *origin* is what was read.

    Raises `ConfigError` if the agent would not take it.
    """
    agent: dict[str, Any] = {"state_dir": state_dir} | imported.document.get("agent", {})
    tables = imported.document | {"agent": agent}
    document = {name: tables[name] for name in _ORDER if name in tables}
    lines = [f"# Made by `logdrive agent import` of {origin}."]
    if imported.remarks:
        lines += ["#", "# What has no counterpart, or differs:", "#"]
    for remark in imported.remarks:
        lines += textwrap.wrap(
            escape_unprintable(f"{remark.key}: {remark.text}"),
            _WIDTH,
            initial_indent="# - ",
            subsequent_indent="#   ",
            break_long_words=False,
        )
    text = "\n".join(lines) + "\n\n" + tomli_w.dumps(document).rstrip() + "\n"
    parse_config(f"agent.toml, made of {origin}", text, AgentConfig)
    return text
