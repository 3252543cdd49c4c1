"""Encryption of records with a key that only the clients have.

A sealed record is a byte for the cipher, a nonce, and the ciphertext with its tag. Each record has
a random nonce of its own. Both ciphers take keys of 32 bytes. AEGIS-256 is of libaegis by way of
pyaegis, an optional dependency: there are not wheels for every system.
"""

import os
from collections.abc import Callable
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from logdrive.wire.s2.configs import Cipher
from logdrive.wire.s2.errors import bad_header, decryption_failed, not_implemented

KEY_BYTES: Final = 32
_NUMBERS: Final = {Cipher.AES_256_GCM: 1, Cipher.AEGIS_256: 2}
_CIPHERS: Final = {number: cipher for cipher, number in _NUMBERS.items()}
_NONCE_BYTES: Final = {Cipher.AES_256_GCM: 12, Cipher.AEGIS_256: 32}

_AEGIS_TAG_BYTES: Final = 32

Sealer = Callable[[bytes], bytes]
"""Encrypts the fields of one record."""


def check_key(cipher: Cipher | None, key: bytes | None) -> None:
    """Raise `S2Error`, 400 bad_header, unless *key* is one for a stream with *cipher*."""
    if cipher is None:
        return
    if key is None:
        raise bad_header(f"the stream is encrypted with {cipher.value}: give s2-encryption-key")
    if len(key) != KEY_BYTES:
        raise bad_header(
            f"a key for {cipher.value} has {KEY_BYTES} bytes, not the {len(key)} of "
            "s2-encryption-key"
        )


def sealer(cipher: Cipher, key: bytes) -> Sealer:
    """Return the function that encrypts records with *key*. Raises `S2Error`, 501."""
    encrypt = _cipher(cipher, key).encrypt
    prefix, size = bytes((_NUMBERS[cipher],)), _NONCE_BYTES[cipher]

    def seal(fields: bytes) -> bytes:
        nonce = os.urandom(size)
        return b"".join((prefix, nonce, encrypt(nonce, fields, None)))

    return seal


def opener(key: bytes | None) -> Callable[[bytes], bytes]:
    """Return the function that decrypts records with *key*. It raises `S2Error`, 400."""
    opened: dict[Cipher, _Aead] = {}

    def open_(sealed: bytes) -> bytes:
        cipher = _CIPHERS.get(sealed[0]) if sealed else None
        if cipher is None:
            raise decryption_failed("a record is encrypted with a cipher that is not known here")
        check_key(cipher, key)
        assert key is not None
        if cipher not in opened:
            opened[cipher] = _cipher(cipher, key)
        end = 1 + _NONCE_BYTES[cipher]
        try:
            return opened[cipher].decrypt(sealed[1:end], sealed[end:], None)
        except (InvalidTag, ValueError):
            raise decryption_failed("the key given does not open the records") from None

    return open_


class _Aead(Protocol):
    """Authenticated encryption with one key. `decrypt` raises `InvalidTag` and ValueError."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: None, /) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: None, /) -> bytes: ...


class _Aegis256:
    """AEGIS-256 with one key; raises `S2Error`, 501, where its library is missing."""

    def __init__(self, key: bytes) -> None:
        try:
            from pyaegis import Aegis256, DecryptionError
        except ImportError:
            raise not_implemented(
                "aegis-256 needs pyaegis, which is not installed: pip install 'logdrive[aegis]', "
                "or use aes-256-gcm"
            ) from None
        self._key = key
        self._aegis = Aegis256(_AEGIS_TAG_BYTES)
        self._failure: type[Exception] = DecryptionError

    def encrypt(self, nonce: bytes, data: bytes, associated_data: None, /) -> bytes:
        return bytes(self._aegis.encrypt(self._key, nonce, data))

    def decrypt(self, nonce: bytes, data: bytes, associated_data: None, /) -> bytes:
        if len(data) < _AEGIS_TAG_BYTES:
            raise ValueError("the ciphertext is shorter than its tag")
        try:
            return bytes(self._aegis.decrypt(self._key, nonce, data))
        except self._failure as error:
            raise InvalidTag from error


def _cipher(cipher: Cipher, key: bytes) -> _Aead:
    return _Aegis256(key) if cipher is Cipher.AEGIS_256 else AESGCM(key)
