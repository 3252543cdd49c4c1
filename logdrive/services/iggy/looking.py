"""Looks at a topic without changing anything: what `receiver check` does."""

from logdrive.address import IggyAddress
from logdrive.errors import LogdriveError
from logdrive.host.transport import Transport
from logdrive.services.iggy.client.errors import explain_refusal
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.services.iggy.topics import find_topic, why_not_durable
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.requests import GetStreams


async def look_at_topic(
    transport: Transport, target: IggyTarget, address: IggyAddress
) -> tuple[int | None, str]:
    """Return the number of the topic's partitions, None if it is missing, and why an
    acknowledgement is not durable there, "" if it is.

    Raises `TransientError`, and `LogdriveError` with a remedy if the service refuses.
    """
    try:
        session = await open_session(transport, target)
        try:
            details = await find_topic(session, address.scope, address.stream)
            if details is None:
                # refused to a user without rights, whom R1 tells that each topic is missing
                await session.request(GetStreams())
            weak = await why_not_durable(session, details)
        finally:
            await session.close()
    except IggyError as error:
        raise LogdriveError(explain_refusal(target.where, error)) from error
    return (None if details is None else len(details.partitions)), weak
