"""Deliberate bugs in the sink onto Iggy, and in what the store's face promises it."""

from tests.simulation.bugs.mutant import Mutant

IGGY = (
    Mutant(
        "iggy.ids_not_compared",
        "batches of a lost session that are in the partition are not recognized",
        "logdrive.services.iggy.tail",
        (
            (
                "        if batch is not None and message.payload == batch.head:\n",
                "        if batch is not None and not message.headers:\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.no_look_after_a_loss",
        "after a lost session what was in flight is sent again, unseen",
        "logdrive.services.iggy.appender",
        (
            (
                "        if doubt and start < end:\n",
                "        if not doubt and start < end:\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.ghosts_not_awaited",
        "a new session looks while the server may still carry out what a lost one sent",
        "logdrive.services.iggy.appender",
        (
            (
                "        if self._ghosts or self._blind:\n",
                "        if self._blind:\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.looks_too_far_behind",
        "the search begins behind the end of what was acknowledged",
        "logdrive.services.iggy.appender",
        (
            (
                "                    return told.first_offset + sent.messages\n",
                "                    return told.first_offset + 2 * sent.messages\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.lost_is_stored",
        "what was in flight when a session ended counts as stored",
        "logdrive.services.iggy.batches",
        (
            (
                "            waiting.extendleft(reversed(send.batches))\n",
                "            waiting.extendleft(())\n            self._store(send.batches)\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.sent_again_out_of_order",
        "what is sent again goes behind what waits",
        "logdrive.services.iggy.batches",
        (
            (
                "            waiting.extendleft(reversed(send.batches))\n",
                "            waiting.extend(send.batches)\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.torn_is_stored",
        "a batch of which only the first message is there counts as stored",
        "logdrive.services.iggy.tail",
        (
            (
                "        if not self._missing and self._begun is not None:\n",
                "        if self._begun is not None:\n",
            ),
        ),
        over_iggy=True,
    ),
    Mutant(
        "iggy.listed_too_short",
        "a client whose connection ended is not listed, though the store still appends for it",
        "logdrive.services.iggy.server.connection",
        (
            (
                "            await asyncio.wait((settled, abandoned), "
                "return_when=asyncio.FIRST_COMPLETED)\n",
                "            await asyncio.sleep(0)\n",
            ),
        ),
        over_iggy=True,
    ),
)
