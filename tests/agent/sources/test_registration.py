"""The registration of a source: the table of its state machine, and what goes with each state (D1,
D3).
"""

from itertools import product

import pytest

from agent.sources.registration import (
    TRANSITIONS,
    IllegalTransitionError,
    RegistrationEvent,
    SourceRegistration,
    SourceState,
    next_state,
)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        pytest.param(state, event, id=f"{state.name}-{event.name}")
        for state, event in product(SourceState, RegistrationEvent)
    ],
)
def test_a_transition_that_is_not_in_the_table_is_a_programming_error(
    state: SourceState, event: RegistrationEvent
) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=f"{event.name} while {state.name}"):
            next_state(state, event)


def test_every_state_is_reached_from_idle_and_only_done_is_final() -> None:
    reached, leaves = {SourceState.IDLE}, {SourceState.IDLE}
    while leaves:
        leaves = {to for (state, _), to in TRANSITIONS.items() if state in leaves} - reached
        reached |= leaves
    assert reached == set(SourceState)
    final = {
        state
        for state in SourceState
        if all(to is state for (of, _), to in TRANSITIONS.items() if of is state)
    }
    assert final == {SourceState.DONE}


@pytest.mark.parametrize("state", SourceState)
def test_a_lost_connection_leaves_no_source_registered(state: SourceState) -> None:
    after = next_state(state, RegistrationEvent.DISCONNECT)
    assert after not in (SourceState.ASKING, SourceState.OPEN)
    assert next_state(after, RegistrationEvent.DISCONNECT) is after


@pytest.mark.parametrize("state", [SourceState.ASKING, SourceState.OPEN])
def test_every_answer_of_a_peer_is_legal_in_each_state_in_which_it_may_answer(
    state: SourceState,
) -> None:
    answers = (
        RegistrationEvent.RESUME,
        RegistrationEvent.MISFIT,
        RegistrationEvent.COMPLETE,
        RegistrationEvent.REFUSE,
    )
    assert all((state, event) in TRANSITIONS for event in answers)


def test_refusals_are_counted_until_a_run_is_acknowledged__E() -> None:
    registration = SourceRegistration()
    for refusals in (1, 2):
        registration.ask(0, many=False)
        registration.refuse("no", 60.0)
        assert (registration.refusals, registration.problem) == (refusals, "no")
        registration.end_pause_if_due(59.0)
        assert registration.state is SourceState.PAUSED
        registration.end_pause_if_due(60.0)
    registration.on_progress()
    assert registration.refusals == 0


@pytest.mark.parametrize("of_receiver", [True, False])
def test_a_pause_for_the_state_of_a_receiver_is_over_at_another_one__E3(of_receiver: bool) -> None:
    registration = SourceRegistration()
    registration.ask(0, many=False)
    registration.refuse("full", 60.0, of_receiver=of_receiver)
    registration.disconnect()
    assert registration.waits_for_receiver is of_receiver
    registration.on_other_receiver()
    assert (registration.state is SourceState.IDLE) is of_receiver
    assert registration.refusals == (0 if of_receiver else 1)
    assert not registration.waits_for_receiver


@pytest.mark.parametrize("of_file", [True, False])
def test_a_pause_for_an_unreadable_file_is_over_once_that_is_open__E(of_file: bool) -> None:
    registration = SourceRegistration()
    registration.ask(0, many=False)
    registration.refuse("can't be read", 60.0, of_file=of_file)
    registration.on_file_open()
    assert (registration.state is SourceState.IDLE) is of_file
    assert registration.refusals == 1


def test_a_disconnection_forgets_the_counts_that_were_asked_for__G3() -> None:
    registration = SourceRegistration()
    first = registration.ask(0, many=True)
    assert registration.awaits_more_answers
    registration.disconnect()
    assert not registration.awaits_more_answers
    assert registration.ask(0, many=True) == first
