"""What a file is that begins like a known generation: the table of `judge.py` (G5)."""

from dataclasses import dataclass, replace

import pytest

from agent.inputs.files.copies.judge import (
    CopyVerdict,
    Judgement,
    Suspect,
    judge,
    judge_unpacked,
)
from agent.inputs.files.copies.known_life import KnownLife, LifeState
from agent.inputs.files.copies.samples import LivingPlainFile, PlainSample
from agent.inputs.files.prefix import BOUNDARIES, extend_prefix
from agent.sources.identity import FirstLine
from logdrive.model.numbers import number_of
from tests.agent.world import lines
from tests.support.memory.disk import MemoryDisk

HEADER = b"# constant header\n"
READ = HEADER + lines(0, 400)  # 4818 bytes
LOG, COPY = "/logs/app.log", "/logs/app.log.1"


@dataclass
class Case:
    """A generation of which READ was read, and a file that may be a copy."""

    state: LifeState
    content: bytes
    path: str = COPY
    rests: bool = False
    file: bytes | None = None  # what the living file has
    named: bool = True
    read: bytes = READ
    seen: bytes = b""  # what was seen of it beyond what was read
    asked: bool = False  # whether the store has yet to say what it has
    name: str = LOG  # where its file was seen last

    def life(self) -> KnownLife:
        first_line = FirstLine.find_in(self.read)
        assert first_line is not None
        end = self.read + self.seen
        return KnownLife(
            state=self.state,
            source=None,
            path=LOG,
            name=self.name,
            first_line=first_line,
            prefix=extend_prefix(b"", len(self.read), lambda size, at: self.read[at : at + size]),
            number=number_of(len(self.read), self.read),
            last=number_of(len(end), end) if self.seen else 0,
            asked=self.asked,
        )

    def judge(self, *, unpacked: bool = False) -> Judgement:
        disk = MemoryDisk(["/logs", "/old"])
        disk.write(self.path, self.content)
        sample = PlainSample(disk.open(self.path), len(self.content))
        living = None
        if self.file is not None:
            disk.write("/logs/living", self.file)
            handle = disk.open("/logs/living")
            if not self.named:
                disk.remove("/logs/living")
            living = LivingPlainFile(handle)
        if unpacked:
            return judge_unpacked(self.path, sample, [(self.life(), living)])
        return judge(Suspect(self.path, sample, self.rests), [(self.life(), living)])


SHORT = HEADER + lines(0, 5)
MORE = READ + lines(400, 5)
OTHER = HEADER + lines(0, 500, prefix="other")
AWAITED, ENDED, LIVING, ABSENT = (
    LifeState.AWAITED,
    LifeState.ENDED,
    LifeState.LIVING,
    LifeState.ABSENT,
)

CASES = {
    "rest": (Case(AWAITED, MORE), CopyVerdict.REST),
    "all, at another place": (Case(AWAITED, READ, path="/old/app.log"), CopyVerdict.REST),
    "all, at a place without relation": (Case(AWAITED, READ, path="/old/x"), CopyVerdict.NEW),
    "rest with other bytes than seen": (Case(AWAITED, MORE, seen=b"others"), CopyVerdict.NEW),
    "in its place": (Case(AWAITED, MORE, path=LOG), CopyVerdict.MOVED),
    "next life in its place": (Case(AWAITED, READ[:3000], path=LOG), CopyVerdict.NEW),
    "copy that grows": (Case(AWAITED, READ[:3000]), CopyVerdict.HELD),
    "copy that was cut": (Case(AWAITED, READ[:3000], rests=True), CopyVerdict.COPY),
    "few bytes of more": (Case(AWAITED, SHORT, rests=True), CopyVerdict.NEW),
    "few bytes of more that grow": (Case(AWAITED, SHORT), CopyVerdict.HELD),
    "another file": (Case(AWAITED, OTHER), CopyVerdict.NEW),
    "few bytes, related": (Case(AWAITED, SHORT, read=SHORT), CopyVerdict.REST),
    "few bytes, unrelated": (Case(AWAITED, SHORT, read=SHORT, path="/old/x"), CopyVerdict.NEW),
    "first line only, and more": (Case(AWAITED, SHORT, read=HEADER), CopyVerdict.NEW),
    "first line, the store is asked": (
        Case(AWAITED, SHORT, read=HEADER, asked=True),
        CopyVerdict.HELD,
    ),
    "another, the store is asked": (Case(AWAITED, OTHER, asked=True), CopyVerdict.NEW),
    "copy of an ended one": (Case(ENDED, READ, rests=True), CopyVerdict.COPY),
    "part of an ended one": (Case(ENDED, READ[:3000], rests=True), CopyVerdict.COPY),
    "that grows": (Case(ENDED, READ[:3000]), CopyVerdict.HELD),
    "few bytes of an ended one": (Case(ENDED, SHORT, rests=True), CopyVerdict.NEW),
    "all of a short one": (Case(ENDED, SHORT, read=SHORT, rests=True), CopyVerdict.COPY),
    "all of an ended one, unrelated": (
        Case(ENDED, READ, path="/logs/app2.log", rests=True),
        CopyVerdict.NEW,
    ),
    "next life of an ended one": (Case(ENDED, READ, path=LOG, rests=True), CopyVerdict.NEW),
    "copy of a living one": (Case(LIVING, READ, file=MORE, rests=True), CopyVerdict.HELD),
    "the same as a living one, unrelated": (
        Case(LIVING, READ, path="/logs/app2.log", file=MORE),
        CopyVerdict.NEW,
    ),
    "instead of one without name, unrelated": (
        Case(LIVING, MORE, path="/logs/app2.log", file=READ, named=False),
        CopyVerdict.NEW,
    ),
    "in the place of a renamed one": (
        Case(LIVING, READ, path=LOG, name=COPY, file=READ),
        CopyVerdict.HELD,
    ),
    "that at rest": (
        Case(LIVING, READ, path=LOG, name=COPY, file=READ, rests=True),
        CopyVerdict.NEW,
    ),
    "few bytes of a living one": (Case(LIVING, SHORT, file=MORE), CopyVerdict.HELD),
    "the same at rest": (Case(LIVING, SHORT, file=MORE, rests=True), CopyVerdict.NEW),
    "other than a living one": (Case(LIVING, OTHER, file=MORE), CopyVerdict.NEW),
    "more than a living one": (Case(LIVING, MORE, file=READ, rests=True), CopyVerdict.NEW),
    "instead of one without name": (Case(LIVING, MORE, file=READ, named=False), CopyVerdict.MOVED),
    "less than one without name": (Case(LIVING, READ, file=MORE, named=False), CopyVerdict.HELD),
    "of one that can't be read": (Case(LIVING, READ), CopyVerdict.HELD),
    "of an absent one": (Case(ABSENT, READ, rests=True), CopyVerdict.HELD),
    "of an absent one, unrelated": (Case(ABSENT, READ, path="/old/x", rests=True), CopyVerdict.NEW),
    "all of an absent short one": (
        Case(ABSENT, SHORT, read=SHORT, rests=True),
        CopyVerdict.HELD,
    ),
    "all that was seen of an absent one": (
        Case(ABSENT, SHORT, read=HEADER, seen=SHORT[len(HEADER) :], rests=True),
        CopyVerdict.HELD,
    ),
    "other than was seen of an absent one": (
        Case(ABSENT, SHORT, read=HEADER, seen=OTHER[len(HEADER) : len(SHORT)], rests=True),
        CopyVerdict.NEW,
    ),
    "all of an absent one's first line": (
        Case(ABSENT, HEADER, read=HEADER, rests=True),
        CopyVerdict.HELD,
    ),
    "more than an absent short one": (
        Case(ABSENT, SHORT + lines(5, 5), read=SHORT, rests=True),
        CopyVerdict.HELD,
    ),
    "more than an absent one's first line": (
        Case(ABSENT, SHORT, read=HEADER, rests=True),
        CopyVerdict.NEW,
    ),
    "few bytes of an absent one": (Case(ABSENT, SHORT, rests=True), CopyVerdict.NEW),
    "less than one that is gone, unrelated": (
        Case(AWAITED, READ[:3000], path="/logs/app2.log", rests=True),
        CopyVerdict.NEW,
    ),
}


@pytest.mark.parametrize(("case", "verdict"), CASES.values(), ids=CASES.keys())
def test_each_row_of_the_table__G5(case: Case, verdict: CopyVerdict) -> None:
    assert case.judge().verdict is verdict


@pytest.mark.parametrize(
    ("name", "covered"),
    {
        "copy that grows": True,
        "few bytes of more that grow": False,
        "copy of a living one": True,
        "few bytes of a living one": True,
        "of one that can't be read": True,
        "of an absent one": True,
        "all of an absent short one": True,
        "more than an absent short one": False,
    }.items(),
)
def test_a_held_file_may_go_untold_only_where_another_surely_has_its_bytes__G5(
    name: str, covered: bool
) -> None:
    assert CASES[name][0].judge().covered is covered


def test_of_a_held_file_that_has_more_than_the_living_one_few_bytes_prove_nothing__G5() -> None:
    longer = Case(LIVING, SHORT + lines(5, 5), file=SHORT, read=SHORT).judge()
    assert (longer.verdict, longer.covered) == (CopyVerdict.HELD, False)


def test_a_continuation_of_an_ended_one_starts_where_that_ended__G5() -> None:
    assert Case(ENDED, MORE).judge().start == len(READ)
    changed = READ[:-300] + b"x" * 300 + lines(400, 5)
    assert Case(ENDED, changed).judge().start == 0


@pytest.mark.parametrize("at", [*(bound - 1 for bound in BOUNDARIES[:-1]), BOUNDARIES[-1] - 500])
def test_each_byte_of_the_first_64_kib_is_compared__G5(at: int) -> None:
    read = HEADER + lines(0, 8000)
    content = bytearray(read)
    content[at] ^= 1
    assert Case(AWAITED, read, read=read).judge().verdict is CopyVerdict.REST
    assert Case(AWAITED, bytes(content), read=read).judge().verdict is CopyVerdict.NEW


def test_of_several_generations_the_one_that_waits_gets_the_file__G5() -> None:
    case = Case(AWAITED, MORE)
    disk = MemoryDisk(["/logs", "/old"])
    disk.write(COPY, MORE)
    suspect = Suspect(COPY, PlainSample(disk.open(COPY), len(MORE)), rests=True)
    ended = replace(case.life(), state=ENDED)
    judged = judge(suspect, [(ended, None), (case.life(), None), (ended, None)])
    assert judged.verdict is CopyVerdict.REST


def test_a_compressed_copy_of_a_living_file_needs_no_further_look__G5() -> None:
    assert Case(LIVING, READ, file=MORE).judge(unpacked=True).verdict is CopyVerdict.COPY
    assert Case(LIVING, OTHER, file=MORE).judge(unpacked=True).verdict is CopyVerdict.NEW
    unrelated = Case(LIVING, READ, path="/logs/app2.log.gz", file=MORE)
    assert unrelated.judge(unpacked=True).verdict is CopyVerdict.NEW
    assert Case(LIVING, READ).judge(unpacked=True).verdict is CopyVerdict.HELD
    assert Case(AWAITED, MORE).judge(unpacked=True).verdict is CopyVerdict.REST
    assert Case(ENDED, READ).judge(unpacked=True).verdict is CopyVerdict.COPY
