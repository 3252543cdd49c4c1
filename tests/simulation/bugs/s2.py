"""Deliberate bugs in the sink onto S2, and in what the receiver does where no numbers are kept."""

from tests.simulation.bugs.mutant import Mutant

S2 = (
    Mutant(
        "s2.appends_anywhere",
        "an append is done wherever the stream ends by then",
        "logdrive.services.s2.batches",
        (
            (
                "AppendInput(records, match_seq_num=self.start, fencing_token=NO_TOKEN)",
                "AppendInput(records, fencing_token=NO_TOKEN)",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.ids_not_compared",
        "batches of a lost session that are in the stream are not recognized",
        "logdrive.services.s2.batches",
        (
            (
                "value for record in records for name, value in record.headers if name == BATCH_HEADER",
                'value for record in records for name, value in record.headers if name == b"another"',
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.no_look_after_a_loss",
        "after a lost session what was in flight is sent again at the tail, unseen",
        "logdrive.services.s2.appender",
        (
            (
                "                self._doubt = max(self._doubt or 0, self.queue.last_in_flight.start)\n",
                "                self._doubt = None\n",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.one_look_is_enough",
        "after one look an append of a lost session counts as gone, though it may still arrive",
        "logdrive.services.s2.appender",
        (
            (
                "        if self._doubt is not None and tail > self._doubt:\n            self._doubt = None\n",
                "        self._doubt = None\n",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.doubt_ends_at_the_first",
        "once the first append of a lost session is found or overtaken, those behind it count as gone",
        "logdrive.services.s2.appender",
        (
            (
                "max(self._doubt or 0, self.queue.last_in_flight.start)",
                "max(self._doubt or 0, self.queue.first_in_flight.start)",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.lost_is_stored",
        "what was in flight when a session ended counts as stored",
        "logdrive.services.s2.batches",
        (
            (
                "            self._waiting.extendleft(reversed(sent.batches))\n",
                "            for batch in sent.batches:\n                self._resolve(batch)\n",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.sent_again_out_of_order",
        "what is sent again goes behind what waits",
        "logdrive.services.s2.batches",
        (
            (
                "            self._waiting.extendleft(reversed(sent.batches))\n",
                "            self._waiting.extend(sent.batches)\n",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.any_run_after_a_failure",
        "where no numbers are kept, any run is taken after one that failed",
        "receiver.writers",
        (
            (
                "            self.submitted = self.reached = previous or ABSENT\n",
                "            self.reached = None\n",
            ),
        ),
        over_s2=True,
    ),
    Mutant(
        "s2.first_run_must_begin_at_0",
        "where no numbers are kept, a connection's first run must begin at 0",
        "receiver.writers",
        (
            (
                "        if submitted == NOT_KEPT:\n            return True\n",
                "",
            ),
        ),
        over_s2=True,
    ),
)
