"""`logdrive.wire.iggy.errors`: reasons, and the status of each in every revision."""

import pytest

from logdrive.wire.iggy.errors import (
    IggyError,
    Reason,
    error_of,
    group_not_found,
    partition_not_found,
    stream_not_found,
    topic_not_found,
)
from logdrive.wire.iggy.revision import Revision

R0, R1, R2C, R3 = Revision.R0, Revision.R1, Revision.R2C, Revision.R3


@pytest.mark.parametrize("revision", list(Revision))
@pytest.mark.parametrize("reason", list(Reason))
def test_a_reasons_status_means_that_reason_again_or_one_of_the_same_status(
    revision: Revision, reason: Reason
) -> None:
    code = IggyError(reason).code(revision)
    assert code > 0
    assert error_of(revision, code).code(revision) == code


@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (stream_not_found(7), (1009, 1009, 1009, 1009)),
        (stream_not_found("x"), (1010, 1010, 1009, 1009)),
        (topic_not_found(7), (2010, 2010, 2010, 2010)),
        (topic_not_found("x"), (2011, 2011, 2010, 2010)),
        (group_not_found(7), (5000, 5000, 5000, 5000)),
        (group_not_found("x"), (5000, 5003, 5000, 5000)),
        (partition_not_found(7), (3007, 3007, 3007, 3007)),
        (IggyError(Reason.GROUP_ID_EXISTS), (5001, 5001, 5001, 5001)),
        (IggyError(Reason.GROUP_NAME_EXISTS), (5001, 5004, 5004, 5004)),
        (IggyError(Reason.GROUP_MEMBER_NOT_FOUND), (5002, 5006, 5006, 5006)),
        (IggyError(Reason.STREAM_NAME_EXISTS), (1012, 1012, 1012, 1012)),
        (IggyError(Reason.TOPIC_NAME_EXISTS), (2013, 2013, 2013, 2013)),
        (IggyError(Reason.INVALID_OFFSET), (4100, 4100, 4100, 4100)),
        (IggyError(Reason.UNAUTHENTICATED), (40, 40, 40, 40)),
        (IggyError(Reason.INVALID_CREDENTIALS), (42, 42, 42, 42)),
    ],
)
def test_a_reason_has_the_status_of_its_revision(
    error: IggyError, codes: tuple[int, int, int, int]
) -> None:
    assert tuple(error.code(revision) for revision in (R0, R1, R2C, R3)) == codes


def test_what_a_send_of_r3_misses_has_one_status() -> None:
    for error in (stream_not_found("x"), topic_not_found(7), partition_not_found(77)):
        assert error.code(R3, sending=True) == 20
        assert error.code(R2C, sending=True) == error.code(R2C)
    assert IggyError(Reason.PAYLOAD_TOO_BIG).code(R3, sending=True) == 4022


@pytest.mark.parametrize(
    ("revision", "code", "reason"),
    [
        (R0, 5002, Reason.GROUP_MEMBER_NOT_FOUND),
        (R0, 4101, Reason.CANNOT_READ_OFFSETS),
        (R1, 5002, Reason.INVALID_GROUP_ID),
        (R3, 4101, Reason.INVALID_RESERVED_FIELD),
        (R2C, 1009, Reason.STREAM_NOT_FOUND),
        (R2C, 5000, Reason.GROUP_NOT_FOUND),
        (R2C, 1012, Reason.STREAM_NAME_EXISTS),
        (R2C, 4_000_000, Reason.ERROR),
    ],
)
def test_a_status_is_read_as_its_revision_means_it(
    revision: Revision, code: int, reason: Reason
) -> None:
    error = error_of(revision, code)
    assert error.reason is reason
    assert error.wire_code == code
    assert str(code) in str(error)


def test_an_error_says_what_failed() -> None:
    assert str(stream_not_found("logs")) == "stream name not found: there is no stream 'logs'"
    assert str(error_of(R2C, 42)) == "invalid credentials (status 42)"


def test_only_what_may_pass_is_retryable() -> None:
    assert error_of(R3, 57).retryable
    assert error_of(R3, 58).retryable
    assert not error_of(R1, 42).retryable
    assert not error_of(R1, 2010).retryable
