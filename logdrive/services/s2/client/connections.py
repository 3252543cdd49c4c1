"""Connections to an S2 service, made when they are needed and made again when they are lost."""

import asyncio

from logdrive.host.transport import Transport
from logdrive.net.http.client import HttpClient
from logdrive.services.s2.client.target import Endpoint


class Connections:
    """One connection for each endpoint, and those that sessions are moving away from."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._current: dict[Endpoint, HttpClient] = {}
        self._retired: list[HttpClient] = []
        self._connecting = asyncio.Lock()

    async def connect(self, endpoint: Endpoint) -> HttpClient:
        """Return a usable connection to *endpoint*.

        Raises `TransientError`, and `ConfigError` for certificates that can't be used.
        """
        async with self._connecting:
            current = self._current.get(endpoint)
            if current is not None and current.usable:
                return current
            if current is not None:
                self._retire(endpoint)
            made = HttpClient(self._transport, endpoint.host, endpoint.port, endpoint.tls)
            await made.connect()
            self._current[endpoint] = made
            return made

    def retire(self, connection: HttpClient) -> None:
        """Open no more streams on *connection*, whose server is about to stop; open ones go on."""
        for endpoint, current in list(self._current.items()):
            if current is connection:
                self._retire(endpoint)

    def _retire(self, endpoint: Endpoint) -> None:
        self._retired = [old for old in self._retired if old.usable]
        self._retired.append(self._current.pop(endpoint))

    async def close(self) -> None:
        """Close all connections; their streams are reset."""
        closing = [*self._retired, *self._current.values()]
        self._retired, self._current = [], {}
        for connection in closing:
            await connection.close()
