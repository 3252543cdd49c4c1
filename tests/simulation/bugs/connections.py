"""Deliberate bugs in connections, and in sinks whose connection or store fails."""

from tests.simulation.bugs.mutant import Mutant

CONNECTIONS = (
    Mutant(
        "sink.in_flight_for_ever",
        "what was in flight to a service when the connection ended is neither stored nor failed",
        "logdrive.services.pravega.client.client",
        (("            self.writers.fail_all(failure)\n", "            pass\n"),),
    ),
    Mutant(
        "sink.own_failure_passed_over",
        "what the receiver's own store could not store counts as stored",
        "logdrive.services.embedded.sink",
        (
            (
                "            done.set_exception(error)\n        else:\n",
                "            done.set_result(None)\n        else:\n",
            ),
        ),
    ),
    Mutant(
        "sink.silent_service_kept",
        "a connection to a service on which nothing is heard any more is kept for ever",
        "logdrive.services.pravega.client.pooled_connection",
        (("            if silence >= _SILENCE_SECONDS:\n", "            if False:\n"),),
    ),
    Mutant(
        "sink.greeting_waited_for",
        "a service that takes the connection and says nothing is waited for without an end",
        "logdrive.services.pravega.client.pooled_connection",
        (("asyncio.timeout(_GREETING_SECONDS)", "asyncio.timeout(None)"),),
    ),
    Mutant(
        "sink.written_is_heard",
        "what a dead connection takes counts as a sign of life",
        "logdrive.services.pravega.client.channel",
        (
            (
                "        await self._stream.write(last)",
                "        self.progress += 1\n        await self._stream.write(last)",
            ),
        ),
    ),
    Mutant(
        "net.silent_client_kept",
        "a client that connects and says nothing is waited for without an end",
        "logdrive.net.handshake",
        (
            (
                "    try:\n        async with asyncio.timeout(seconds):\n            await wait_ready(sock, Want.READ)\n",
                "    try:\n        async with asyncio.timeout(None):\n            await wait_ready(sock, Want.READ)\n",
            ),
        ),
    ),
    Mutant(
        "net.waits_do_not_grow",
        "whoever fails again and again comes back as soon as the first time",
        "logdrive.net.retry",
        (("        self.failures += 1\n", "        self.failures = 1\n"),),
    ),
    Mutant(
        "net.ended_connections_count",
        "connections that have ended count towards how many there may be",
        "logdrive.net.listener",
        (("        self._admission.count -= 1\n", "        pass\n"),),
    ),
)
