"""Logins, users and their tokens."""

from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.services.iggy.server.state.records import RegisteredUser
from logdrive.services.iggy.server.state.rights import Right
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import (
    PASSWORD_MAX_BYTES,
    PASSWORD_MIN_BYTES,
    TOKEN_BYTES,
    TOKEN_NAME_MAX_BYTES,
    TOKEN_NAME_MIN_BYTES,
    USER_NAME_MAX_BYTES,
    USER_NAME_MIN_BYTES,
)
from logdrive.wire.iggy.replies import LoggedIn, RawToken, TokenInfo, UserDetails, UserInfo
from logdrive.wire.iggy.requests import (
    ChangePassword,
    CreateToken,
    CreateUser,
    DeleteToken,
    DeleteUser,
    GetTokens,
    GetUser,
    GetUsers,
    IggyLogin,
    LoginWithToken,
    Logout,
    UpdatePermissions,
    UpdateUser,
)

# Logins ------------------------------------------------------------------------------------------


async def log_in(service: IggyService, session: IggySession, request: IggyLogin) -> LoggedIn:
    """Log in by a user's name and password."""
    user = await service.users.log_in(request.user, request.password)
    session.log_in(user.id)
    return LoggedIn(user.id)


async def log_in_with_token(
    service: IggyService, session: IggySession, request: LoginWithToken
) -> LoggedIn:
    """Log in by a personal access token."""
    if not 1 <= len(request.token.encode()) <= TOKEN_BYTES:
        raise IggyError(Reason.INVALID_FORMAT, f"a token has 1 to {TOKEN_BYTES} bytes")
    user = service.tokens.log_in(request.token)
    session.log_in(user)
    return LoggedIn(user)


async def log_out(service: IggyService, session: IggySession, request: Logout) -> None:
    """End the login, and the connection's memberships of groups."""
    session.log_out()


# Users -------------------------------------------------------------------------------------------


async def get_user(
    service: IggyService, session: IggySession, request: GetUser
) -> UserDetails | None:
    """Return a user; everyone may ask for oneself."""
    found = service.users.find(request.user)
    if found is None or found.id != session.user_id:
        service.check(session, Right.READ_USERS)
    return _details(service, found) if found is not None else None


async def get_users(
    service: IggyService, session: IggySession, request: GetUsers
) -> tuple[UserInfo, ...]:
    """Return all users."""
    service.check(session, Right.READ_USERS)
    return tuple(_info(user) for user in service.users.all_users())


async def create_user(
    service: IggyService, session: IggySession, request: CreateUser
) -> UserDetails:
    """Create a user."""
    service.check(session, Right.MANAGE_USERS)
    _check_name(request.name)
    _check_password(request.password)
    user = await service.users.create(
        request.name,
        request.password,
        active=request.active,
        permissions=request.permissions,
    )
    return _details(service, user)


async def delete_user(service: IggyService, session: IggySession, request: DeleteUser) -> None:
    """Delete a user, who is logged out everywhere."""
    service.check(session, Right.MANAGE_USERS)
    service.sessions.log_out_user(await service.users.delete(request.user))


async def update_user(service: IggyService, session: IggySession, request: UpdateUser) -> None:
    """Change a user's name, or whether logins are possible."""
    service.check(session, Right.MANAGE_USERS)
    if request.name is not None:
        _check_name(request.name)
    await service.users.update(request.user, request.name, request.active)
    user = service.users.find(request.user)
    if request.active is False and user is not None:
        service.sessions.log_out_user(user.id)


async def set_permissions(
    service: IggyService, session: IggySession, request: UpdatePermissions
) -> None:
    """Replace a user's permissions; they are in force at once."""
    service.check(session, Right.MANAGE_USERS)
    await service.users.set_permissions(request.user, request.permissions)


async def change_password(
    service: IggyService, session: IggySession, request: ChangePassword
) -> None:
    """Replace a password; everyone may do so with one's own."""
    found = service.users.find(request.user)
    if found is None or found.id != session.user_id:
        service.check(session, Right.MANAGE_USERS)
    _check_password(request.new)
    await service.users.change_password(request.user, request.current, request.new)


# Tokens ------------------------------------------------------------------------------------------


async def get_tokens(
    service: IggyService, session: IggySession, request: GetTokens
) -> tuple[TokenInfo, ...]:
    """Return the tokens of the user who asks."""
    tokens = service.tokens.of_user(_user(session))
    return tuple(TokenInfo(name, tokens[name].expires_us) for name in sorted(tokens))


async def create_token(
    service: IggyService, session: IggySession, request: CreateToken
) -> RawToken:
    """Create a token of the user who asks."""
    if not TOKEN_NAME_MIN_BYTES <= len(request.name.encode()) <= TOKEN_NAME_MAX_BYTES:
        raise IggyError(
            Reason.INVALID_TOKEN_NAME,
            f"a token's name has {TOKEN_NAME_MIN_BYTES} to {TOKEN_NAME_MAX_BYTES} bytes",
        )
    return RawToken(await service.tokens.create(_user(session), request.name, request.expiry_us))


async def delete_token(service: IggyService, session: IggySession, request: DeleteToken) -> None:
    """Delete a token of the user who asks."""
    await service.tokens.delete(_user(session), request.name)


# -------------------------------------------------------------------------------------------------


def _user(session: IggySession) -> int:
    assert session.user_id is not None
    return session.user_id


def _info(user: RegisteredUser) -> UserInfo:
    return UserInfo(user.id, user.created_us, user.active, user.name)


def _details(service: IggyService, user: RegisteredUser) -> UserDetails:
    return UserDetails(_info(user), service.users.permissions(user))


def _check_name(name: str) -> None:
    if not USER_NAME_MIN_BYTES <= len(name.encode()) <= USER_NAME_MAX_BYTES or ":" in name:
        raise IggyError(
            Reason.INVALID_USER_NAME,
            f"a user's name has {USER_NAME_MIN_BYTES} to {USER_NAME_MAX_BYTES} bytes, and no colon",
        )


def _check_password(password: str) -> None:
    if not PASSWORD_MIN_BYTES <= len(password.encode()) <= PASSWORD_MAX_BYTES:
        raise IggyError(
            Reason.INVALID_PASSWORD,
            f"a password has {PASSWORD_MIN_BYTES} to {PASSWORD_MAX_BYTES} bytes",
        )
