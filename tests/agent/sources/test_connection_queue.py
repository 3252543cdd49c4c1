"""The order in which the sources of one connection register."""

from agent.sources.connection_queue import ConnectionQueue
from agent.sources.identity import Identity
from agent.sources.incarnations import Incarnations
from agent.sources.source import Source


def _source(inode: int) -> Source:
    identity = Identity("a", "h", "/", inode, 2, b"first")
    return Source(None, Incarnations(identity.stem, identity), b"{}", count=0)


def _refuse_unreadable(queue: ConnectionQueue, source: Source) -> None:
    source.next_registrations()
    source.on_refused("its file can't be read", 60.0, of_receiver=False, of_file=True)
    queue.paused[source] = None


def test_whose_file_has_got_a_handle_registers_before_those_that_would_find_none() -> None:
    queue = ConnectionQueue()
    sources = [_source(inode) for inode in range(5)]
    for source in sources:
        queue.adopt(source)
    _refuse_unreadable(queue, sources[3])
    for source in (*sources[:3], sources[4]):
        queue.enqueue(source, 0.0)

    for served in (sources[3], sources[1]):  # one paused, one back in the queue
        queue.on_file_open(served)
    order = [queue.next_to_register() for _ in sources]
    assert order == [sources[number] for number in (3, 1, 0, 2, 4)]
    assert queue.next_to_register() is None


def test_source_that_was_taken_out_does_not_register_though_its_file_has_a_handle() -> None:
    queue, source = ConnectionQueue(), _source(1)
    queue.adopt(source)
    queue.enqueue(source, 0.0)
    queue.on_file_open(source)
    queue.remove(source)
    assert queue.next_to_register() is None
