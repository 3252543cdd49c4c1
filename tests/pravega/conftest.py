"""The two places, as one fixture: `make test` runs at our own store, `make test-pravega` also at a real Pravega."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.pravega.real import MissingError, RealPravega, fetch, real_pravega
from tests.pravega.sites import Sites, our_site, real_site


@pytest.fixture(scope="session")
def pravega(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPravega]:
    """A real Pravega, the same one for all tests; skips them where it can't be had."""
    with contextlib.ExitStack() as running:
        try:
            server = running.enter_context(real_pravega(tmp_path_factory.mktemp("pravega")))
        except MissingError as reason:
            pytest.skip(f"a real Pravega could not be run: {reason}")
        yield server


@pytest.fixture
def java_client() -> None:
    """Have the jars of the Java client; skips the test where they can't be had."""
    try:
        fetch()
    except MissingError as reason:
        pytest.skip(f"the Java client could not be run: {reason}")


@pytest.fixture(params=["ours", pytest.param("pravega", marks=pytest.mark.pravega_server)])
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Sites:
    """Return what runs, or reaches, the place of this test."""
    if request.param == "ours":
        return partial(our_site, tmp_path)
    return partial(real_site, request.getfixturevalue("pravega"), tmp_path)
