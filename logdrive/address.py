"""Addresses in configuration and on command lines: host:port of receivers, URIs of streams."""

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

RECEIVER_PORT = 5044
S2_PORT = 8080
IGGY_PORT = 8090


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


@dataclass(frozen=True, slots=True)
class S2Address:
    """`s2://host:port/basin/stream`: a stream of S2, at any service that speaks its protocol.

    Without a host, `s2:///basin/stream`, *host* is "" and *port* 0: the endpoint is in the
    variables that S2's own tools read, or is S2's cloud. *stream* may have slashes and any other
    character; in a URI they are percent-encoded, slashes may be.
    """

    host: str
    port: int
    basin: str
    stream: str

    @property
    def scope(self) -> str:
        """The basin, by the name that the kinds of addresses have in common."""
        return self.basin

    @property
    def uri(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        where = f"{host}:{self.port}" if host else ""
        return f"s2://{where}/{self.basin}/{quote(self.stream, safe='/')}"


@dataclass(frozen=True, slots=True)
class IggyAddress:
    """`iggy://user:password@host:port/stream/topic`: a topic of Iggy, at any service that speaks
    its protocol.

    Iggy's words are others: *scope* is its stream, and *stream* its topic. Both have any characters
    but slashes; in a URI all but letters, digits, '.', '-', '_' and '~' are percent-encoded.
    Without user and password both are "".
    """

    host: str
    port: int
    scope: str
    stream: str
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def uri(self) -> str:
        """The address as it is written, without user and password: it may be shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        topic = f"{quote(self.scope, safe='')}/{quote(self.stream, safe='')}"
        return f"iggy://{host}:{self.port}/{topic}"


AnyAddress = StreamAddress | ServiceAddress | S2Address | IggyAddress
"""The address of a stream: in a store's directory, or at a service."""


def host_port(text: str, default_port: int = RECEIVER_PORT) -> tuple[str, int]:
    """Split `host`, `host:port` or `[v6]:port`. Raises ValueError, which says what is wrong."""
    shown = f"…@{text.rpartition('@')[2]}" if "@" in text else text
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:  # of brackets that hold no IPv6 address
        raise ValueError(f"{shown!r} is not an address: write host:port, or [IPv6]:port") from None
    try:
        port = parts.port if parts.port is not None else default_port
    except ValueError:
        raise ValueError(f"{shown!r} has no port between 0 and 65535: write host:port") from None
    # a part behind ? or # would be dropped, and so would a newline, and what is before @
    unfit = not text.isprintable() or any(character in " ,?#@\\" for character in text)
    if not parts.hostname or parts.path or unfit:
        raise ValueError(f"{shown!r} is not an address: write host:port")
    return parts.hostname, port


def peer_address(text: str, default_port: int = RECEIVER_PORT) -> tuple[str, int]:
    """Split the address of a peer as `host_port` does: nothing can be connected to at port 0.

    Raises ValueError, which says what is wrong.
    """
    host, port = host_port(text, default_port)
    if port == 0:
        raise ValueError(f"{text!r} has port 0, at which nothing listens: write host:port")
    return host, port


def host_port_text(host: str, port: int) -> str:
    """Return `host:port` as `host_port` reads it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def sink_address(uri: str) -> AnyAddress:
    """Parse the URI of a stream, in a store's directory or at a service.

    Raises ValueError, which says what is wrong and how to write it.
    """
    scheme = uri.partition(":")[0].lower()
    if scheme == "s2":
        return s2_address(uri)
    if scheme == "iggy":
        return iggy_address(uri)
    if scheme == "pravega":
        return service_address(uri)
    return stream_address(uri)


def service_address(uri: str) -> ServiceAddress:
    """Parse the URI of a stream at a service that speaks Pravega's protocol.

    Raises ValueError, which says what is wrong and how to write it.
    """
    parts = urlsplit(uri)
    scope, slash, stream = parts.path.removeprefix("/").partition("/")
    if not (slash and _is_name(scope) and _is_name(stream)) or parts.query or parts.fragment:
        raise ValueError(
            f"{_shown(uri)!r}: after the port goes /scope/stream, of letters, digits, '.' and "
            "'-', as in pravega://host:6000/logs/events"
        )
    try:
        host, port = host_port(parts.netloc, 0)
    except ValueError as error:
        raise ValueError(f"{_shown(uri)!r}: {error}") from None
    if port == 0:
        raise ValueError(
            f"{_shown(uri)!r}: the port is missing, as in pravega://{host}:6000/{scope}/{stream}"
        )
    return ServiceAddress(host, port, scope, stream)


def s2_address(uri: str) -> S2Address:
    """Parse the URI of a stream of S2.

    Raises ValueError, which says what is wrong and how to write it.
    """
    parts = urlsplit(uri)
    basin, slash, path = parts.path.removeprefix("/").partition("/")
    try:
        stream = unquote(path, errors="strict")
    except UnicodeDecodeError:
        stream = ""
    if parts.query or parts.fragment or not (slash and _is_s2_basin(basin) and _is_s2_name(stream)):
        raise ValueError(
            f"{_shown(uri)!r}: after the host go /basin/stream, as in "
            f"s2://host:{S2_PORT}/my-basin/events; a basin has 8 to 48 of a-z, 0-9 and '-', a "
            "stream 1 to 512 bytes, '?', '#' and '%' percent-encoded"
        )
    if not parts.netloc:
        return S2Address("", 0, basin, stream)
    try:
        host, port = peer_address(parts.netloc, S2_PORT)
    except ValueError as error:
        raise ValueError(f"{_shown(uri)!r}: {error}") from None
    return S2Address(host, port, basin, stream)


def iggy_address(uri: str) -> IggyAddress:
    """Parse the URI of a topic of Iggy.

    Raises ValueError, which says what is wrong and how to write it, and never shows the password.
    """
    _, at, rest = uri.rpartition("@")
    shown = f"iggy://…@{rest}" if at else uri
    try:
        parts = urlsplit(uri)
        login, _, where = parts.netloc.rpartition("@")
        host, port = peer_address(where, IGGY_PORT)
    except ValueError:  # its text may show the password
        raise ValueError(
            f"{shown!r}: write iggy://user:password@host:{IGGY_PORT}/stream/topic; the user, the "
            "password and the port may be left out"
        ) from None
    path = parts.path.removeprefix("/").split("/")
    user, colon, password = login.partition(":")
    try:
        names = [unquote(name, errors="strict") for name in path]
        user, password = unquote(user, errors="strict"), unquote(password, errors="strict")
    except UnicodeDecodeError:
        names = []
    if parts.query or parts.fragment or len(names) != 2 or not all(map(_is_iggy_name, names)):
        raise ValueError(
            f"{shown!r}: after the host go /stream/topic, as in "
            f"iggy://host:{IGGY_PORT}/logs/events; each has 1 to 250 bytes; in them, and in user "
            "and password, '?', '#', '@', ':' and '%' are percent-encoded"
        )
    if at and not (colon and user and password):
        raise ValueError(
            f"{shown!r}: before '@' go user and password, as in "
            f"iggy://user:password@host:{IGGY_PORT}/logs/events"
        )
    return IggyAddress(host, port, names[0], names[1], user, password)


def stream_address(uri: str) -> StreamAddress:
    """Parse the URI of a stream in a store's directory.

    Raises ValueError, which says what is wrong and how to write it.
    """
    parts = urlsplit(uri)
    scope, slash, stream = parts.fragment.partition("/")
    if parts.scheme != "file":
        raise ValueError(
            f"{_shown(uri)!r}: write file:///path#scope/stream, pravega://host:port/scope/stream, "
            "s2://host:port/basin/stream or iggy://host:port/stream/topic"
        )
    if parts.netloc or not parts.path.startswith("/"):
        raise ValueError(
            f"{_shown(uri)!r}: the path must be absolute, as in file:///var/lib/logdrive/store#logs/events"
        )
    if not (slash and _is_name(scope) and _is_name(stream)):
        raise ValueError(
            f"{_shown(uri)!r}: after # goes scope/stream, of letters, digits, '.' and '-', as in "
            "#logs/events"
        )
    return StreamAddress(parts.path, scope, stream)


def _shown(uri: str) -> str:
    """Return *uri* for messages, without user and password: they may stand in any by mistake."""
    scheme, _, rest = uri.partition("://")
    _, at, where = rest.rpartition("@")
    return f"{scheme}://…@{where}" if at else uri


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 250 and all(c.isascii() and (c.isalnum() or c in ".-") for c in text)


# S2's rules for names, as in `logdrive.wire.s2.names`, which rooms below the wire can't import


def _is_s2_basin(text: str) -> bool:
    return (
        8 <= len(text) <= 48
        and all(c.isascii() and (c.islower() or c.isdigit() or c == "-") for c in text)
        and not text.startswith("-")
        and not text.endswith("-")
    )


def _is_s2_name(text: str) -> bool:
    if text in ("", ".", "..") or "\0" in text:
        return False
    try:
        return len(text.encode()) <= 512
    except UnicodeEncodeError:  # half of a surrogate pair, from a command line that is not UTF-8
        return False


def _is_iggy_name(text: str) -> bool:
    """Return whether *text* is a name for which there is a dead-letter stream, too (rule R7)."""
    return 0 < len(text.encode(errors="replace")) <= 250 and "/" not in text and text.isprintable()


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
