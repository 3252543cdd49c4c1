"""Which layout of messages a revision has, and what its faults are called."""

from typing import Final

from logdrive.kernel import iggy_forms as forms
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.revision import Revision

_LAYOUTS: Final = {
    Revision.R0: forms.CLASSIC,
    Revision.R0B: forms.CLASSIC,
    Revision.R1: forms.CLASSIC,
    Revision.R2A: forms.HEAD_56,
    Revision.R2B: forms.HEAD_56,
    Revision.R2C: forms.HEAD_64,
    Revision.R3: forms.RECORDS,
}
_FAULTS: Final = {
    forms.COUNT: (Reason.INVALID_MESSAGES_COUNT, "no messages, or not as many as announced"),
    forms.CUT: (Reason.INVALID_MESSAGES_SIZE, "a message is cut off"),
    forms.INDEX: (Reason.MISSING_INDEX, "a message does not end where the index says"),
    forms.LEFT: (Reason.INVALID_MESSAGES_SIZE, "bytes are left behind the last message"),
    forms.OFFSET: (Reason.NON_ZERO_OFFSET, ""),
    forms.TIMESTAMP: (Reason.NON_ZERO_TIMESTAMP, ""),
    forms.RESERVED: (Reason.INVALID_RESERVED_FIELD, ""),
    forms.DELTA: (Reason.INVALID_OFFSET, "offsets in a batch do not rise by one"),
    forms.LENGTH: (Reason.INVALID_MESSAGES_SIZE, "the batch's length is not that of its bytes"),
    forms.MESSAGE_SUM: (Reason.CHECKSUM_MISMATCH, ""),
    forms.BATCH_SUM: (Reason.BATCH_CHECKSUM_MISMATCH, ""),
    forms.HEADERS_LONG: (Reason.USER_HEADERS_TOO_BIG, ""),
    forms.HEADER_KEY: (Reason.INVALID_HEADER_KEY, ""),
    forms.HEADER_VALUE: (Reason.INVALID_HEADER_VALUE, ""),
    forms.HEADER_KIND: (Reason.INVALID_HEADER_KIND, ""),
    forms.PAYLOAD_LONG: (Reason.PAYLOAD_TOO_BIG, ""),
    forms.PAYLOAD_EMPTY: (Reason.EMPTY_PAYLOAD, ""),
}


def layout_of(revision: Revision) -> int:
    """Return the layout of the revision's messages, one of `logdrive.kernel.iggy_forms`."""
    return _LAYOUTS[revision]


def fault_error(revision: Revision, fault: int) -> IggyError:
    """Return the error that a loop's *fault* is in *revision*."""
    reason, message = _FAULTS[fault]
    classic = _LAYOUTS[revision] == forms.CLASSIC
    # R1 says of both that it can't read the command; R0 says nothing and closes
    if classic and (
        fault == forms.CUT or (fault == forms.PAYLOAD_EMPTY and revision > Revision.R0)
    ):
        reason = Reason.INVALID_COMMAND
    return IggyError(reason, message)
