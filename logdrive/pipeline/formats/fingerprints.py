"""Stack traces by what they have in common: a hash that is the same whenever the same happened.

The hash is of the classes of exceptions and of the frames, of Java, Python, Go, Ruby or .NET,
without messages, numbers and addresses. It is the same in every run and on every machine.
"""

from functools import reduce
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.arrays import Booleans, Integers, to_booleans, to_integers

_EXCEPTION = (
    r"^\s*((?:Caused by: |Suppressed: |Unhandled exception\. | ?---> )?"
    r'(?:Exception in thread "[^"]*" )?'
    r"[A-Za-z_](?:[\w$]*[.:]{1,2})*\w*(?:Exception|Error|Throwable|Failure|Interrupt|Exit|Warning))"
    r"(?::.*|\s*)$"
)
"""The class of an exception, in Java, Python and .NET; its group leaves the message out."""
_PANIC = r"^(?:panic|fatal error): .*$"  # Go's
_FRAME = (
    r"^\s+at \S.*$"  # Java, .NET, JavaScript
    r'|^\s+File "'  # Python
    r"|^\s*from \S+:\d+|^\S+:\d+:in [`']"  # Ruby
    r"|^\t\S+\.(?:go|s):\d+|^(?:created by )?[\w./-]+\.[\w.()*\[\]]+\(.*\)(?: in goroutine \d+)?$"
    r"|^created by \S+"
)
_TRACEBACK = r"^Traceback \(most recent call last\):$"  # Python's
_GOROUTINE = r"^goroutine \d+ .*:$"
_OTHER = (
    r"^\s*$|^\s+\S|^During handling of the above exception"
    r"|^The above exception was the direct cause|^\[signal |^exit status \d+$"
    r"|^--- End of |^Caused by: |^Suppressed: "
)
_BEGINNINGS = (_TRACEBACK, _EXCEPTION, _PANIC, _GOROUTINE)
_VARYING = r"0x[0-9A-Fa-f]+|[0-9]+|~?\[[^\]]*\.jar[^\]]*\]"
_DIGEST_BYTES = 8


def trace_like(texts: pa.StringArray) -> Booleans:
    """Return which of *texts* look like a continuation."""
    found = [_matches(texts, one) for one in (_OTHER, *_BEGINNINGS, _FRAME)]
    return to_booleans(reduce(pc.or_, found))


def begins_trace(texts: pa.StringArray, after: Booleans) -> Booleans:
    """Return which of *texts* are the first line of a stack trace.

    Those *after* another line of a trace are part of it, but for Python's first line.
    """
    begins = to_booleans(reduce(pc.or_, [_matches(texts, one) for one in _BEGINNINGS]))
    return begins & (~after | to_booleans(_matches(texts, _TRACEBACK)))


def fingerprint_groups(texts: pa.StringArray, groups: Integers) -> tuple[Integers, pa.StringArray]:
    """Return the fingerprint of each group of *texts*, lines of stack traces, that has one.

    *groups* says which group each text is of; it never falls. Returns groups and fingerprints.
    """
    exceptions = _matches(texts, _EXCEPTION)
    telling = to_booleans(
        reduce(pc.or_, [exceptions, _matches(texts, _FRAME), _matches(texts, _PANIC)])
    )
    groups, texts = groups[telling], texts.filter(pa.array(telling))
    texts = pc.replace_substring_regex(texts, _EXCEPTION, r"\1")
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, _VARYING, ""))
    ends = np.flatnonzero(np.diff(groups, append=-1))
    return groups[ends], pa.array(_hash_groups(texts, ends), pa.string())


def fingerprint_texts(texts: pa.StringArray) -> pa.StringArray:
    """Return the fingerprints of *texts* that are whole stack traces; null where there is none."""
    lines = pc.split_pattern(texts, "\n")
    rows = to_integers(pc.list_parent_indices(lines))
    named, prints = fingerprint_groups(pc.list_flatten(lines), rows)
    place = np.full(len(texts), -1)
    place[named] = np.arange(len(named))
    return prints.take(pa.array(place, mask=place < 0))


def _matches(texts: pa.StringArray, pattern: str) -> pa.BooleanArray:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def _hash_groups(texts: pa.StringArray, ends: Integers) -> list[str]:
    """Return a hash of each run of *texts*; the last of a run is at its place of *ends*."""
    lines, first, hashes = texts.to_pylist(), 0, []
    for end in ends.tolist():
        whole = "\n".join(lines[first : end + 1]).encode()
        hashes.append(blake2b(whole, digest_size=_DIGEST_BYTES).hexdigest())
        first = end + 1
    return hashes
