"""Passwords as they are kept: scrypt with a salt of their own, written as
`$scrypt$ln=14,r=8,p=1$salt$hash`.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

_TEXT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,88})\$([A-Za-z0-9+/]{43})"
)
_HASH_BYTES: Final = 32
_LOG_COST, _BLOCK, _LANES = 14, 8, 1  # 16 MiB and some 40 ms
_MOST_BYTES: Final = 64 << 20
SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """What is kept of one password."""

    log_cost: int
    block: int
    lanes: int
    salt: bytes
    hash: bytes

    def matches_password(self, password: str) -> bool:
        """Tell whether *password* is the one; takes tens of ms and the memory that it was made
        with.
        """
        return hmac.compare_digest(
            self.hash, _hashed(password, self.log_cost, self.block, self.lanes, self.salt)
        )

    def __str__(self) -> str:
        costs = f"ln={self.log_cost},r={self.block},p={self.lanes}"
        return f"$scrypt${costs}${_text(self.salt)}${_text(self.hash)}"


def hash_password(password: str, salt: bytes) -> PasswordHash:
    """Return what to keep of *password*. *salt* is SALT_BYTES that nobody can guess."""
    return PasswordHash(
        _LOG_COST, _BLOCK, _LANES, salt, _hashed(password, _LOG_COST, _BLOCK, _LANES, salt)
    )


def decoy_hash(salt: bytes) -> PasswordHash:
    """Return what takes as long as any other to compare with, and fits nothing."""
    return PasswordHash(_LOG_COST, _BLOCK, _LANES, salt, b"")


def parse_hash(text: str) -> PasswordHash:
    """Read what `hash_password` wrote, or another program that writes scrypt like that.

    Raises ValueError.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("it is no hash: `logdrive store user NAME` makes one of a password")
    log_cost, block, lanes = (int(found[index]) for index in (1, 2, 3))
    if not (
        1 <= log_cost <= 20
        and block >= 1
        and lanes >= 1
        and 128 * block << log_cost <= _MOST_BYTES
        and lanes <= 4
    ):
        raise ValueError(
            "it would take more than 64 MiB to compare a password with: make it anew with "
            "`logdrive store user NAME`"
        )
    try:
        return PasswordHash(log_cost, block, lanes, _bytes(found[4]), _bytes(found[5]))
    except binascii.Error as error:
        raise ValueError("its salt or hash is cut: copy the whole line") from error


def _hashed(password: str, log_cost: int, block: int, lanes: int, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << log_cost,
        r=block,
        p=lanes,
        maxmem=2 * _MOST_BYTES,
        dklen=_HASH_BYTES,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
