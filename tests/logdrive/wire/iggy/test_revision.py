"""`logdrive.wire.iggy.revision`, and how a login tells it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.iggy.payloads.sessions import revision_of_login
from logdrive.wire.iggy.requests import IggyLogin
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision, first_partition, revision_of_version
from tests.logdrive.wire.iggy.exchanges import exchanges


@pytest.mark.parametrize(
    ("text", "revision"),
    [
        ("0.6.202", Revision.R1),
        ("0.2.0", Revision.R1),
        ("0.7.0", Revision.R2A),
        ("0.8.0", Revision.R2B),
        ("0.9.0", Revision.R2C),
        ("0.10.0", Revision.R2C),
        ("0.10.1-edge.2", Revision.R2C),
        ("0.11.0", None),
        ("1.0.0", None),
        ("", None),
        ("latest", None),
        ("0.", None),
        ("9" * 40 + ".1", None),
    ],
)
def test_a_librarys_version_tells_its_revision(text: str, revision: Revision | None) -> None:
    assert revision_of_version(text) is revision


@pytest.mark.parametrize("revision", [Revision.R1, Revision.R2A, Revision.R2B, Revision.R2C])
def test_a_login_tells_the_revision_by_its_version(revision: Revision) -> None:
    versions = {revision_of_version(text): text for text in ("0.6.1", "0.7.0", "0.8.0", "0.9.0")}
    login = IggyLogin("iggy", "iggy", versions[revision], "context")
    assert revision_of_login(encode_request(revision, login)[1]) is revision


def test_a_login_without_a_version_is_the_oldest_revision_that_has_logins() -> None:
    assert revision_of_login(encode_request(Revision.R0B, IggyLogin("a", "b"))[1]) is Revision.R0B


def test_the_recorded_logins_tell_the_revision_of_their_clients() -> None:
    logins = [one for one in exchanges() if one.code == 38 and one.revision >= Revision.R0B]
    assert {one.revision for one in logins} == set(Revision) - {Revision.R0, Revision.R3}
    for one in logins:
        assert revision_of_login(one.request) is one.revision


@given(st.binary(max_size=60))
def test_any_login_tells_a_revision_or_none(payload: bytes) -> None:
    assert revision_of_login(payload) in {None, *Revision} - {Revision.R0, Revision.R3}


@pytest.mark.parametrize("revision", list(Revision))
def test_partitions_are_counted_from_1_up_to_r2a(revision: Revision) -> None:
    assert first_partition(revision) == (1 if revision <= Revision.R2A else 0)
