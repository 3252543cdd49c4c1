"""Files whose bytes are hard to keep: no text, no lines, or too much of either."""

from random import Random

_random = Random(16)

ODD_FILES = {
    "empty": b"",
    "one byte": b"\n",
    "last without newline": b"first\nlast",
    "CR LF": b"a\r\nb\r\n\r\nc",
    "CR LF throughout": b"".join(b"line %d\r\n" % number for number in range(20_000)),
    "lone CR": b"a\rb\nc\r\r\n",
    "not UTF-8": b"ok\n\xff\xfe\nbroken \xc3( here\nok again\n" + bytes(range(256)) + b"\n",
    "not UTF-8 throughout": b"Gr\xfc\xdfe aus K\xf6ln\n" * 20_000,
    "a character over two runs": ("ä€😀".encode() * 100 + b"\n") * 2000,
    "NULs": b"before\n" + bytes(700_000) + b"\nafter\n",
    "NULs beyond a pack": bytes(9_000_000) + b"\nafter\n",
    "NUL lines": b"\0\n" * 50_000,
    "random bytes": _random.randbytes(3_000_000),
    "random bytes without a newline": _random.randbytes(3_000_000).replace(b"\n", b"\r"),
    "long line": "ä€😀".encode() * 400_000 + b"\nshort\n",
    "long line, not UTF-8": b"\xe4" * 2_000_000 + b"\nshort\n",
    "long line that does not shrink": _random.randbytes(1_000_000).hex().encode() + b"\nshort\n",
    "blank lines": b"\n" * 200_000,
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode() * 3,
    "looks like a header": b'{"logdrive":{"v":1,"kind":"data"}}\n' * 50,
    "looks like a pack": b"\1\1\0\0\0\4\0\0\0\0data\n" * 50,
}
"""Content by name; no two are the same."""
