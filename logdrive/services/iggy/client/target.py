"""Where an Iggy service is, and whom to log in as."""

from dataclasses import dataclass, field
from typing import Final

from logdrive.address import IggyAddress
from logdrive.host.transport import ClientTls

FIRST_USER: Final = "iggy"
"""The user that Iggy starts with, and its password: what an address without a login means."""


@dataclass(frozen=True, slots=True)
class IggyTarget:
    """A service, and what to connect with. It pickles, so that Spark can send it."""

    host: str
    port: int
    tls: ClientTls | None = None  # None: plain TCP
    user: str = FIRST_USER
    password: str = field(default=FIRST_USER, repr=False)

    @property
    def where(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


def iggy_target(
    address: IggyAddress, tls: ClientTls | None, login: tuple[str, str] | None = None
) -> IggyTarget:
    """Return the target of *address*; *login* are user and password where the address has none.

    Without any the user is the one that Iggy starts with.
    """
    user, password = login or (FIRST_USER, FIRST_USER)
    if address.user:
        user, password = address.user, address.password
    return IggyTarget(address.host, address.port, tls, user, password)
