"""Grants give users permissions on streams by patterns."""

import pytest

from logdrive.services.auth.permissions import Grants, Permission

R, U, NO = Permission.READ, Permission.READ_UPDATE, Permission.NONE


def test_the_highest_permission_of_the_matching_patterns_counts() -> None:
    grants = Grants({"logs/*": R, "logs/app-*": U, "*/public": R})
    assert [grants.stream_permission("logs", stream) for stream in ("app", "app-1", "x-app-1")] == [
        R,
        U,
        R,
    ]
    assert [
        grants.stream_permission(*place)
        for place in (("other", "public"), ("other", "app"), ("logs2", "app"))
    ] == [R, NO, NO]
    assert Grants({"*": U}).stream_permission("any", "thing") == U
    assert Grants({}).stream_permission("logs", "app") == NO


def test_a_permission_on_a_scope_needs_a_grant_on_all_its_streams() -> None:
    grants = Grants({"logs/*": U, "users/app*": U, "*/x": R})
    assert [grants.scope_permission(scope) for scope in ("logs", "users", "other")] == [U, NO, NO]
    assert [grants.may_see_scope(scope) for scope in ("logs", "users", "other")] == [
        True,
        True,
        True,
    ]
    assert not Grants({"logs/app": R}).may_see_scope("users")
    assert Grants({"*": R}).scope_permission("logs") == R


def test_only_the_star_is_a_wildcard() -> None:
    grants = Grants({"a.b/c-*": R})
    assert grants.stream_permission("a.b", "c-1") == R
    assert grants.stream_permission("aXb", "c-1") == NO
    assert grants.stream_permission("a.b", "c1") == NO


@pytest.mark.parametrize(
    "pattern", ["logs", "", "a/b/c", "logs/", "/app", "logs/[a]", "logs/a?", "**", "lo gs/a"]
)
def test_malformed_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="write scope/stream"):
        Grants({pattern: R})
