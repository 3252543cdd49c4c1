"""The file's bytes in a run as the agent keeps it, by rules R1, R2 and R8 alone."""

from logdrive.model.numbers import position_of
from logdrive.records.run_pack import RunPack
from logdrive.records.runs import Run
from tests.agent.inputs.files.rebuild import rebuilt
from tests.support.packs import unpacked


def bytes_of_run(run: Run) -> tuple[bytes, int]:
    """Return the bytes of *run*, JSON or a pack, and its number of events."""
    start = position_of(run.previous)
    if not isinstance(run.records, RunPack):
        return rebuilt(run.records, start)

    header = {
        "form": run.records.form.in_header,
        "previous": start,
        "position": run.position,
        "events": run.events,
        "skipped": 0,
    }
    held = unpacked(run.records.pack, header)
    return b"".join(data for _, data in held.pieces), held.events
