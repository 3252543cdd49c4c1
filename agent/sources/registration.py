"""State machine of a source's registration on the connection there is. Pure: no I/O, no clock.

Theory of operation
-------------------

A receiver appends runs only of a source that is registered: the agent sends an S frame with the
origin id, the receiver answers with a P frame, the position that the store has (rules D1, D3). A
connection starts with no source registered; a lost connection unregisters all of them.

IDLE sources wait in the send queue until they have something to send, or must register for another
reason. `ASK` registers one: the agent sends an S frame for each count that may be the source's
(`incarnation_search.py`, rule G3), and may `ASK` again for more counts while it is ASKING.

The answers decide. A position that fits is a `RESUME`: the source is OPEN and sends from there. A
position that contradicts the source's bytes is a `MISFIT`: the source takes the next count and is
IDLE again, to ask for that one (rule D4). A number that is closed means that the store has all of
the generation: `COMPLETE`. A receiver may send another P for an OPEN source at any time, when it
drops its runs (rule D3); the same three events follow.

An OPEN source becomes DONE when its end record is acknowledged, which is `COMPLETE`, too. The
registry then takes it out of the living sources; if a store turns out to have lost the end record,
the registry makes a new source of its checkpoint entry (rule G6). DONE is final.

An E frame for a source, or a file that can't be read when its P comes, is a `REFUSE`: the source is
PAUSED, across connections, until its pause is over. Where the receiver's own state was the reason,
as a full disk, that is so when it goes to another receiver; where its file was, once that is open.

A plain Lumberjack peer knows no registration: there, IDLE sources become OPEN by
`OPEN_UNREGISTERED`.

               ASK               RESUME              COMPLETE
        IDLE ────────▶ ASKING ────────────▶ OPEN ────────────▶ DONE
         ▲ ▲             │                   │
         │ └── MISFIT, ──┴───────────────────┤
         │     DISCONNECT                    │
         └──────── PAUSED ◀──── REFUSE ──────┘
        PAUSE_OVER
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

import msgspec

from agent.sources.incarnation_search import IncarnationSearch, StoredNumber


class SourceState(Enum):
    """What a source may do on the connection there is."""

    IDLE = auto()
    """Not registered."""
    ASKING = auto()
    """S frames were sent, and answers are missing or were not enough to decide."""
    OPEN = auto()
    """Registered: runs may be sent."""
    PAUSED = auto()
    """Refused: it does not register again before its pause is over."""
    DONE = auto()
    """The store has all of it, its end record included."""


class RegistrationEvent(Enum):
    """What moves a source from one state to another."""

    ASK = auto()
    """The agent sends S frames for it."""
    RESUME = auto()
    """A P frame says where to go on."""
    MISFIT = auto()
    """A P frame contradicts its bytes."""
    COMPLETE = auto()
    """The store has its end record, by a P frame or by an acknowledgement."""
    OPEN_UNREGISTERED = auto()
    """The peer speaks plain Lumberjack."""
    REFUSE = auto()
    """An E frame came, or the file can't be read."""
    PAUSE_OVER = auto()
    """The time until which it was refused has come, or it need not wait for that."""
    DISCONNECT = auto()
    """The connection is lost, or the agent gives back the source's index."""


class NextStep(Enum):
    """What the connection does with a source after an answer."""

    WAIT = auto()
    """Wait: answers for other counts are still to come."""
    ASK_MORE = auto()
    """Register more counts: the store has seen all those asked for (rule G3)."""
    ASK_NEXT = auto()
    """Register the next count: what the store has is not this generation's (rule D4)."""
    ASK_OTHER = auto()
    """Register under other ids, as it may be a copy, or is none, or once a copy shows which count
    it has (rule G5).
    """
    GO_ON = auto()
    """Send from the position that the store has."""
    DONE = auto()
    """Forget the source: the store has all of it."""


class IllegalTransitionError(RuntimeError):
    """A programming error: the event can't happen in that state. Never caused by a peer."""


_IDLE, _ASKING, _OPEN, _PAUSED, _DONE = SourceState
_Event = RegistrationEvent

TRANSITIONS: Final = MappingProxyType(
    {
        (_IDLE, _Event.ASK): _ASKING,
        (_IDLE, _Event.OPEN_UNREGISTERED): _OPEN,
        (_IDLE, _Event.DISCONNECT): _IDLE,
        (_ASKING, _Event.ASK): _ASKING,
        (_ASKING, _Event.RESUME): _OPEN,
        (_ASKING, _Event.MISFIT): _IDLE,
        (_ASKING, _Event.COMPLETE): _DONE,
        (_ASKING, _Event.REFUSE): _PAUSED,
        (_ASKING, _Event.DISCONNECT): _IDLE,
        # a P that came unasked can open a source that waits in the queue to ask for more counts
        (_OPEN, _Event.ASK): _ASKING,
        (_OPEN, _Event.RESUME): _OPEN,
        (_OPEN, _Event.MISFIT): _IDLE,
        (_OPEN, _Event.COMPLETE): _DONE,
        (_OPEN, _Event.REFUSE): _PAUSED,
        (_OPEN, _Event.DISCONNECT): _IDLE,
        (_PAUSED, _Event.PAUSE_OVER): _IDLE,
        (_PAUSED, _Event.DISCONNECT): _PAUSED,  # a pause outlives the connection
        (_DONE, _Event.DISCONNECT): _DONE,
    }
)
"""All legal transitions. A pair that is not here is a programming error."""


def next_state(state: SourceState, event: RegistrationEvent) -> SourceState:
    """Return the state that *event* leads to from *state*.

    Raises `IllegalTransitionError` for a pair that is not in `TRANSITIONS`.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransitionError(f"{event.name} while {state.name}") from None


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What goes wrong with a source. Most have none, and share one object."""

    problem: str = ""
    """What went wrong last, for people."""
    refusals: int = 0
    """Refusals in a row."""
    retry_at: float = 0.0
    """When it may register again (monotonic seconds)."""
    of_receiver: bool = False
    """Whether the last refusal was for the receiver's own state."""
    of_file: bool = False
    """Whether it was because the file could not be read."""


_NO_TROUBLE: Final = _Trouble()


class SourceRegistration(msgspec.Struct, gc=False):  # in no cycle
    """The registration of one source. Its `Source` reports P and E frames and disconnections."""

    state: SourceState = SourceState.IDLE
    # The counts asked for and the answers, while ASKING.
    _search: IncarnationSearch | None = None
    # Whether it is due even without anything to send: the store may have lost data, or a position
    # must be known.
    required: bool = False
    _trouble: _Trouble = _NO_TROUBLE

    @property
    def problem(self) -> str:
        """What went wrong last, for people; "" for nothing."""
        return self._trouble.problem

    @property
    def refusals(self) -> int:
        """Refusals in a row."""
        return self._trouble.refusals

    @property
    def retry_at(self) -> float:
        """When a PAUSED source may register again: seconds, by the monotonic clock."""
        return self._trouble.retry_at

    def require(self) -> None:
        """Let the source register on this connection or the next, with or without data to send."""
        self.required = True

    def ask(self, first: int, *, many: bool, taken: Collection[int] = ()) -> list[int]:
        """Return the counts to send S frames for.

        *first* is the source's count, or, with *many*, the lowest one that may be its own; those
        *taken* are other sources'.
        """
        self._change(RegistrationEvent.ASK)
        if self._search is None:
            self._search = IncarnationSearch(first, many=many)
        return self._search.next_counts(taken)

    @property
    def awaits_more_answers(self) -> bool:
        """Whether the next answer decides nothing, so that the file need not be verified first."""
        return self._search is not None and self._search.unanswered > 1

    def add_answer(
        self, answer: StoredNumber, fits: Callable[[int], bool]
    ) -> StoredNumber | NextStep:
        """Return the count to take with its number, or WAIT, or ASK_MORE for further counts.

        *fits* judges a stored number by the source's bytes; what it raises passes through.
        """
        assert self._search is not None
        self._search.add_answer(answer)
        if self._search.unanswered:
            return NextStep.WAIT
        decided = self._search.decide_count(fits)
        if decided is None:
            return NextStep.ASK_MORE
        self._search = None
        return decided

    def on_position(self) -> None:
        """Note that a P frame came for the count decided on: nothing needs to be asked for now."""
        self.required = False

    def resume(self) -> None:
        """Open the source: it may send."""
        self._change(RegistrationEvent.RESUME)

    def misfit(self, problem: str) -> None:
        """Let the source, now under its next count, register again."""
        self._search = None
        self.report(problem)
        self._change(RegistrationEvent.MISFIT)

    def complete(self) -> None:
        """End: the store has all of the source."""
        self._change(RegistrationEvent.COMPLETE)

    def open_unregistered(self) -> None:
        """Open the source to a peer that knows no registration."""
        self._change(RegistrationEvent.OPEN_UNREGISTERED)

    def refuse(
        self, problem: str, retry_at: float, *, of_receiver: bool = False, of_file: bool = False
    ) -> None:
        """Pause the source until *retry_at*; or until it goes to another receiver, with
        *of_receiver*, or until its file is open, with *of_file*.
        """
        self._search = None
        self._change(RegistrationEvent.REFUSE)
        self._trouble = _Trouble(problem, self.refusals + 1, retry_at, of_receiver, of_file)

    def end_pause_if_due(self, now: float) -> None:
        """Let a paused source register again once its time has come."""
        if self.state is SourceState.PAUSED and now >= self.retry_at:
            self._change(RegistrationEvent.PAUSE_OVER)

    @property
    def waits_for_receiver(self) -> bool:
        """Whether it is PAUSED for its receiver's own state."""
        return self.state is SourceState.PAUSED and self._trouble.of_receiver

    def on_other_receiver(self) -> None:
        """Let the source register at another receiver than the last, unless it was to blame."""
        if self.waits_for_receiver:
            self._trouble = replace(self._trouble, refusals=0)
            self._change(RegistrationEvent.PAUSE_OVER)

    def on_file_open(self) -> None:
        """Let the source register if it is PAUSED because its file could not be read."""
        if self.state is SourceState.PAUSED and self._trouble.of_file:
            self._change(RegistrationEvent.PAUSE_OVER)

    def on_progress(self) -> None:
        """Forget refusals: a run was acknowledged, so the next pause is short again."""
        if self._trouble.refusals:
            self._trouble = replace(self._trouble, refusals=0)

    def report(self, problem: str) -> None:
        """Keep *problem* for people."""
        self._trouble = replace(self._trouble, problem=problem)

    def disconnect(self) -> None:
        """Unregister the source."""
        self._search = None
        self._change(RegistrationEvent.DISCONNECT)

    def _change(self, event: RegistrationEvent) -> None:
        self.state = next_state(self.state, event)
