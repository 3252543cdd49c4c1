"""Random sequences of requests about segments, compared with a simple model.

Every answer and the final state are compared (specification, section 3).
"""

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.wire.pravega.control import (
    NoSuchSegment,
    SegmentAlreadyExists,
    SegmentIsSealed,
    SegmentIsTruncated,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    CreateSegment,
    DeleteSegment,
    GetStreamSegmentInfo,
    MergedSource,
    MergeSegments,
    MergeSegmentsBatch,
    ReadSegment,
    SealSegment,
    SegmentCreated,
    SegmentDeleted,
    SegmentRead,
    SegmentsBatchMerged,
    SegmentSealed,
    SegmentsMerged,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
)
from tests.support.pravega.framings import W
from tests.support.pravega.peer import World, in_world

NAMES = ("a/s/0.#epoch.0", "a/s/1.#epoch.0", "a/s/0.#epoch.0#transaction.1")


@dataclass
class Segment:
    """One segment; *data* from offset 0, the part before *start* too."""

    data: bytes = b""
    start: int = 0
    sealed: bool = False


@dataclass
class Model:
    """All segments, and what each merged source was merged into."""

    segments: dict[str, Segment] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)

    def answer(self, request: Message) -> Message | None:
        """Apply *request*; return the reply that it must get, None where the connection ends."""
        match request:
            case MergeSegments(number, target, source):
                return self._merge(number, target, source)
            case MergeSegmentsBatch(number, target, sources):
                return self._merge_all(number, target, sources)
            case CreateSegment(number, name):
                if name in self.segments:
                    return SegmentAlreadyExists(number, name)
                self.segments[name] = Segment()
                self.merged.pop(name, None)
                return SegmentCreated(number, name)
            case DeleteSegment(number, name):
                if self.segments.pop(name, None) is None:
                    return NoSuchSegment(number, name)
                return SegmentDeleted(number, name)
            case SealSegment() | TruncateSegment() | ReadSegment():
                return self._of_one(request)
        raise AssertionError(request)

    def _of_one(self, request: SealSegment | TruncateSegment | ReadSegment) -> Message | None:
        number, name = request.request_id, request.segment
        found = self.segments.get(name)
        if found is None:
            offsets = {ReadSegment: "offset", TruncateSegment: "truncation_offset"}
            asked = offsets.get(type(request))
            return NoSuchSegment(number, name, "", getattr(request, asked) if asked else -1)
        match request:
            case SealSegment():
                if found.sealed:
                    return SegmentIsSealed(number, name)
                found.sealed = True
                return SegmentSealed(number, name)
            case TruncateSegment(truncation_offset=offset):
                if not found.start <= offset <= len(found.data):
                    return SegmentIsTruncated(number, name, found.start, "", offset)
                found.start = offset
                return SegmentTruncated(number, name)
            case ReadSegment(offset=offset):
                if offset < found.start:
                    return SegmentIsTruncated(number, name, found.start, "", offset)
                return SegmentRead(
                    name, offset, not found.sealed, found.sealed, found.data[offset:], number
                )

    def _merge(self, number: int, target: str, source: str) -> Message | None:
        if (
            source not in self.segments
            and self.merged.get(source) == target
            and target in self.segments
        ):
            return SegmentsMerged(number, target, source, len(self.segments[target].data))
        for name in (target, source):
            if name not in self.segments:
                return NoSuchSegment(number, name)
            if name == target and self.segments[target].sealed:
                return SegmentIsSealed(number, target)
        if self.segments[source].start:
            return None
        self.segments[target].data += self.segments.pop(source).data
        self.merged[source] = target
        return SegmentsMerged(number, target, source, len(self.segments[target].data))

    def _merge_all(self, number: int, target: str, sources: tuple[str, ...]) -> Message | None:
        if target not in self.segments:
            return NoSuchSegment(number, target)
        if self.segments[target].sealed:
            return SegmentIsSealed(number, target)
        lengths = []
        for source in sources:
            if source in self.segments and self._merge(number, target, source) is None:
                return None
            lengths.append(MergedSource(source, len(self.segments[target].data)))
        return SegmentsBatchMerged(number, target, tuple(lengths))


NAME = st.sampled_from(NAMES)
OFFSET = st.integers(-1, 30)
REQUESTS: st.SearchStrategy[Message | tuple[str, bytes]] = st.one_of(
    st.builds(CreateSegment, st.just(7), NAME, st.just(0), st.just(0), st.just("")),
    st.tuples(NAME, st.binary(min_size=1, max_size=9)),
    st.tuples(NAME, st.binary(min_size=1, max_size=9)),
    st.builds(SealSegment, st.just(7), NAME, st.just("")),
    st.builds(TruncateSegment, st.just(7), NAME, OFFSET, st.just("")),
    st.builds(DeleteSegment, st.just(7), NAME, st.just("")),
    st.tuples(NAME, NAME)
    .filter(lambda pair: pair[0] != pair[1])
    .map(lambda pair: MergeSegments(7, *pair)),
    st.permutations(NAMES).map(lambda names: MergeSegmentsBatch(7, names[0], tuple(names[1:]))),
    st.builds(ReadSegment, NAME, st.integers(0, 30), st.just(1024), st.just(""), st.just(7)),
)


@given(st.lists(REQUESTS, max_size=40), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_answer_is_as_the_model_says(
    requests: list[Message | tuple[str, bytes]], seed: int
) -> None:
    async def main(made: World) -> None:
        model, peer = Model(), await made.peer()
        for name in NAMES[:2]:
            assert await peer.ask(CreateSegment(7, name)) == model.answer(CreateSegment(7, name))
        for number, request in enumerate(requests, 1):
            if isinstance(request, tuple):
                name, data = request
                if name in model.segments and not model.segments[name].sealed:
                    await made.store.append(
                        name, data, writer=W, expected=None, number=number, events=1
                    )
                    model.segments[name].data += data
                continue
            if isinstance(request, ReadSegment) and request.offset >= len(
                model.segments.get(request.segment, Segment(b"." * 99)).data
            ):
                continue  # it would wait, or close the connection
            expected = model.answer(request)
            await peer.say(request)
            if expected is None:
                assert await peer.rest() == []
                peer = await made.peer()
            else:
                assert await peer.hear() == expected
        await compare(made, model)

    in_world(main, random=Random(seed))()


async def compare(made: World, model: Model) -> None:
    peer = await made.peer()
    for name in NAMES:
        info, found = await peer.ask(GetStreamSegmentInfo(1, name)), model.segments.get(name)
        if found is None:
            assert info == NoSuchSegment(1, name)
        else:
            assert isinstance(info, StreamSegmentInfo)
            assert (info.start_offset, info.write_offset, info.is_sealed) == (
                found.start,
                len(found.data),
                found.sealed,
            )
            assert made.store.read(name, found.start, 1 << 20) == found.data[found.start :]
