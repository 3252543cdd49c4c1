"""Encryption of records with a key that only the clients have.

A sealed record is a byte for the cipher, a nonce, and the ciphertext with its tag of 16 bytes. Each
record has a random nonce of its own. Keys have 32 bytes.
"""

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from aeg import aegis256
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from logdrive.wire.s2.configs import Cipher
from logdrive.wire.s2.errors import bad_header, decryption_failed

KEY_BYTES: Final = 32
_NUMBERS: Final = {Cipher.AES_256_GCM: 1, Cipher.AEGIS_256: 2}
_CIPHERS: Final = {number: cipher for cipher, number in _NUMBERS.items()}

Transform = Callable[[bytes], bytes]
"""Encrypts or decrypts the fields of one record."""


class _Keyed(NamedTuple):
    """A cipher with a key; both functions take a nonce, and the bytes to encrypt or decrypt."""

    nonce_bytes: int
    encrypt: Callable[[bytes, bytes], bytes]
    decrypt: Callable[[bytes, bytes], bytes]


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


def sealer(cipher: Cipher, key: bytes) -> Transform:
    """Return the function that encrypts records with *key*."""
    keyed, prefix = _keyed(cipher, key), bytes((_NUMBERS[cipher],))

    def seal(fields: bytes) -> bytes:
        nonce = os.urandom(keyed.nonce_bytes)
        return b"".join((prefix, nonce, keyed.encrypt(nonce, fields)))

    return seal


def opener(key: bytes | None) -> Transform:
    """Return the function that decrypts records with *key*.

    It raises `S2Error`, 400: decryption_failed, or bad_header without a key.
    """
    ciphers: dict[Cipher, _Keyed] = {}

    def open_sealed(sealed: bytes) -> bytes:
        cipher = _CIPHERS.get(sealed[0]) if sealed else None
        if cipher is None:
            raise decryption_failed("a record is encrypted with a cipher that is not known here")
        check_key(cipher, key)
        assert key is not None
        if cipher not in ciphers:
            ciphers[cipher] = _keyed(cipher, key)
        keyed = ciphers[cipher]
        end = 1 + keyed.nonce_bytes
        try:
            return keyed.decrypt(sealed[1:end], sealed[end:])
        # too short to have a nonce and a tag, or with another tag
        except (InvalidTag, ValueError, TypeError):
            raise decryption_failed("the key given does not open the records") from None

    return open_sealed


def _keyed(cipher: Cipher, key: bytes) -> _Keyed:
    if cipher is Cipher.AEGIS_256:
        return _Keyed(
            aegis256.NONCEBYTES,
            lambda nonce, data: bytes(aegis256.encrypt(key, nonce, data)),
            lambda nonce, data: bytes(aegis256.decrypt(key, nonce, data)),
        )
    gcm = AESGCM(key)
    return _Keyed(
        12,
        lambda nonce, data: gcm.encrypt(nonce, data, None),
        lambda nonce, data: gcm.decrypt(nonce, data, None),
    )
