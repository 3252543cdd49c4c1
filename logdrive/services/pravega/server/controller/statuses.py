"""Errors as the controller's answers: the status field of an answer, or else a gRPC status code."""

from typing import Final

import grpc
from google.protobuf.message import Message

from logdrive.store.streams.errors import (
    BadNameError,
    GenerationError,
    LeaseError,
    MapExistsError,
    NoSuchGroupError,
    NoSuchMapError,
    NoSuchScopeError,
    NoSuchStreamError,
    NoSuchStreamSegmentError,
    NoSuchTransactionError,
    NoSuchWriterError,
    PositionError,
    PreconditionError,
    ScopeExistsError,
    ScopeNotEmptyError,
    StreamExistsError,
    StreamNotSealedError,
    StreamSealedError,
    StreamsError,
    TimeError,
    TooMuchNotedError,
    TransactionEndedError,
)
from logdrive.wire.pravega.controller import controller_pb2 as pb

_Names = dict[type[StreamsError], str]

_UPDATE: Final[_Names] = {
    NoSuchStreamError: "STREAM_NOT_FOUND",
    NoSuchScopeError: "SCOPE_NOT_FOUND",
    StreamSealedError: "STREAM_SEALED",
}
_TRANSACTION: Final[_Names] = {
    NoSuchStreamError: "STREAM_NOT_FOUND",
    NoSuchScopeError: "STREAM_NOT_FOUND",
    NoSuchTransactionError: "TRANSACTION_NOT_FOUND",
}
_STATUSES: Final[dict[type[Message], _Names]] = {
    pb.CreateScopeStatus: {ScopeExistsError: "SCOPE_EXISTS", BadNameError: "INVALID_SCOPE_NAME"},
    pb.DeleteScopeStatus: {
        NoSuchScopeError: "SCOPE_NOT_FOUND",
        ScopeNotEmptyError: "SCOPE_NOT_EMPTY",
    },
    pb.CreateStreamStatus: {
        StreamExistsError: "STREAM_EXISTS",
        NoSuchScopeError: "SCOPE_NOT_FOUND",
        BadNameError: "INVALID_STREAM_NAME",
    },
    pb.UpdateStreamStatus: _UPDATE,
    pb.DeleteStreamStatus: {
        NoSuchStreamError: "STREAM_NOT_FOUND",
        NoSuchScopeError: "STREAM_NOT_FOUND",
        StreamNotSealedError: "STREAM_NOT_SEALED",
    },
    pb.StreamsInScopeResponse: {NoSuchScopeError: "SCOPE_NOT_FOUND"},
    pb.ScaleResponse: {
        PreconditionError: "PRECONDITION_FAILED",
        StreamSealedError: "PRECONDITION_FAILED",
    },
    pb.TxnStatus: _TRANSACTION,
    pb.CreateReaderGroupResponse: {
        NoSuchScopeError: "SCOPE_NOT_FOUND",
        BadNameError: "INVALID_RG_NAME",
    },
    pb.ReaderGroupConfigResponse: {
        NoSuchGroupError: "RG_NOT_FOUND",
        NoSuchScopeError: "RG_NOT_FOUND",
    },
    pb.UpdateReaderGroupResponse: {
        NoSuchGroupError: "RG_NOT_FOUND",
        NoSuchScopeError: "RG_NOT_FOUND",
        GenerationError: "INVALID_CONFIG",
        BadNameError: "INVALID_CONFIG",
    },
    pb.DeleteReaderGroupStatus: {
        NoSuchGroupError: "RG_NOT_FOUND",
        NoSuchScopeError: "RG_NOT_FOUND",
    },
    pb.SubscribersResponse: {
        NoSuchStreamError: "STREAM_NOT_FOUND",
        NoSuchScopeError: "STREAM_NOT_FOUND",
    },
    pb.UpdateSubscriberStatus: {
        NoSuchStreamError: "STREAM_NOT_FOUND",
        NoSuchScopeError: "STREAM_NOT_FOUND",
        NoSuchGroupError: "SUBSCRIBER_NOT_FOUND",
        GenerationError: "GENERATION_MISMATCH",
        PreconditionError: "STREAM_CUT_NOT_VALID",
        NoSuchStreamSegmentError: "STREAM_CUT_NOT_VALID",
    },
    pb.CreateKeyValueTableStatus: {
        MapExistsError: "TABLE_EXISTS",
        NoSuchScopeError: "SCOPE_NOT_FOUND",
        BadNameError: "INVALID_TABLE_NAME",
    },
    pb.KeyValueTableConfigResponse: {
        NoSuchMapError: "TABLE_NOT_FOUND",
        NoSuchScopeError: "TABLE_NOT_FOUND",
    },
    pb.KVTablesInScopeResponse: {NoSuchScopeError: "SCOPE_NOT_FOUND"},
    pb.DeleteKVTableStatus: {
        NoSuchMapError: "TABLE_NOT_FOUND",
        NoSuchScopeError: "TABLE_NOT_FOUND",
    },
}
"""Names of `status` values by answer and error; others are FAILURE."""

_RESULTS: Final[dict[type[Message], _Names]] = {
    pb.TimestampResponse: {TimeError: "INVALID_TIME", PositionError: "INVALID_POSITION"},
    pb.RemoveWriterResponse: {
        NoSuchWriterError: "UNKNOWN_WRITER",
        NoSuchStreamError: "UNKNOWN_WRITER",
        NoSuchScopeError: "UNKNOWN_WRITER",
    },
}
"""Names of `result` values by answer and error; others have none."""

_CODES: Final[dict[type[StreamsError], grpc.StatusCode]] = {
    NoSuchScopeError: grpc.StatusCode.NOT_FOUND,
    NoSuchStreamError: grpc.StatusCode.NOT_FOUND,
    NoSuchStreamSegmentError: grpc.StatusCode.NOT_FOUND,
    NoSuchTransactionError: grpc.StatusCode.NOT_FOUND,
    NoSuchMapError: grpc.StatusCode.NOT_FOUND,
    BadNameError: grpc.StatusCode.INVALID_ARGUMENT,
    LeaseError: grpc.StatusCode.INVALID_ARGUMENT,
    TooMuchNotedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


def answer_for_error(answer: type[Message], error: StreamsError) -> Message | None:
    """Return an answer of type *answer* that reports *error*; None where it has no field for it."""
    # three answers whose status fields have values of their own
    if answer is pb.PingTxnStatus:
        return pb.PingTxnStatus(status=_ping_status(error))
    if answer is pb.TxnState and isinstance(error, NoSuchTransactionError):
        return pb.TxnState(state="UNKNOWN")
    if answer is pb.ScaleStatusResponse:
        return pb.ScaleStatusResponse(status="INVALID_INPUT")
    if (result := _RESULTS.get(answer, {}).get(type(error))) is not None:
        return answer(result=result)
    names = _STATUSES.get(answer)
    return answer(status=names.get(type(error), "FAILURE")) if names is not None else None


def grpc_code_for_error(error: StreamsError) -> grpc.StatusCode:
    """Return the gRPC status code for *error*, where no field of the answer can report it."""
    return _CODES.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)


def _ping_status(error: StreamsError) -> str:
    if isinstance(error, TransactionEndedError):
        return "COMMITTED" if error.committed else "ABORTED"
    return "LEASE_TOO_LARGE" if isinstance(error, LeaseError) else "UNKNOWN"
