"""Addresses in configuration and on command lines: host:port of receivers, URIs of streams."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

RECEIVER_PORT = 5044


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """`file:///path/to/store#scope/stream`; *path* is the store's directory."""

    path: str
    scope: str
    stream: str

    @property
    def uri(self) -> str:
        """The address as it is written."""
        return f"file://{self.path}#{self.scope}/{self.stream}"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """`pravega://host:port/scope/stream`: a stream at a streaming service on the network."""

    host: str
    port: int
    scope: str
    stream: str

    @property
    def uri(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"pravega://{host}:{self.port}/{self.scope}/{self.stream}"


def host_port(text: str, default_port: int = RECEIVER_PORT) -> tuple[str, int]:
    """Split `host`, `host:port` or `[v6]:port`. Raises ValueError, which says what is wrong."""
    parts = urlsplit(f"//{text}")
    try:
        port = parts.port if parts.port is not None else default_port
    except ValueError:
        raise ValueError(f"{text!r} has no port between 0 and 65535: write host:port") from None
    if not parts.hostname or parts.path or parts.username:
        raise ValueError(f"{text!r} is not an address: write host:port")
    return parts.hostname, port


def sink_address(uri: str) -> StreamAddress | ServiceAddress:
    """Parse the URI of a stream, in a store's directory or at a service.

    Raises ValueError, which says what is wrong and how to write it.
    """
    parts = urlsplit(uri)
    if parts.scheme != "pravega":
        return stream_address(uri)
    scope, slash, stream = parts.path.removeprefix("/").partition("/")
    if not (slash and _is_name(scope) and _is_name(stream)) or parts.query or parts.fragment:
        raise ValueError(
            f"{uri!r}: after the port goes /scope/stream, of letters, digits, '.' and "
            "'-', as in pravega://host:6000/logs/events"
        )
    try:
        host, port = host_port(parts.netloc, 0)
    except ValueError as error:
        raise ValueError(f"{uri!r}: {error}") from None
    if port == 0:
        raise ValueError(
            f"{uri!r}: the port is missing, as in pravega://{host}:6000/{scope}/{stream}"
        )
    return ServiceAddress(host, port, scope, stream)


def stream_address(uri: str) -> StreamAddress:
    """Parse the URI of a stream in a store's directory.

    Raises ValueError, which says what is wrong and how to write it.
    """
    parts = urlsplit(uri)
    scope, slash, stream = parts.fragment.partition("/")
    if parts.scheme != "file":
        raise ValueError(
            f"{uri!r}: write file:///path#scope/stream or pravega://host:port/scope/stream"
        )
    if parts.netloc or not parts.path.startswith("/"):
        raise ValueError(
            f"{uri!r}: the path must be absolute, as in file:///var/lib/logdrive/store#logs/events"
        )
    if not (slash and _is_name(scope) and _is_name(stream)):
        raise ValueError(
            f"{uri!r}: after # goes scope/stream, of letters, digits, '.' and '-', as in "
            "#logs/events"
        )
    return StreamAddress(parts.path, scope, stream)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 250 and all(c.isascii() and (c.isalnum() or c in ".-") for c in text)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach *host*."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Return whether *host* stands for all addresses of this machine, like 0.0.0.0."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
