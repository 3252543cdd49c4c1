"""Deliberate bugs in connections, and in sinks whose connection or store fails."""

from tests.simulation.bugs.mutant import Mutant

CONNECTIONS = (
    Mutant(
        "agent.source_moves_in_flight",
        "a source moves to another connection with windows of it in flight",
        "agent.sources.connection_queue",
        (
            (
                "            if not source.unacknowledged.sent and source.state is not SourceState.ASKING\n",
                "            if source.state is not SourceState.ASKING\n",
            ),
        ),
    ),
    Mutant(
        "agent.sources_stay_with_the_lost",
        "the sources of a receiver that is gone wait for it, although others are there",
        "agent.delivery.spread",
        (
            (
                "        self._first_run_due.pop(queue.number, None)\n        self.deal_out()\n",
                "        self._first_run_due.pop(queue.number, None)\n",
            ),
        ),
    ),
    Mutant(
        "agent.trial_of_all_sources",
        "a receiver that failed gets its share as soon as it is reached, stored or not",
        "agent.delivery.spread",
        (
            (
                "        source = self._most_active() if failed_before and others_up else None\n",
                "        source = None\n",
            ),
        ),
    ),
    Mutant(
        "agent.moved_not_recast",
        "runs of a source that moves keep the form of the connection that they were made for",
        "agent.delivery.connection_encoders",
        (
            (
                "        if source.unacknowledged and (former is None or not encoders.carries(former.form)):\n",
                "        if source.unacknowledged and former is None:\n",
            ),
        ),
    ),
    Mutant(
        "agent.old_connection_dropped",
        "a connection of its greatest age is closed with windows in flight",
        "agent.delivery.session",
        (
            (
                "        if self._retires and self.is_settled:\n",
                "        if self._retires:\n",
            ),
        ),
    ),
    Mutant(
        "agent.let_go_forgotten",
        "the position of a file that no input names any more is forgotten",
        "agent.sources.registry",
        (
            (
                "        self.incarnations_of(entry.stem).remove(source)\n        self.add_absent(entry)\n",
                "        self.incarnations_of(entry.stem).remove(source)\n",
            ),
        ),
    ),
    Mutant(
        "agent.half_renewed_taken",
        "connections are made anew for a certificate whose key is not there yet",
        "agent.delivery.certificate_watch",
        (("        if not problem:\n", "        if True:\n"),),
    ),
    Mutant(
        "net.first_address_takes_all_time",
        "an address that does not answer leaves no time for the others of its name",
        "logdrive.net.tcp",
        (("left / (len(addresses) - number)", "left"),),
    ),
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
