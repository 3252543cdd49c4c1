"""Passwords are stored as salted scrypt hashes; hashes too expensive to compare are refused."""

import hashlib

import pytest

from logdrive.services.auth.passwords import decoy_hash, hash_password, parse_hash


def test_a_hash_matches_only_its_password_and_survives_its_text_form() -> None:
    password = hash_password("pässword: 1", b"0123456789abcdef")
    assert parse_hash(str(password)) == password
    assert password.matches_password("pässword: 1")
    assert not password.matches_password("pässword: 2")
    assert not decoy_hash(b"0123456789abcdef").matches_password("")


def test_the_hash_is_standard_scrypt() -> None:
    digest = hashlib.scrypt(
        b"x", salt=b"0123456789abcdef", n=1 << 14, r=8, p=1, maxmem=1 << 26, dklen=32
    )
    assert hash_password("x", b"0123456789abcdef").hash == digest
    assert hash_password("x", b"0123456789abcdeg").hash != digest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("secret", "not a hash"),
        ("$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$short", "not a hash"),
        (f"$scrypt$ln=20,r=99,p=1$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=0,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=14,r=8,p=9$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=14,r=8,p=1${'A' * 13}${'A' * 43}", "cut"),
    ],
)
def test_malformed_and_expensive_hashes_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_hash(text)
