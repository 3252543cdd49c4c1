"""Deliberate bugs that show where others are silent, odd, or were set back."""

from tests.simulation.bugs.mutant import Mutant

PEERS = (
    Mutant(
        "agent.silence_not_noticed",
        "a connection on which nothing is heard any more is kept for ever",
        "agent.delivery.session",
        (
            (
                "            if now - self._heard > settings.timeout_seconds:\n",
                "            if False:\n",
            ),
            (
                "            if now - self._moved > settings.stall_seconds:\n",
                "            if False:\n",
            ),
        ),
    ),
    Mutant(
        "agent.plain_in_flight_forgotten",
        "in the plain dialect, what was in flight when a connection ended counts as sent",
        "agent.delivery.lumberjack",
        (("            source.on_disconnected()\n", "            pass\n"),),
    ),
    Mutant(
        "receiver.short_window_waited_for",
        "a plain window that is never filled is never acknowledged",
        "receiver.dialects.lumberjack",
        (
            (
                "        return _IDLE_SECONDS if self._link.acks.window_open else None\n",
                "        return None\n",
            ),
        ),
    ),
    Mutant(
        "receiver.broken_envelope_fails",
        "an envelope that does not inflate fails the receiver, not the connection",
        "logdrive.wire.lumberjack.envelope",
        (("    except INFLATE_ERROR as error:\n", "    except ZeroDivisionError as error:\n"),),
    ),
    Mutant(
        "receiver.old_writer_altered",
        "the values of events of version 1 become numbers where they look like some",
        "receiver.dialects.events",
        (
            (
                "    return orjson.dumps(record)\n",
                "    return orjson.dumps(\n        {key: int(value) if value.isdecimal() else value for key, value in record.items()}\n    )\n",
            ),
        ),
    ),
)
