"""Tries one receiver for `logdrive agent check`: connects, and sends nothing."""

import asyncio
import contextlib

from agent.config.config import AgentConfig
from agent.delivery.dialect_choice import NOT_LOGDRIVE, choose_dialect, offered_protocols
from logdrive.address import host_port
from logdrive.check import Finding
from logdrive.errors import LogdriveError, TransientError
from logdrive.host.transport import ByteStream, ClientTls, Transport

_REFUSAL_SECONDS = 1.0
"""Limit on waiting for a receiver to refuse our certificate."""


async def check_receiver(config: AgentConfig, host: str, transport: Transport) -> Finding:
    """Return whether the receiver at *host* is reached, and what would be spoken with it."""
    settings = config.output
    name, port = host_port(host)
    label = host if host.endswith(f":{port}") else f"{host}:{port}"
    try:
        tls = (
            None
            if settings.tls == "off"
            else settings.tls.settings(offered_protocols(settings.dialect))
        )
        async with asyncio.timeout(settings.connect_seconds):
            stream = await transport.connect(name, port, tls)
        choice = choose_dialect(settings.dialect, stream.peer)
        await _close_unless_refused(stream, tls if choice is not None else None)
    except TimeoutError:
        return Finding(
            label, ok=False, detail=f"no connection within {settings.connect_seconds:g} s"
        )
    except LogdriveError as error:
        # the finding's name says the host already
        return Finding(
            label,
            ok=False,
            detail=str(error).removeprefix(f"{host}: ").removeprefix(f"{name}:{port}: "),
        )

    if choice is None:
        return Finding(label, ok=False, detail=NOT_LOGDRIVE)
    if tls is None:
        who = ", without TLS: if the receiver wants TLS, that shows only once lines are sent"
    else:
        who = f", and its certificate speaks for {tls.server_name or name}"
    return Finding(
        label,
        ok=True,
        detail=f"reached{who}; {choice.dialect} would be spoken: {choice.reason}",
        warn=choice.fell_back,
    )


async def _close_unless_refused(stream: ByteStream, tls: ClientTls | None) -> None:
    """Close *stream*. Raises `TransientError` if the receiver refuses our certificate before.

    Under TLS 1.3 it sees our certificate, or that we have none, only after our handshake. One that
    accepts us says nothing.
    """
    try:
        if tls is not None:
            async with asyncio.timeout(_REFUSAL_SECONDS):
                if not await stream.read():
                    raise TransientError("it closed the connection before anything was sent")
    except TimeoutError:
        pass
    except TransientError as error:
        how = "see" if tls is not None and tls.cert is not None else "set"
        raise TransientError(f"{error}; {how} output.tls.cert and output.tls.key") from error
    finally:
        with contextlib.suppress(TransientError):
            await stream.close()
