"""Findings of `logdrive agent check` and `logdrive receiver check`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one look at what a start depends on.

    *name* is the configuration key or the thing looked at. *ok* is False if a start would fail
    there, or wait. *detail* says what there is, or what to do. *warn* marks what a start would get
    past, only to do what is probably not meant.
    """

    name: str
    ok: bool
    detail: str
    warn: bool = False

    def __str__(self) -> str:
        """Return the line that the command prints."""
        verdict = "NOT OK" if not self.ok else "WARN" if self.warn else "ok"
        return f"{verdict:6}  {self.name}: {self.detail}"
