"""Watermarks for Java's readers: the bytes are those that Pravega 0.13.0's own serializer made."""

import hashlib

import pytest

from logdrive.wire.pravega.watermarks import encode_watermark

TWO = (
    "000001000000006100000000000003e800000000000007d0020000010000000018000000000000000000000000000000003fe0000000000000000000000000000a"
    "000001000000001800000001000000023fe00000000000003ff0000000000000000000000000012c"
)


def test_a_watermark_has_the_bytes_that_pravega_gives_it() -> None:
    assert (
        encode_watermark(1000, 2000, [(0, 0.0, 0.5, 10), (1 << 32 | 2, 0.5, 1.0, 300)]).hex() == TWO
    )


@pytest.mark.parametrize(
    ("segments", "length", "digest"),
    [
        (0, 25, "e850d357f3b6832a58559ae1d99d14f0379f189d8ac3d9fb581b463ed9435c8c"),
        (127, 5105, "007a4a364cf81cb0391e369ff7977fd6f457aa6dc339b93a7b2b2f0a28c76d5e"),
        (128, 5146, "c7e489e01289605d8413b56b44c8b4518380dc5845d0834d93763371ac97cb42"),
        (16383, 655_346, "cf164cb62ac74a13d08827f1425b184adfe756c853811be8ad80ec4faa4e8af6"),
        (16384, 655_388, "a9eb3c4e64b3a6aeaa8ff22249ba1458da83d12daab22ec75991d293fec90e4f"),
    ],
)
def test_the_count_of_segments_has_as_many_bytes_as_it_needs(
    segments: int, length: int, digest: str
) -> None:
    found = encode_watermark(-5, 7, [(n, n / 16384, (n + 1) / 16384, n) for n in range(segments)])
    assert (len(found), hashlib.sha256(found).hexdigest()) == (length, digest)
