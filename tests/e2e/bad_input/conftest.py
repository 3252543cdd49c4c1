"""One receiver for all tests of a file, which has to outlive them in good order."""

from collections.abc import Iterator

import pytest

from tests.e2e.bad_input.victim import Victim
from tests.support.pki import Pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory, pki: Pki) -> Iterator[Victim]:
    """A receiver with a face; at the end it must still drain, have kept what it promised, and never
    have failed inside.
    """
    victim = Victim(tmp_path_factory.mktemp("bad-input"), pki)
    try:
        yield victim
        victim.end()
    finally:
        victim.installation.close()
