"""The controller's gRPC methods, with the types of their requests and answers. All are unary."""

from typing import Final, NamedTuple

from google.protobuf.message import Message

from logdrive.wire.pravega.controller import controller_pb2 as pb

SERVICE: Final = "io.pravega.controller.stream.api.grpc.v1.ControllerService"


class Method(NamedTuple):
    """The types of one method's request and answer."""

    request: type[Message]  # what the client sends
    answer: type[Message]  # what the server returns


METHODS: Final[dict[str, Method]] = {
    "createScope": Method(pb.ScopeInfo, pb.CreateScopeStatus),
    "deleteScope": Method(pb.ScopeInfo, pb.DeleteScopeStatus),
    "deleteScopeRecursive": Method(pb.ScopeInfo, pb.DeleteScopeStatus),
    "checkScopeExists": Method(pb.ScopeInfo, pb.ExistsResponse),
    "createStream": Method(pb.StreamConfig, pb.CreateStreamStatus),
    "updateStream": Method(pb.StreamConfig, pb.UpdateStreamStatus),
    "truncateStream": Method(pb.StreamCut, pb.UpdateStreamStatus),
    "sealStream": Method(pb.StreamInfo, pb.UpdateStreamStatus),
    "deleteStream": Method(pb.StreamInfo, pb.DeleteStreamStatus),
    "checkStreamExists": Method(pb.StreamInfo, pb.ExistsResponse),
    "listScopes": Method(pb.ScopesRequest, pb.ScopesResponse),
    "getStreamConfiguration": Method(pb.StreamInfo, pb.StreamConfig),
    "listStreamsInScope": Method(pb.StreamsInScopeRequest, pb.StreamsInScopeResponse),
    "listStreamsInScopeForTag": Method(pb.StreamsInScopeWithTagRequest, pb.StreamsInScopeResponse),
    "getCurrentSegments": Method(pb.StreamInfo, pb.SegmentRanges),
    "getEpochSegments": Method(pb.GetEpochSegmentsRequest, pb.SegmentRanges),
    "getSegments": Method(pb.GetSegmentsRequest, pb.SegmentsAtTime),
    "getSegmentsImmediatelyFollowing": Method(pb.SegmentId, pb.SuccessorResponse),
    # the older name, misspelled
    "getSegmentsImmediatlyFollowing": Method(pb.SegmentId, pb.SuccessorResponse),
    "isSegmentValid": Method(pb.SegmentId, pb.SegmentValidityResponse),
    "isStreamCutValid": Method(pb.StreamCut, pb.StreamCutValidityResponse),
    "getSegmentsBetween": Method(pb.StreamCutRange, pb.StreamCutRangeResponse),
    "getURI": Method(pb.SegmentId, pb.NodeUri),
    "getDelegationToken": Method(pb.StreamInfo, pb.DelegationToken),
    "scale": Method(pb.ScaleRequest, pb.ScaleResponse),
    "checkScale": Method(pb.ScaleStatusRequest, pb.ScaleStatusResponse),
    "createTransaction": Method(pb.CreateTxnRequest, pb.CreateTxnResponse),
    "pingTransaction": Method(pb.PingTxnRequest, pb.PingTxnStatus),
    "commitTransaction": Method(pb.TxnRequest, pb.TxnStatus),
    "abortTransaction": Method(pb.TxnRequest, pb.TxnStatus),
    "checkTransactionState": Method(pb.TxnRequest, pb.TxnState),
    "listCompletedTransactions": Method(pb.ListCompletedTxnRequest, pb.ListCompletedTxnResponse),
    "noteTimestampFromWriter": Method(pb.TimestampFromWriter, pb.TimestampResponse),
    "removeWriter": Method(pb.RemoveWriterRequest, pb.RemoveWriterResponse),
    "getControllerServerList": Method(pb.ServerRequest, pb.ServerResponse),
    "createReaderGroup": Method(pb.ReaderGroupConfiguration, pb.CreateReaderGroupResponse),
    "getReaderGroupConfig": Method(pb.ReaderGroupInfo, pb.ReaderGroupConfigResponse),
    "updateReaderGroup": Method(pb.ReaderGroupConfiguration, pb.UpdateReaderGroupResponse),
    "deleteReaderGroup": Method(pb.ReaderGroupInfo, pb.DeleteReaderGroupStatus),
    "listSubscribers": Method(pb.StreamInfo, pb.SubscribersResponse),
    "updateSubscriberStreamCut": Method(pb.SubscriberStreamCut, pb.UpdateSubscriberStatus),
    "createKeyValueTable": Method(pb.KeyValueTableConfig, pb.CreateKeyValueTableStatus),
    "getKeyValueTableConfiguration": Method(pb.KeyValueTableInfo, pb.KeyValueTableConfigResponse),
    "getCurrentSegmentsKeyValueTable": Method(pb.KeyValueTableInfo, pb.SegmentRanges),
    "listKeyValueTablesInScope": Method(pb.KVTablesInScopeRequest, pb.KVTablesInScopeResponse),
    "deleteKeyValueTable": Method(pb.KeyValueTableInfo, pb.DeleteKVTableStatus),
}
"""The methods that are called or served here, by name."""
