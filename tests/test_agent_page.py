"""docs/agent.md names every key; every metric, tests/agent/metrics/test_metrics.py says."""

import ast
import re
from collections.abc import Iterator

from tests.agent_page import PAGE, page_with_keys


def test_the_page_has_every_key_with_its_default() -> None:
    page = PAGE.read_text()
    assert page_with_keys(page) == page, "run `python -m tests.agent_page`"


def test_what_the_agent_warns_of_is_in_the_page_and_what_the_page_quotes_is_said() -> None:
    trouble = PAGE.read_text().partition("## Trouble\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`.*?) \|", trouble)
    quoted = {words for row in rows for words in re.findall(r"`([^`]+)`", row)}
    quoted -= {"reason=…"}
    root = PAGE.parents[1]
    paths = [*(root / "agent").rglob("*.py"), root / "logdrive/net/certificate_ends.py"]
    modules = [ast.parse(path.read_text()) for path in paths]
    code = "\n".join(text for module in modules for text in _texts(module))
    assert [words for words in quoted if words not in code] == []
    warned = {text for module in modules for text in _warned(module)}
    assert len(warned) > 25
    assert [text for text in warned if not any(text.startswith(words) for words in quoted)] == []


def _texts(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def _warned(module: ast.AST) -> Iterator[str]:
    """Yield the events of log lines that are warnings or errors."""
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in ("warning", "error", "_warn"):
            yield from _texts(call.args[0])
