"""The two places, as one fixture: `make test` runs at our own store, `make test-pravega` also at a
real Pravega.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import unavailable
from tests.pravega.real import MissingError, RealPravega, fetch, real_pravega
from tests.pravega.sites import Sites, our_site, real_site


@contextlib.contextmanager
def needed(what: str) -> Iterator[None]:
    """Skip the test where *what* can't be had here, and say why; fail it in CI, which must have
    everything.
    """
    try:
        yield
    except MissingError as reason:
        unavailable(f"{what} could not be run: {reason}")


@pytest.fixture(scope="session")
def pravega(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPravega]:
    """A real Pravega, the same one for all tests."""
    with needed("a real Pravega"), real_pravega(tmp_path_factory.mktemp("pravega")) as server:
        yield server


@pytest.fixture
def java_client() -> None:
    """Have the jars of the Java client."""
    with needed("the Java client"):
        fetch()


@pytest.fixture(params=["ours", pytest.param("pravega", marks=pytest.mark.pravega_server)])
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Sites:
    """Return what runs, or reaches, the place of this test."""
    if request.param == "ours":
        return partial(our_site, tmp_path)
    return partial(real_site, request.getfixturevalue("pravega"), tmp_path)
