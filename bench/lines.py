"""The log that every benchmark reads: nginx "combined" lines, made from a seed.

They have 188 bytes each on average, newline included. Addresses, paths and referers follow a skewed
distribution and times move on, so that a compressor finds about what it finds in a real access log:
deflate's fastest level leaves 33 to 46 bytes a line.
"""

import random
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

VERSION = 1
"""Part of the cached file's name: raised when the lines change."""

_START = 1_763_700_000  # seconds since 1970 of the first line
_PER_SECOND = 400  # lines that bear one second's time
_BATCH = 10_000

_SECTIONS = (
    "products",
    "articles",
    "users",
    "orders",
    "search",
    "static/img",
    "static/js",
    "api/v1/items",
    "api/v1/sessions",
    "downloads",
)
_WORDS = (
    "river",
    "timber",
    "harbour",
    "spruce",
    "carriage",
    "meadow",
    "lantern",
    "granite",
    "orchard",
    "saddle",
    "weaver",
    "compass",
)
_SUFFIXES = (
    "",
    "",
    "",
    "/edit",
    "?page=2",
    "?sort=price&dir=asc",
    "/comments",
    ".html",
    "?utm_source=newsletter",
    "/thumb.webp",
)
_AGENTS = (
    (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/126.0.0.0 Safari/537.36"
    ),
    (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like "
        "Gecko) Version/17.5 Safari/605.1.15"
    ),
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (Linux; Android 14; K) AppleWebKit/537.36 Chrome/125.0.0.0 Mobile",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "curl/7.88.1",
    "python-requests/2.32.3",
    "kube-probe/1.29",
    "okhttp/4.12.0",
)
_AGENT_WEIGHTS = (11, 6, 13, 9, 14, 10, 10, 12, 8, 9)
_METHODS = {"GET": 86, "POST": 9, "HEAD": 3, "PUT": 2}
_STATUSES = {200: 80, 304: 8, 404: 5, 301: 3, 302: 2, 500: 1, 499: 1}


def _skewed(count: int) -> list[float]:
    """Return cumulative weights of *count* things, of which the first are far more frequent."""
    return list(accumulate(1 / (rank + 200) for rank in range(count)))


def lines(count: int, seed: int = 188) -> Iterator[bytes]:
    """Yield *count* lines in pieces of up to 10,000, each piece whole lines."""
    rng = random.Random(seed)
    addresses = [
        f"{rng.randint(11, 223)}.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"
        for _ in range(20_000)
    ]
    paths = [
        f"/{rng.choice(_SECTIONS)}/{rng.choice(_WORDS)}"
        f"-{rng.randint(1, 99_999)}{rng.choice(_SUFFIXES)}"
        for _ in range(20_000)
    ]
    referers = ["-"] * 900 + [f"https://example.com{path}" for path in paths[:2000]]
    shares = [_skewed(len(addresses)), _skewed(len(paths)), _skewed(len(referers))]
    for first in range(0, count, _BATCH):
        size = min(_BATCH, count - first)
        columns = zip(
            range(first, first + size),
            rng.choices(addresses, cum_weights=shares[0], k=size),
            rng.choices(list(_METHODS), list(_METHODS.values()), k=size),
            rng.choices(paths, cum_weights=shares[1], k=size),
            rng.choices(list(_STATUSES), list(_STATUSES.values()), k=size),
            rng.choices(referers, cum_weights=shares[2], k=size),
            rng.choices(_AGENTS, _AGENT_WEIGHTS, k=size),
            strict=True,
        )
        yield "".join(
            (
                f'{address} - - [{_time(number)}] "{method} {path} HTTP/1.1" {status} '
                f'{rng.randint(90, 65_000)} "{referer}" "{agent}"\n'
            )
            for number, address, method, path, status, referer, agent in columns
        ).encode()


_times: dict[int, str] = {}


def _time(number: int) -> str:
    second = _START + number // _PER_SECOND
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))


def log_file(directory: Path, count: int) -> Path:
    """Return the path of a file of *count* lines in *directory*; it is written once and kept."""
    path = directory / f"nginx-{VERSION}-{count}.log"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            file.writelines(lines(count))
        partial.replace(path)
    return path
