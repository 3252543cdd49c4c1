"""Deliberate bugs in what the pipeline says."""

from tests.simulation.bugs.mutant import Mutant

PIPELINE = (
    Mutant(
        "pipeline.cover_forgotten",
        "what is there already is kept again",
        "logdrive.pipeline.decode.coverage",
        (
            (
                "        return subtract([(start, end)], touched)\n",
                "        return [(start, end)]\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.gaps_not_counted",
        "the audit overlooks gaps",
        "logdrive.pipeline.audit.audit",
        (
            (
                "    source.lost_bytes = sum(gap.lost_bytes for gap in source.gaps)\n",
                "    source.lost_bytes, source.lost_at_least = 0, False\n",
            ),
        ),
    ),
)
