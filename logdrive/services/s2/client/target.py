"""Where an S2 service is, and what to connect with.

An address with a host names a service of one endpoint for everything, such as s2-lite or our own
store: the basin travels in a header. An address without one leaves the endpoints to the variables
that S2's own tools read, and without those to S2's cloud:

| variable            | what is there                                                 |
|---------------------|---------------------------------------------------------------|
| S2_ACCOUNT_ENDPOINT | basins are created here; else https://a.s2.dev                |
| S2_BASIN_ENDPOINT   | streams; else https://{basin}.b.s2.dev. The basin stands for  |
|                     | `{basin}`; where that is missing, it travels in a header      |
| S2_ACCESS_TOKEN     | the access token, if the configuration has none               |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from logdrive.address import S2Address, is_loopback
from logdrive.errors import ConfigError, Mistake
from logdrive.host.transport import ClientTls

ACCESS_TOKEN: Final = "S2_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
ACCOUNT_ENDPOINT: Final = "S2_ACCOUNT_ENDPOINT"
BASIN_ENDPOINT: Final = "S2_BASIN_ENDPOINT"

_CLOUD: Final = {
    ACCOUNT_ENDPOINT: "https://a.s2.dev",
    BASIN_ENDPOINT: "https://{basin}.b.s2.dev",
}
_BASIN: Final = "{basin}"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One origin: host, port, and TLS (None: plain TCP)."""

    host: str
    port: int
    tls: ClientTls | None

    @property
    def authority(self) -> str:
        """Host and port as the `:authority` of requests; a usual port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["http" if self.tls is None else "https"]
        return host if self.port == usual else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class S2Target:
    """A basin of a service, and what to connect with. It pickles, so that Spark can send it."""

    account: Endpoint
    basins: Endpoint
    basin: str
    basin_in_header: bool
    """False if the host of *basins* names the basin."""
    token: str = field(default="", repr=False)
    """The access token, "" if the service takes any."""


def target_of(
    address: S2Address,
    *,
    tls: ClientTls | None,
    plain: bool,
    token: str | None,
    environ: Mapping[str, str],
) -> S2Target:
    """Return the target of *address*.

    *tls* are the configured settings; *plain* is True for a configured `tls = "off"`. Without
    either, an `https` endpoint of the environment is verified by the system's certificates.
    *token* is the configured access token, None for the one in *environ*. Raises `ConfigError` for
    an endpoint that can't be used.
    """
    given = environ.get(ACCESS_TOKEN, "") if token is None else token
    if address.host:
        endpoint = Endpoint(address.host, address.port, tls)
        return S2Target(endpoint, endpoint, address.basin, True, given)
    account, basins = environ.get(ACCOUNT_ENDPOINT), environ.get(BASIN_ENDPOINT)
    if (account is None) != (basins is None):
        here, missing = (
            (BASIN_ENDPOINT, ACCOUNT_ENDPOINT)
            if account is None
            else (ACCOUNT_ENDPOINT, BASIN_ENDPOINT)
        )
        raise ConfigError(
            "environment", [Mistake(here, environ[here], f"give {missing}, too, or neither")]
        )
    account, basins = account or _CLOUD[ACCOUNT_ENDPOINT], basins or _CLOUD[BASIN_ENDPOINT]
    return S2Target(
        _endpoint(ACCOUNT_ENDPOINT, account, tls, plain=plain, environ=environ),
        _endpoint(
            BASIN_ENDPOINT,
            basins.replace(_BASIN, address.basin),
            tls,
            plain=plain,
            environ=environ,
        ),
        address.basin,
        _BASIN not in basins,
        given,
    )


def _endpoint(
    variable: str, text: str, tls: ClientTls | None, *, plain: bool, environ: Mapping[str, str]
) -> Endpoint:
    """Return the endpoint that *text*, an origin with or without its scheme, names."""
    url = text if "://" in text else f"https://{text}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if (
        not host
        or parts.scheme not in _PORTS
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or parts.username
    ):
        raise _mistake(variable, text, "write an origin, as in https://host or http://host:8080")
    if parts.scheme == "http":
        if tls is None and not plain and not is_loopback(host):
            raise _mistake(
                variable,
                text,
                'plain TCP is for loopback addresses: use https, or write tls = "off"',
            )
        settings = None
    elif plain:
        raise _mistake(variable, text, 'https, but tls = "off": leave tls out, or write http')
    else:
        settings = tls or ClientTls(_system_certificates(variable, text, environ))
    return Endpoint(host, port if port is not None else _PORTS[parts.scheme], settings)


def _system_certificates(variable: str, text: str, environ: Mapping[str, str]) -> str:
    # a receiver knows where S2 may be, and its own TLS is another: this one takes 4 MiB
    import ssl

    paths = ssl.get_default_verify_paths()
    ca = environ.get(paths.openssl_cafile_env) or paths.cafile
    if ca is None:
        raise _mistake(
            variable,
            text,
            f"this system has no file of certificates: give tls.ca, or {paths.openssl_cafile_env}",
        )
    return ca


def _mistake(variable: str, text: str, remedy: str) -> ConfigError:
    return ConfigError("environment", [Mistake(variable, text, remedy)])
