"""Deliberate bugs in what an agent does with events."""

from tests.simulation.bugs.mutant import Mutant

PROCESSORS = (
    Mutant(
        "processors.keeps_the_original",
        "the exact bytes of a redacted line are sent beside it",
        "agent.events.processors.redact",
        (
            (
                '        event.original, event.encoding = None, ""\n',
                '        event.encoding = ""\n',
            ),
            (
                "        if event.original is not None:\n"
                "            found.replace_text(event.original",
                "        if False and event.original is not None:\n"
                "            found.replace_text(event.original",
            ),
        ),
    ),
    Mutant(
        "processors.forgets_fields",
        "what was redacted in the message stays in the fields",
        "agent.events.processors.redact",
        (
            (
                "        event.message, event.fields = message, fields\n",
                "        event.message = message\n",
            ),
        ),
    ),
    Mutant(
        "processors.sees_no_escapes",
        "a secret that is written with escapes is not seen",
        "agent.events.processors.redact",
        (
            (
                "        if may_hide(text):\n            shown, before",
                "        if False and may_hide(text):\n            shown, before",
            ),
        ),
    ),
    Mutant(
        "processors.searches_over_lines",
        "of many texts that are searched at once, a match may begin in one and end in the next",
        "agent.patterns",
        (
            (
                "    options.never_nl = options.never_capture = True\n",
                "    options.never_capture = True\n",
            ),
        ),
    ),
    Mutant(
        "processors.cuts_a_line_late",
        "lines that are left after a dropped one have the bytes of others",
        "agent.events.filtered_lines",
        (
            (
                "        parts.append(text[ends[begin] : ends[end]])\n",
                "        parts.append(text[ends[at] : ends[at] + ends[end] - ends[begin]])\n",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "processors.forgets_the_last",
        "of several lines that are to be dropped the last is sent",
        "agent.events.filtered_lines",
        (
            (
                "            left = list(_between(left, len(lines)))\n",
                "            left = list(_between(left[:-1] or left, len(lines)))\n",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "processors.waits_no_time",
        "a rate that waits gives tokens to who asks",
        "agent.events.processors.rate_limit",
        (
            (
                "        self._bucket.take(len(events) if self._of_events else size)\n",
                "        self._bucket.take(0)\n",
            ),
        ),
    ),
)
