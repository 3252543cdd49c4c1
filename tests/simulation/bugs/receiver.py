"""Deliberate bugs in the receiver."""

from tests.simulation.bugs.mutant import Mutant

RECEIVER = (
    Mutant(
        "receiver.ack_before_durable",
        "a window is acknowledged as soon as it has ended",
        "receiver.acks",
        (("if window.holds or window.last is None:", "if window.last is None:"),),
    ),
    Mutant(
        "receiver.window_acked_after_failure",
        "a run that the sink failed is acknowledged with its window",
        "receiver.dialects.registration",
        (
            (
                "    OPENING ──number read: P──▶ LIVE ──a run does not follow, or fails──▶ ASKING\n                                  ▲                                         │\n                                  │                                  number read: P\n                                  │                                         ▼\n                                  └────────── a run that follows ──────  REFUSING\n",
                "    OPENING ──number read: P──▶ LIVE ──a run that does not follow, or fails──▶ ASKING ──number read: P──▶ REFUSING\n                                  ▲                                                                        │\n                                  └────────────────────── a run that follows ──────────────────────────────┘\n",
            ),
            (
                "        if self.state is RegistrationState.LIVE and era == self._era:\n            self._refuse(window)\n",
                "        if self.state is RegistrationState.LIVE and era == self._era:\n            self._link.acks.release_window(window)\n",
            ),
        ),
    ),
    Mutant(
        "receiver.takes_what_does_not_follow",
        "a run is appended although it does not begin at the stored number",
        "receiver.writers",
        (
            (
                "        return submitted is not None and previous == max(submitted, 0)\n",
                "        return submitted is not None\n",
            ),
        ),
    ),
    Mutant(
        "receiver.goes_on_after_failure",
        "after a failed run the next ones are appended",
        "receiver.dialects.registration",
        (
            (
                "    OPENING ──number read: P──▶ LIVE ──a run does not follow, or fails──▶ ASKING\n                                  ▲                                         │\n                                  │                                  number read: P\n                                  │                                         ▼\n                                  └────────── a run that follows ──────  REFUSING\n",
                "    OPENING ──number read: P──▶ LIVE ──a run that does not follow, or fails──▶ ASKING ──number read: P──▶ REFUSING\n                                  ▲                                                                        │\n                                  └────────────────────── a run that follows ──────────────────────────────┘\n",
            ),
            (
                "        if self._would_append(received):\n            self.state = RegistrationState.LIVE\n",
                "        if True:\n            self.state = RegistrationState.LIVE\n",
            ),
            (
                "        if self.state is RegistrationState.LIVE and era == self._era:\n            self._refuse(window)\n",
                "        if self.state is RegistrationState.LIVE and era == self._era:\n            self._link.acks.release_window(window)\n",
            ),
        ),
    ),
    Mutant(
        "receiver.refuses_in_silence",
        "after a failed run nobody is told from where to go on",
        "receiver.dialects.registration",
        (
            (
                "        self._link.services.counters.positions_corrected += 1\n        self._send_position(number)\n",
                "        self._link.services.counters.positions_corrected += 1\n",
            ),
        ),
    ),
    Mutant(
        "receiver.foreign_ack_before_durable",
        "plain Lumberjack windows are acknowledged before they are durable",
        "receiver.dialects.lumberjack",
        (
            (
                "        window = link.acks.hold_window()\n",
                "        window = link.acks.hold_window()\n        link.acks.release_window(window)\n",
            ),
            ("            self._link.acks.release_window(window)\n", "            pass\n"),
        ),
    ),
    Mutant(
        "receiver.header_of_the_wrong_place",
        "a header's previous position is one byte too high",
        "receiver.batch",
        (
            (
                "            previous=position_of(run.previous),\n",
                "            previous=position_of(run.previous) + (run.previous > 0),\n",
            ),
        ),
    ),
)
