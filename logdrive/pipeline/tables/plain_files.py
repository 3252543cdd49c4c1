"""Shows a Delta table as a directory of plain Parquet files: hard links to those of one version.

`PLACE/events` is a link to a directory that holds just the files of one version, a directory a day.
The next version gets a directory of its own, and then the link is replaced: so a reader that goes
by the names in it finds one version, whole. A reader that has listed names of the version before
may miss a file that was joined since; it never sees a row twice.
"""

import os
import shutil

from logdrive.pipeline.tables.delta import AppendTable


def publish_files(place: str, name: str, table: AppendTable) -> bool:
    """Let the directory *name* in *place* have the files of the present version of *table*.

    Returns False if it had already. Raises OSError.
    """
    os.makedirs(place, exist_ok=True)
    link = os.path.join(place, name)
    shown = os.readlink(link) if os.path.islink(link) else None
    version = f".{name}.{table.table_id}.{table.version}"
    if version == shown:
        return False

    made = os.path.join(place, version)
    shutil.rmtree(made, ignore_errors=True)  # of a process that was killed
    os.mkdir(made)
    for file in table.live_files():
        target = os.path.join(made, file.name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(os.path.join(table.path, file.name), target)

    draft = os.path.join(place, f".{name}.link")
    if os.path.lexists(draft):
        os.unlink(draft)
    os.symlink(version, draft)
    os.replace(draft, link)
    _remove_versions(place, name, {version, shown})
    return True


def _remove_versions(place: str, name: str, kept: set[str | None]) -> None:
    """Remove the directories of all versions but those *kept*: this one, and the one before it."""
    for other in os.listdir(place):
        if other.startswith(f".{name}.") and other not in kept:
            shutil.rmtree(os.path.join(place, other), ignore_errors=True)
