"""Certificates and a bounded loop for the tests of this folder."""

from pathlib import Path

import pytest

from tests.support.pki import Pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki.make(Path(tmp_path_factory.mktemp("pki")))
    made.add("expired", ["localhost", "127.0.0.1"], server=True, age_days=60)
    made.add("expired-client", ["client.example"], age_days=60)
    made.add("elsewhere", ["other.example"], server=True)
    stranger = Pki.make(Path(tmp_path_factory.mktemp("stranger")))
    (made.directory / "stranger-ca.pem").write_bytes(stranger.authority.certificate_pem)
    made.add("stranger", ["client.example"], authority=stranger.authority)
    return made
