"""Discovers what listens at a `pravega://` address: a segment store or a controller.

A port speaks one of the two protocols, so the client asks it instead of being configured. A segment
store answers a Hello with its own. A controller speaks HTTP/2, whose server sends a SETTINGS frame
first, whatever it receives; over TLS it agrees on "h2" by ALPN.
"""

import asyncio
from dataclasses import replace
from typing import Final

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream, Transport
from logdrive.services.pravega.client.blocking import Target
from logdrive.wire.pravega.codec import encode
from logdrive.wire.pravega.control import WIRE_VERSION, Hello

_HTTP2: Final = "h2"
_SETTINGS_TYPE, _FRAME_HEAD = 4, 9  # length u24, type u8, flags u8, stream u32
_ANSWER_SECONDS: Final = 10.0  # limit on the first bytes of the answer
_CHECK: Final = "is it the port of [listen.pravega], or of a controller, and TLS on at both ends?"
"""What to look at where something else answers: agents' port is one beside it."""


async def is_controller(transport: Transport, target: Target) -> bool:
    """Return True if a controller listens at *target*, False if a segment store does.

    Raises `TransientError` if neither answers.
    """
    tls = None if target.tls is None else replace(target.tls, alpn=(_HTTP2,))
    stream = await transport.connect(target.host, target.port, tls)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return stream.peer.alpn == _HTTP2 or await _speaks_http2(stream)
    except TimeoutError as error:
        raise TransientError(
            f"{stream.peer.address}: no greeting within {_ANSWER_SECONDS:g} s; {_CHECK}"
        ) from error
    finally:
        await stream.close()


async def _speaks_http2(stream: ByteStream) -> bool:
    hello = encode(Hello(), WIRE_VERSION)
    await stream.write(hello)
    heard = b""
    while len(heard) < _FRAME_HEAD:
        more = await stream.read()
        if not more:
            raise TransientError(f"{stream.peer.address}: closed without a greeting; {_CHECK}")
        heard += more
    # a segment store's Hello begins with the same type and length as ours
    if heard[:8] == b"".join(hello)[:8]:
        return False
    if heard[3] == _SETTINGS_TYPE and not any(heard[5:_FRAME_HEAD]):
        return True
    raise TransientError(
        f"{stream.peer.address}: neither a segment store nor a controller; {_CHECK}"
    )
