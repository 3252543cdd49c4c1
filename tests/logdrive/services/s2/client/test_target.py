"""Where an S2 service is: by its address, by S2's own variables, or in S2's cloud."""

import pickle

import pytest

from logdrive.address import S2Address
from logdrive.errors import ConfigError
from logdrive.host.transport import ClientTls
from logdrive.services.s2.client.target import Endpoint, S2Target, target_of

TLS = ClientTls("ca.pem")
NEAR = S2Address("127.0.0.1", 8080, "my-basin", "events")
UNSAID = S2Address("", 0, "my-basin", "events")


def target(
    address: S2Address,
    environ: dict[str, str] | None = None,
    *,
    tls: ClientTls | None = TLS,
    plain: bool = False,
    token: str | None = None,
) -> S2Target:
    return target_of(address, tls=tls, plain=plain, token=token, environ=environ or {})


def test_an_address_with_a_host_is_one_endpoint_for_all_and_the_basin_travels_in_a_header() -> None:
    environ = {"S2_BASIN_ENDPOINT": "http://elsewhere", "S2_ACCESS_TOKEN": "t"}
    found = target(NEAR, environ, tls=None)
    assert found.account == found.basins == Endpoint("127.0.0.1", 8080, None)
    assert (found.basin_in_header, found.token) == (True, "t")
    assert found.basins.authority == "127.0.0.1:8080"


def test_without_a_host_the_endpoints_are_those_of_the_variables() -> None:
    environ = {
        "S2_ACCOUNT_ENDPOINT": "http://localhost:81",
        "S2_BASIN_ENDPOINT": "http://localhost:82",
    }
    found = target(UNSAID, environ, tls=None)
    assert (found.account.port, found.basins.port) == (81, 82)
    assert found.basin_in_header
    environ["S2_BASIN_ENDPOINT"] = "https://{basin}.s2.example.com"
    found = target(UNSAID, environ)
    assert found.basins == Endpoint("my-basin.s2.example.com", 443, TLS)
    assert not found.basin_in_header
    assert found.basins.authority == "my-basin.s2.example.com"


def test_without_variables_it_is_the_cloud_verified_as_configured() -> None:
    found = target(UNSAID)
    assert (found.account.host, found.basins.host) == ("a.s2.dev", "my-basin.b.s2.dev")
    assert found.basins.tls == TLS
    system = target(UNSAID, {"SSL_CERT_FILE": "/etc/certificates.pem"}, tls=None)
    assert system.basins.tls == ClientTls("/etc/certificates.pem")


def test_the_configured_token_comes_before_the_variable_and_is_not_shown() -> None:
    found = target(NEAR, {"S2_ACCESS_TOKEN": "theirs"}, token="ours")
    assert found.token == "ours"
    assert "ours" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"S2_BASIN_ENDPOINT": "http://localhost"}, "S2_ACCOUNT_ENDPOINT, too, or neither"),
        (
            {"S2_BASIN_ENDPOINT": "http://h/p", "S2_ACCOUNT_ENDPOINT": "http://localhost"},
            "write an origin",
        ),
        (
            {"S2_BASIN_ENDPOINT": "ftp://h", "S2_ACCOUNT_ENDPOINT": "http://localhost"},
            "write an origin",
        ),
        (
            {"S2_BASIN_ENDPOINT": "http://far.example.com", "S2_ACCOUNT_ENDPOINT": "a.s2.dev"},
            "plain TCP is for loopback addresses",
        ),
    ],
)
def test_endpoints_that_cannot_be_used_are_named(environ: dict[str, str], words: str) -> None:
    certificates = {"SSL_CERT_FILE": "/etc/certificates.pem"}
    with pytest.raises(ConfigError, match=words):
        target(UNSAID, environ | certificates, tls=None)


def test_https_and_no_tls_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="leave tls out"):
        target(UNSAID, tls=None, plain=True)
