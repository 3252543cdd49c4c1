"""Small SVG charts whose shapes stretch with the page.

Their words are HTML, so they stay readable on a phone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across a chart, *at* percent from its bottom."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart, in percent."""

    x: float  # of its left side
    width: float
    height: float
    title: str


def scale(most: float, steps: int = 4) -> tuple[float, list[float]]:
    """Return a round top not below *most*, and the round values up to it."""
    if most <= 0:  # an empty chart
        return 1.0, [0.0]
    rough = most / steps
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    count = math.ceil(most / step - 1e-9)  # less a little: a quotient of floats may exceed it
    return count * step, [step * n for n in range(count + 1)]


def columns(values: Sequence[float], titles: Sequence[str], top: float) -> list[Column]:
    """Return a column per value, with a small gap between them."""
    width = 100 / max(1, len(values))
    return [
        Column(n * width + width * 0.08, width * 0.84, 100 * value / top, title)
        for n, (value, title) in enumerate(zip(values, titles, strict=True))
    ]


def decades(values: Sequence[float]) -> tuple[float, float, list[Tick]]:
    """Return the bounds, as powers of ten, of a logarithmic axis for *values*, and its ticks."""
    known = [max(value, 1e-3) for value in values]  # a logarithm of 0 has no place
    low, high = (
        math.floor(math.log10(min(known, default=1))),
        math.ceil(math.log10(max(known, default=1)) + 1e-9),
    )
    high = max(high, low + 1)  # an axis without length would divide by zero
    return (
        low,
        high,
        [Tick(100 * (n - low) / (high - low), duration(10.0**n)) for n in range(low, high + 1)],
    )


def line(values: Sequence[float | None], low: float, high: float) -> str:
    """Return the path of a line over *values* on a logarithmic axis, in a box of 100 by 100.

    *low* and *high* are the axis's bounds as powers of ten. The line breaks where a value is
    missing.
    """
    width = 100 / max(1, len(values))
    parts, pen = [], "M"
    for n, value in enumerate(values):
        if value is None:
            pen = "M"  # the next point begins another line
            continue
        y = 100 - 100 * (math.log10(max(value, 10**low)) - low) / (high - low)
        parts.append(f"{pen}{(n + 0.5) * width:.2f} {y:.2f}")
        if pen == "M":
            parts.append("h0.01")  # a point by itself shows as a dot
        pen = "L"
    return "".join(parts)


def duration(seconds: float) -> str:
    """Return seconds for people."""
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size * (1 if name == "s" else 2):
            number = seconds / size
            return f"{number:,.0f} {name}" if number >= 100 else f"{number:.3g} {name}"
    return f"{seconds * 1000:.3g} ms" if seconds else "0"


def short(number: float) -> str:
    """Return a count for people: 1.2 M."""
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if number >= size:
            return f"{number / (1e3 if name == ' k' else size):.3g}{name}"
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.2g}"


def size(number: float) -> str:
    """Return a number of bytes for people: 1.2 MB."""
    text = short(number)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"
