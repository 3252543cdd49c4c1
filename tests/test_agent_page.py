"""docs/agent.md names every key; every metric, tests/agent/metrics/test_metrics.py says."""

from tests.agent_page import PAGE, page_with_keys


def test_the_page_has_every_key_with_its_default() -> None:
    page = PAGE.read_text()
    assert page_with_keys(page) == page, "run `python -m tests.agent_page`"
