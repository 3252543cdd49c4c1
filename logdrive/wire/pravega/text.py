"""Java's modified UTF-8, in which every string of the protocol travels.

U+0000 is C0 80, and a character above U+FFFF goes as two surrogates of three bytes each. Plain
UTF-8 is read too, since some clients write it.
"""

import struct


def encode_text(text: str) -> bytes:
    """Return *text* in modified UTF-8, lone surrogates included."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    encoded = text.encode("utf-16-le", "surrogatepass")
    units = struct.unpack(f"<{len(encoded) // 2}H", encoded)
    return "".join(map(chr, units)).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode_text(data: bytes) -> str:
    """Return the string in *data*.

    Raises ValueError where it is neither modified nor plain UTF-8.
    """
    if data.isascii():
        return data.decode("ascii")
    text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
