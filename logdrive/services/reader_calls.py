"""What readers of streaming services share: how a call is repeated, and their TLS options."""

import time
from typing import Final

from logdrive.errors import TransientError
from logdrive.host.transport import ClientTls
from logdrive.net.retry import Exponential, Retrying, retry_blocking

_ATTEMPTS: Final = 8  # limit on the attempts of one call
_WAIT: Final = Exponential(0.1, 5.0)  # seconds; all attempts together wait about 12


def retry_call() -> Retrying:
    """Return what calls a function again after `TransientError`, and raises the last of them."""
    return retry_blocking(
        TransientError,
        sleep=time.sleep,
        wait=_WAIT,
        give_up=lambda attempts: attempts >= _ATTEMPTS,
    )


def tls_options(tls: ClientTls | None) -> dict[str, str | None]:
    """Return the options of Spark's data source for *tls*: none for plain TCP."""
    if tls is None:
        return {}
    return {"ca": tls.ca, "cert": tls.cert, "key": tls.key, "serverName": tls.server_name}
