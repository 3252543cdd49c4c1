"""`check_certificates`: what `agent check` says of the times of certificates."""

from pathlib import Path

import pytest

from agent.delivery.check_certificates import check_certificates
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.net.settings import ClientTlsConfig
from tests.support.pki import Pki


@pytest.mark.parametrize(
    ("age_days", "ok", "said"),
    [(26, True, "ends at"), (31, False, "has ended at"), (-3, False, "is not valid before")],
)
def test_a_certificate_that_is_not_valid_or_not_for_long_is_told_before_a_run(
    tmp_path: Path, age_days: int, ok: bool, said: str
) -> None:
    (finding,) = check_certificates(_tls(tmp_path, age_days), SystemDisk(), SystemClock())
    assert (finding.name, finding.ok, finding.warn) == ("output.tls.cert", ok, ok)
    assert f"mine.pem {said}" in finding.detail


def test_a_valid_one_and_files_that_the_connection_tells_of_give_no_finding(
    tmp_path: Path,
) -> None:
    missing = ClientTlsConfig(ca=str(tmp_path / "none.pem"))
    for tls in (_tls(tmp_path, 0), missing):
        assert check_certificates(tls, SystemDisk(), SystemClock()) == []


def _tls(directory: Path, age_days: int) -> ClientTlsConfig:
    pki = Pki.make(directory)
    pki.add("mine", ["client.example"], age_days=age_days)
    return ClientTlsConfig(
        ca=pki.path("ca.pem"), cert=pki.path("mine.pem"), key=pki.path("mine.key")
    )
