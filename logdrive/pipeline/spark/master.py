"""Spark's master by its URL: its form, and whether it answers, before Spark is started.

Spark is started only where much waits, and takes a minute to say that a master is not there.
"""

import re
import socket
from collections.abc import Sequence
from typing import Final

from logdrive.address import host_port
from logdrive.errors import os_error_text

_LOCAL = re.compile(
    r"local(\[([1-9]\d*|\*)(\s*,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*(,\s*\d+\s*){2}\]"
)
_STANDALONE, _KUBERNETES = "spark://", "k8s://"
_FORMS: Final = "write spark://host:7077; there are local[4], yarn and k8s://…, too"
_ANSWER_SECONDS = 3.0  # limit on a connection attempt; on a network of its own it takes far less


def check_master(url: str) -> None:
    """Raise ValueError, which says what to write, if *url* is none of the forms that Spark has."""
    if url.startswith(_STANDALONE):
        _masters(url)
    elif not (url == "yarn" or url.startswith(_KUBERNETES) or _LOCAL.fullmatch(url)):
        raise ValueError(f"Spark has no such master: {_FORMS}")


def why_unreachable(url: str) -> str | None:
    """Return why no connection to a standalone master at *url* succeeds; None if one does.

    Of several masters one is enough, as all but one stand by. None, too, for other forms of
    masters, which are not asked. Raises ValueError as `check_master`.
    """
    reasons = []
    for host, port in _masters(url) if url.startswith(_STANDALONE) else ():
        try:
            socket.create_connection((host, port), _ANSWER_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {os_error_text(error)}")
        else:
            return None
    return "; ".join(reasons) or None


def _masters(url: str) -> Sequence[tuple[str, int]]:
    """Return host and port of each master that *url* names, spark://host:port,host:port."""
    found = []
    for part in url.removeprefix(_STANDALONE).split(","):
        try:
            host, port = host_port(part, 0)
        except ValueError as error:
            raise ValueError(f"{error}, as in spark://host:7077") from None
        if not port:
            raise ValueError(f"the port is missing, as in spark://{host}:7077")
        found.append((host, port))
    return found
