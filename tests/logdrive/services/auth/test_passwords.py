"""Passwords are kept as salted scrypt hashes, and nothing that would cost too much to compare with
is taken.
"""

import hashlib

import pytest

from logdrive.services.auth.passwords import decoy, kept, parsed


def test_what_is_kept_fits_its_password_alone_and_is_read_back_from_its_text() -> None:
    password = kept("pässword: 1", b"0123456789abcdef")
    assert parsed(str(password)) == password
    assert password.fits("pässword: 1")
    assert not password.fits("pässword: 2")
    assert not decoy(b"0123456789abcdef").fits("")


def test_it_is_plain_scrypt() -> None:
    digest = hashlib.scrypt(
        b"x", salt=b"0123456789abcdef", n=1 << 14, r=8, p=1, maxmem=1 << 26, dklen=32
    )
    assert kept("x", b"0123456789abcdef").hash == digest
    assert kept("x", b"0123456789abcdeg").hash != digest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("secret", "no hash"),
        ("$scrypt$ln=14,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$short", "no hash"),
        (f"$scrypt$ln=20,r=99,p=1$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=0,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=14,r=8,p=9$MDEyMzQ1Njc4OWFiY2RlZg${'A' * 43}", "64 MiB"),
        (f"$scrypt$ln=14,r=8,p=1${'A' * 13}${'A' * 43}", "cut"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed(text)
