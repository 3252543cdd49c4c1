"""What to say of a stream that is not there: S2 can list those that are."""

from logdrive.services.s2.client.client import S2Client
from logdrive.wire.s2.errors import S2Error


async def streams_instead(client: S2Client, stream: str) -> list[str]:
    """Return the names under which the segments of *stream* are shown, in order; mostly none.

    A stream with several segments, as receivers of a store create, is `stream/0`, `stream/1` and
    so on over S2. Raises `TransientError`.
    """
    try:
        names = await client.list_streams(f"{stream}/")
    except S2Error:  # there is no such basin, or the token does not allow lists
        return []
    numbers = sorted(int(end) for name in names if (end := name[len(stream) + 1 :]).isdecimal())
    return [f"{stream}/{number}" for number in numbers]


def missing_remedy(stream: str, instead: list[str]) -> str:
    """Return what is wrong with an address of *stream*, which is not there; see `streams_instead`.

    *stream* is the name with its basin.
    """
    if not instead:
        return f"there is no stream {stream}"
    shown = instead[0] if len(instead) == 1 else f"{instead[0]} to {instead[-1]}"
    return (
        f"there is no stream {stream}: it has several segments, which S2's clients see as {shown}; "
        "name one of these, or read all of them by the store's pravega:// or file:// address"
    )
