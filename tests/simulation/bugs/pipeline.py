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
        "logdrive.pipeline.audit.judge_sources",
        (
            (
                "    source.lost_bytes = total_size(lost)\n",
                "    source.lost_bytes, source.lost_at_least = 0, False\n",
            ),
        ),
    ),
)
