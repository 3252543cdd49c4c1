"""Hashes of passwords: scrypt, each with its own salt.

As text: `$scrypt$ln=14,r=8,p=1$salt$hash`, salt and hash in base64 without padding.
"""

import base64
import binascii
import hmac
import re
from dataclasses import dataclass
from typing import Final

_TEXT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,88})\$([A-Za-z0-9+/]{43})"
)
_HASH_BYTES: Final = 32
# of new hashes: a comparison takes 16 MiB and some 40 ms
_LOG_COST: Final = 14
_BLOCK: Final = 8
_LANES: Final = 1
_MAX_MEMORY: Final = 64 << 20
"""Limit on the bytes of memory that a comparison may take."""
SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """One password's scrypt parameters, salt and hash."""

    log_cost: int
    block: int
    lanes: int
    salt: bytes
    hash: bytes

    def matches_password(self, password: str) -> bool:
        """Return whether *password* has this hash: it takes tens of ms."""
        return hmac.compare_digest(
            self.hash, _hashed(password, self.log_cost, self.block, self.lanes, self.salt)
        )

    def __str__(self) -> str:
        costs = f"ln={self.log_cost},r={self.block},p={self.lanes}"
        return f"$scrypt${costs}${_text(self.salt)}${_text(self.hash)}"


def hash_password(password: str, salt: bytes) -> PasswordHash:
    """Return the hash of *password* with *salt*: SALT_BYTES random bytes."""
    return PasswordHash(
        _LOG_COST, _BLOCK, _LANES, salt, _hashed(password, _LOG_COST, _BLOCK, _LANES, salt)
    )


def decoy_hash(salt: bytes) -> PasswordHash:
    """Return a hash that no password has, and that takes as long to compare as any other."""
    return PasswordHash(_LOG_COST, _BLOCK, _LANES, salt, b"")


def parse_hash(text: str) -> PasswordHash:
    """Parse the text form, from `str(PasswordHash)` or another program. Raises ValueError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError("it is not a hash: `logdrive store user NAME` makes one of a password")
    log_cost, block, lanes = (int(match[index]) for index in (1, 2, 3))

    # whoever writes the file could otherwise make each login take gigabytes
    if not (
        1 <= log_cost <= 20
        and block >= 1
        and lanes >= 1
        and 128 * block << log_cost <= _MAX_MEMORY
        and lanes <= 4
    ):
        raise ValueError(
            "it would take more than 64 MiB to compare a password with: make a new one "
            "with `logdrive store user NAME`"
        )
    try:
        return PasswordHash(log_cost, block, lanes, _bytes(match[4]), _bytes(match[5]))
    except binascii.Error as error:
        raise ValueError("its salt or hash is cut short: copy the whole line") from error


def _hashed(password: str, log_cost: int, block: int, lanes: int, salt: bytes) -> bytes:
    # only logins need OpenSSL as Python's own library has it, which takes 3 MiB; `hashlib` lacks
    # this function where a receiver was imported without it (`logdrive.cli.main`)
    from _hashlib import scrypt

    return scrypt(
        password.encode(),
        salt=salt,
        n=1 << log_cost,
        r=block,
        p=lanes,
        maxmem=2 * _MAX_MEMORY,
        dklen=_HASH_BYTES,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
