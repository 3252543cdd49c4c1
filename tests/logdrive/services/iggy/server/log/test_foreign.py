"""Any bytes that other faces may have written are messages, in every revision."""

from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.services.iggy.server.log.foreign import show_foreign
from logdrive.services.numbering.heads import RECORD, encode_payload
from logdrive.services.s2.server.log.payload import encode_fields
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.log.harness import append_foreign, messages, partition
from tests.support.virtual_time import run

STARTS = (
    b"",
    b"\xff",
    b"\xffIG\x01",
    b"\xffIG\x02",
    b"\xffS2R\x01",
    b"\xffS2C\x01",
    b"\xffS2E\x01",
)
PAYLOADS = st.lists(
    st.builds(bytes.__add__, st.sampled_from(STARTS), st.binary(max_size=80)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(PAYLOADS)
def test_any_payloads_are_polled_one_message_each(payloads: list[bytes]) -> None:
    async def main() -> None:
        async with partition() as (log, store):
            await append_foreign(store, *payloads)
            for revision in (Revision.R0, Revision.R1, Revision.R2C, Revision.R3):
                found = await messages(log, revision=revision)
                assert [one.offset for one in found] == list(range(len(payloads)))
                for one, payload in zip(found, payloads, strict=True):
                    # all of it, or the end of an envelope or of a record
                    assert one.payload == payload or payload[:1] == b"\xff"

    run(main())


@given(
    st.dictionaries(st.text(min_size=1, max_size=20), st.binary(min_size=1, max_size=99)),
    st.binary(max_size=200),
)
def test_a_record_of_s2_keeps_its_headers_and_its_body(
    headers: dict[str, bytes], body: bytes
) -> None:
    given_headers = [(name.encode(), value) for name, value in headers.items()]
    stored = encode_payload(RECORD, 5, 8, encode_fields(tuple(given_headers), body))
    shown = show_foreign(stored)
    assert shown is not None
    assert shown.payload == body
    assert [(key.data, value.data) for key, value in decode_headers(shown.headers)] == given_headers
