"""Each index names one source, is freed once it is given up and answered, and is not given twice
(rules D1, G3).
"""

from uuid import UUID

from agent.delivery.source_indices import SourceIndices
from agent.sources.identity import Identity
from agent.sources.incarnations import Incarnations
from agent.sources.source import Source
from logdrive.wire.lumberjack.frames import SourceFrame


def new_source() -> Source:
    identity = Identity("agent", "host", "/", 1, 0, b"first line")
    return Source(None, Incarnations(identity.stem, identity), b"{}", count=0)


def freeing(index: int, origin: UUID) -> bytes:
    return SourceFrame(index, origin, b"").encode()


def test_of_several_counts_asked_for_the_others_are_freed__G3() -> None:
    woken: list[None] = []
    indices, source = SourceIndices(lambda: woken.append(None)), new_source()
    origins = [source.incarnations.origin_for(count) for count in range(3)]
    given = [indices.ask(source, count, origins[count]) for count in range(3)]
    assert (given, indices.unanswered, len(indices), indices.sources) == ([0, 1, 2], 3, 3, 1)
    for index in given:
        asked = indices.count_answer(index)
        assert asked is not None
        assert asked.source is source
    assert indices.unanswered == 0
    assert not indices.take_freeing_frames()
    indices.register(source)
    assert indices.index_of(source) == 0
    assert indices.registered == [source]
    assert indices.take_freeing_frames() == [freeing(1, origins[1]), freeing(2, origins[2])]
    assert len(woken) == 2
    assert indices.count_answer(1) is None, "it was freed"
    assert indices.ask(source, 9, origins[0]) == 3


def test_an_index_that_is_given_up_is_freed_only_once_it_is_answered__D1() -> None:
    indices, source = SourceIndices(lambda: None), new_source()
    index = indices.ask(source, 0, source.origin)
    indices.give_up(source)
    assert indices.sources == 0
    assert not indices.take_freeing_frames()
    asked = indices.count_answer(index)
    assert asked is not None
    assert asked.source is None
    assert indices.take_freeing_frames() == [freeing(index, source.origin)]
    assert (len(indices), indices.unanswered) == (0, 0)


def test_another_answer_for_a_registered_source_counts_once_and_frees_what_was_asked__D3() -> None:
    indices, source = SourceIndices(lambda: None), new_source()
    index, origin = indices.ask(source, 0, source.origin), source.origin
    indices.count_answer(index)
    indices.register(source)
    asked = indices.count_answer(index)
    assert asked is not None
    assert (asked.source, asked.count, asked.origin) == (source, 0, origin)
    assert (indices.unanswered, indices.sources, len(indices)) == (0, 1, 1)
    # the answer does not fit: the source takes the next count
    source.count, source.origin = 1, source.incarnations.origin_for(1)
    indices.give_up(source)
    assert indices.take_freeing_frames() == [freeing(index, origin)]
    assert (indices.sources, len(indices)) == (0, 0)
