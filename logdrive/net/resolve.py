"""Addresses of a host: looked up anew for each connection, and tried one after another."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from random import Random
from typing import Any

Address = tuple[socket.AddressFamily, Any]
"""A family, and what sockets of that family take to connect."""

Resolve = Callable[[str, int], Awaitable[list[Address]]]
"""Returns the addresses of a host and a port, the preferred first. Raises `socket.gaierror`."""


async def resolve_addresses(host: str, port: int) -> list[Address]:
    """Return the addresses that the system knows of *host*; an address needs no look-up.

    Raises `socket.gaierror`.
    """
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _type, _protocol, _name, address in resolved]
    return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]


def spread_addresses(addresses: Sequence[Address], random: Random) -> list[Address]:
    """Return *addresses* in a random order, but for that of their families.

    The resolver sorts them, so that all clients of a name with several would try the same one
    first. Which family is to be preferred it knows better (RFC 6724).
    """
    spread = list[Address]()
    for _, group in groupby(addresses, key=lambda address: address[0]):
        alike = list(group)
        random.shuffle(alike)
        spread += alike
    return spread
