"""Deliberate bugs in the sink onto a shared store."""

from tests.simulation.bugs.mutant import Mutant

SINK = (
    Mutant(
        "sink.done_when_sent",
        "an append over the network counts as durable once it is sent",
        "logdrive.services.pravega.client.writer",
        (
            (
                "        self._link.send(unit.message)\n        self._in_flight.append(unit)\n",
                "        self._link.send(unit.message)\n        self._in_flight.append(unit)\n        unit.stored.set_result(0)\n",
            ),
        ),
    ),
    Mutant(
        "sink.number_from_memory",
        "a source's number is what this receiver submitted, not what the service says",
        "logdrive.services.pravega.sink",
        (
            (
                "            client = await lane.up()\n            try:\n",
                "            client = await lane.up()\n            if (known := client.writers.of(place.name, writer)) is not None:\n                return known.submitted\n            try:\n",
            ),
        ),
    ),
    Mutant(
        "sink.failure_passed_over",
        "what was in flight when the connection ended counts as stored",
        "logdrive.services.pravega.client.writer",
        (
            (
                "            if not unit.stored.done():\n                unit.stored.set_exception(error)\n        self._in_flight",
                "            if not unit.stored.done():\n                unit.stored.set_result(0)\n        self._in_flight",
            ),
        ),
    ),
    Mutant(
        "sink.cancelling_fails",
        "a task that was given up while its connection broke ends with an error that nobody hears",
        "logdrive.services.pravega.client.channel",
        (
            (
                "        raise_if_cancelled()\n",
                '        if asyncio.current_task().cancelling():\n            raise ExceptionGroup("given up", [failure])\n',
            ),
        ),
    ),
)
