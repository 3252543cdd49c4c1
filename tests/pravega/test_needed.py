"""Where a real Pravega can't be had, a user is told why; CI, which must have everything, fails."""

from pathlib import Path

import pytest

from tests.pravega.conftest import needed
from tests.pravega.real import fetch


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH without a single program."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_java")
def test_without_java_a_user_sees_skipped_tests_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with (
        pytest.raises(
            pytest.skip.Exception, match="a real Pravega could not be run: no java: install a JDK"
        ),
        needed("a real Pravega"),
    ):
        fetch()


@pytest.mark.usefixtures("no_java")
def test_without_java_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with (
        pytest.raises(
            pytest.fail.Exception, match="a real Pravega could not be run: no java: install a JDK"
        ),
        needed("a real Pravega"),
    ):
        fetch()
