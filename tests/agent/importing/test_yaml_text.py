"""What is no YAML is refused with the line, the column, and the reason."""

import pytest

from agent.importing.yaml_text import load_yaml
from logdrive.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: c: d\n", "line 2, column 5 = b: c: d: this is not YAML: mapping values are not"),
        ("a: 1\nb: [\n", "line 3, column 1: this is not YAML: while parsing a flow node, expected"),
        ("a: 1\r\nb: \x01\r\n", "line 2, column 4"),
        ("a: *b", "line 1, column 4 = a: *b: this is not YAML: found undefined alias 'b'"),
        ("a: 2026-13-45", "a.yml: this is not YAML: month must be"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(text, "a.yml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("a.yml: ")


def test_a_document_is_returned() -> None:
    assert load_yaml("a: [1, b]", "a.yml") == {"a": [1, "b"]}
