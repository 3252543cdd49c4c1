"""Source: its runs in flight, what an answer gives up, and which count it takes (D3, D4, G3).

Without files and network.
"""

from uuid import UUID

from agent.sources.identity import Identity
from agent.sources.incarnation_search import Counting, StoredNumber
from agent.sources.incarnations import Incarnations
from agent.sources.registration import NextStep, SourceState
from agent.sources.source import Source
from agent.sources.stored_number_check import SeenBytes
from logdrive.model.numbers import ABSENT, CLOSED, number_of
from logdrive.model.records import DATA, END
from logdrive.records.runs import REMOVED, GapOrEndMark, Run

STORE = UUID(int=7)
IDENTITY = Identity("a", "h", "/", 1, 2, b"first")


def source(counting: Counting = Counting.KNOWN) -> Source:
    """Return a source whose bytes are gone, so that it needs no file."""
    family = Incarnations(IDENTITY.stem, IDENTITY)
    made = Source(None, family, b"{}", count=0, counting=counting)
    family.add(made)
    return made


def run(previous: int, position: int) -> Run:
    return Run(DATA, previous, number_of(position, b"x"), [b"{}"], 1, 10, 0)


def opened(*ends: int) -> Source:
    made = source()
    for end in ends:
        made.add_runs([run(made.cursor, end)])
    made.next_registrations()
    assert made.on_answer(StoredNumber(0, ABSENT, STORE), 0) is NextStep.GO_ON
    return made


def test_runs_are_sent_in_order_and_acknowledged_in_order__D3() -> None:
    made = opened(10, 20, 30)
    sent = [made.next_unsent_run() for _ in range(4)]
    assert [each.position for each in sent if each] == [10, 20, 30]
    assert sent[3] is None
    assert sent[0] is not None
    assert made.on_acknowledged(made.epoch, sent[0], 5)
    assert (
        made.position,
        made.acknowledged.bytes,
        made.acknowledged.events,
        made.acknowledged.at_ms,
    ) == (10, 10, 1, 5)
    assert len(made.unacknowledged) == made.unacknowledged.sent == 2


def test_a_later_position_gives_up_the_runs_in_flight__D3() -> None:
    made = opened(10, 20, 30)
    epoch, sent = made.epoch, [made.next_unsent_run() for _ in range(3)]
    assert made.on_position(number_of(10, b"x"), STORE, 0) is NextStep.GO_ON
    assert [made.on_acknowledged(epoch, each, 0) for each in sent if each] == [False] * 3
    assert made.position == 10
    again = made.next_unsent_run()
    assert again is sent[1]


def test_after_a_disconnect_everything_is_sent_again__D3() -> None:
    made = opened(10, 20)
    made.next_unsent_run()
    made.on_disconnected()
    assert made.state is SourceState.IDLE
    assert made.has_more
    made.next_registrations()
    assert made.on_answer(StoredNumber(0, number_of(10, b"x"), STORE), 0) is NextStep.GO_ON
    again = made.next_unsent_run()
    assert again is not None
    assert again.position == 20


def test_the_end_record_finishes_a_source__G3() -> None:
    made = opened(10)
    made.end_generation_at(GapOrEndMark(REMOVED), 0, 10, 0)
    runs = [made.next_unsent_run(), made.next_unsent_run()]
    assert runs[1] is not None
    assert runs[1].kind == END
    assert runs[1].number == runs[1].previous + CLOSED
    for each in runs:
        assert each is not None
        made.on_acknowledged(made.epoch, each, 0)
    assert made.state is SourceState.DONE
    assert not made.has_more


def test_bytes_seen_but_not_read_are_a_gap_before_the_end__P4() -> None:
    made = opened(10)
    made.end_generation_at(GapOrEndMark(REMOVED, exact=False), 0, 25, 0)
    assert [(each.kind, each.position) for each in made.unacknowledged.runs] == [
        (DATA, 10),
        (1, 25),
        (END, 25),
    ]
    assert b'"end_exact":false' in made.unacknowledged.runs[1].records[0]
    assert b'"end_exact":false' in made.unacknowledged.runs[2].records[0]


def test_bytes_before_the_start_stay_not_wanted_when_the_generation_ends__P2() -> None:
    made = source()
    made.end_generation_at(GapOrEndMark(REMOVED, exact=False), 40, 100, 0)
    assert [each.position for each in made.unacknowledged.runs] == [40, 100, 100]
    assert b"not_wanted" in made.unacknowledged.runs[0].records[0]
    assert b"removed" in made.unacknowledged.runs[1].records[0]


def test_a_refused_source_waits_and_asks_again__E() -> None:
    made = opened(10)
    made.on_refused("no", 60.0)
    assert made.state is SourceState.PAUSED
    made.registration.end_pause_if_due(59.0)
    assert made.state is SourceState.PAUSED
    made.on_disconnected()
    assert made.state is SourceState.PAUSED, "a pause outlives the connection"
    made.registration.end_pause_if_due(60.0)
    assert made.state.name == "IDLE"
    assert made.unacknowledged, "what can't be read again is kept"


def test_generations_after_one_whose_count_is_not_known_wait_for_it__G3() -> None:
    first = source(Counting.MANY)
    family = first.incarnations
    assert isinstance(family, Incarnations)
    second = Source(None, family, b"{}", count=family.next_count(), counting=Counting.NEXT)
    family.add(second)
    assert not second.may_register
    for count, _ in first.next_registrations():
        first.on_answer(
            StoredNumber(count, number_of(10, b"x") if count <= 4 else ABSENT, STORE), 0
        )
    assert first.count == 4
    assert second.may_register
    assert [count for count, _ in second.next_registrations()] == [5]
    assert second.origin == IDENTITY.origin_for(5)


def restored(family: Incarnations, counting: Counting, seen: int) -> Source:
    """Return a source of a checkpoint of which *seen* bytes were known, and are gone."""
    made = Source(None, family, b"{}", count=family.next_count(), counting=counting)
    made.gone = SeenBytes(seen, number_of(seen, b"x" * seen))
    family.add(made)
    return made


def answer(source: Source, stored: dict[int, int]) -> None:
    """Register *source*, and give it what a store has for the counts that it asks for."""
    for count, _ in source.next_registrations():
        source.on_answer(StoredNumber(count, stored.get(count, ABSENT), STORE), 0)


def test_generations_restored_before_they_had_a_count_are_asked_for_in_their_order__G3() -> None:
    family = Incarnations(IDENTITY.stem, IDENTITY)
    first = restored(family, Counting.MANY, 10)
    second = restored(family, Counting.AFTER, 20)
    third = restored(family, Counting.AFTER, 30)
    newer = Source(None, family, b"{}", count=family.next_count(), counting=Counting.NEXT)
    family.add(newer)

    # what was sent after the checkpoint was written; the end of the first tells nothing
    stored = {0: CLOSED + 10, 1: number_of(20, b"x" * 20), 2: number_of(30, b"x" * 30)}
    assert [each.may_register for each in (third, second, first)] == [False, False, True]
    answer(first, stored)
    assert first.count == 3
    assert [each.may_register for each in (third, second)] == [False, True]
    answer(second, stored)
    assert (second.count, second.position) == (1, 20)
    assert [each.may_register for each in (newer, third)] == [False, True]
    answer(third, stored)
    assert (third.count, third.position) == (2, 30)
    assert newer.may_register
    assert [count for count, _ in newer.next_registrations()] == [4]
