"""Lines of Filebeat's inputs are joined and read as Filebeat does it, or a note says how not."""

import pytest

from tests.agent.importing.world import imported, remarks


@pytest.mark.parametrize("kind", ["while_pattern", "while-pattern"])
@pytest.mark.parametrize("negate", ["true", "false"])
def test_lines_that_are_joined_with_each_other_alone_are_told_and_left_out(
    kind: str, negate: str
) -> None:
    options = f"{{type: {kind}, pattern: '^x', negate: {negate}}}"
    made = imported(
        f"- type: filestream\n  paths: [/a]\n  parsers: [multiline: {options}]\n"
        f"- type: log\n  paths: [/b]\n  multiline: {options}\n"
    )
    assert made.document["input"] == [{"paths": ["/a"]}, {"paths": ["/b"]}]
    for key in ("filebeat.inputs[0].parsers[0].multiline", "filebeat.inputs[1].multiline"):
        said = remarks(made)[key]
        assert said.startswith(f"of the type {kind} has no counterpart: left out")
        assert "`continue`" in said
