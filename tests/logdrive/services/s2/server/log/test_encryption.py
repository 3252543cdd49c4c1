"""Streams with a cipher: nothing of a record is stored in the clear, and only its key opens it."""

import pytest

from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.wire.s2.configs import Cipher
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendInput, Record, fence_record, trim_record
from tests.logdrive.services.s2.server.log.harness import (
    EVERYTHING,
    append_foreign,
    bodies,
    records,
    stream,
)
from tests.logdrive.store.harness import SEGMENT
from tests.support.virtual_time import run

KEY = bytes(range(32))
OTHER = bytes(32)


@pytest.mark.parametrize("cipher", Cipher)
def test_records_come_back_with_their_key_and_are_nowhere_in_the_clear(cipher: Cipher) -> None:
    async def main() -> None:
        async with stream(settings=LogSettings(cipher=cipher)) as (log, store):
            record = Record(b"secret body", ((b"secret name", b"secret value"),), 7)
            ack = await log.submit(AppendInput((record, Record(b"secret"))), key=KEY)
            assert ack.end.seq_num == 2
            found = await records(log, EVERYTHING, KEY)
            first, second = found
            assert (first.body, first.headers, first.timestamp) == (record.body, record.headers, 7)
            assert second.body == b"secret"
            assert b"secret" not in store.read(SEGMENT, 0, 10_000)
            # the size that counts is the clear one's
            (only,) = [
                chunk async for chunk in await log.read(ReadQuery(seq_num=1, count=1), key=KEY)
            ]
            assert only.metered == 8 + len(b"secret")

    run(main())


@pytest.mark.parametrize("cipher", Cipher)
def test_a_missing_or_wrong_key_is_refused(cipher: Cipher) -> None:
    async def main() -> None:
        async with stream(settings=LogSettings(cipher=cipher)) as (log, _):
            with pytest.raises(S2Error, match=cipher.value) as missing:
                await log.submit(bodies(b"a"))
            assert missing.value.code == "bad_header"
            with pytest.raises(S2Error, match="32 bytes"):
                await log.submit(bodies(b"a"), key=b"short")
            await log.submit(bodies(b"a"), key=KEY)
            with pytest.raises(S2Error, match=cipher.value) as unread:
                await log.read(ReadQuery(seq_num=0))
            assert unread.value.code == "bad_header"
            with pytest.raises(S2Error) as wrong:
                await records(log, EVERYTHING, OTHER)
            assert wrong.value.code == "decryption_failed"

    run(main())


@pytest.mark.parametrize("cipher", Cipher)
def test_commands_are_not_encrypted_and_the_records_of_others_are_shown(cipher: Cipher) -> None:
    async def main() -> None:
        async with stream(settings=LogSettings(cipher=cipher)) as (log, store):
            await log.submit(AppendInput((fence_record("me"), trim_record(0))), key=KEY)
            assert log.view.token == "me"
            await append_foreign(store, b"in the clear", b"\xffS2E\x01" + bytes(30))
            found = await records(log, ReadQuery(seq_num=0, count=3), KEY)
            assert [r.body for r in found] == [b"me", bytes(8), b"in the clear"]

    run(main())
