"""Pages of lists: in the order of bytes, from a name on, with a limit."""

from collections.abc import Iterable
from heapq import nsmallest

from logdrive.wire.s2.limits import LIST_ITEMS


def page_of(
    names: Iterable[str], prefix: str, start_after: str, limit: int | None
) -> tuple[list[str], bool]:
    """Return the first *limit* of *names* after *start_after* that begin with *prefix*.

    Also return whether there are more. No limit, 0, and one beyond a page mean a whole page. The
    order of characters is that of their UTF-8 bytes.
    """
    most = limit if limit and limit <= LIST_ITEMS else LIST_ITEMS
    fitting = (name for name in names if name.startswith(prefix) and name > start_after)
    page = nsmallest(most + 1, fitting)
    return page[:most], len(page) > most
