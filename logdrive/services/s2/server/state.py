"""What the S2 face itself keeps: basins, streams and access tokens with their configuration.

The streams themselves are those of the store's one catalog (`logdrive.store.streams`), which all
faces share: a basin is a scope, and a stream of S2 is one segment. Here is only what the catalog
does not know. A basin or a stream that another face made need not be here at all.

The state is kept by a journal (`logdrive.store.journal`) in the segment `_system/_s2/0.#epoch.0`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from logdrive.store.streams.names import S2, SYSTEM
from logdrive.wire.pravega.names import segment_name
from logdrive.wire.s2.configs import BasinConfig, Cipher, ResolvedStreamConfig, S2StreamConfig

SEGMENT: Final = segment_name(SYSTEM, S2, 0)
"""The segment that has the journal."""


class S2Basin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A basin; times are in ms since 1970. *deleted_ms* is set while it is being deleted.

    *request_token* and *created_as* are those of the request that created it.
    """

    config: BasinConfig
    created_ms: int
    location: str | None = None
    request_token: str | None = None
    created_as: BasinConfig | None = None
    deleted_ms: int | None = None


class RegisteredStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream; the fields that a basin has, too, are as in `S2Basin`.

    *stream* is its name in the catalog, and *segment* the full name of its segment: if the stream
    has another one now, someone deleted it and made another of that name.
    """

    config: ResolvedStreamConfig
    stream: str
    segment: str
    created_ms: int
    cipher: Cipher | None = None
    request_token: str | None = None
    created_as: S2StreamConfig | None = None
    deleted_ms: int | None = None


class NameSet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names that an access token reaches: one, or all that begin with a prefix."""

    exact: str | None = None
    prefix: str | None = None

    def has(self, name: str) -> bool:
        """Return whether *name* is one of them; an empty *exact* names nothing."""
        if self.exact is not None:
            return bool(self.exact) and name == self.exact
        return self.prefix is not None and name.startswith(self.prefix)


class ReadWrite(msgspec.Struct, frozen=True, omit_defaults=True):
    """Permissions on a group of operations."""

    read: bool = False
    write: bool = False


class OperationGroups(msgspec.Struct, frozen=True, omit_defaults=True):
    """Permissions by level: operations on the account, on basins and on streams."""

    account: ReadWrite | None = None
    basin: ReadWrite | None = None
    stream: ReadWrite | None = None


class TokenScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an access token reaches, and the operations that it allows there."""

    basins: NameSet | None = None
    streams: NameSet | None = None
    access_tokens: NameSet | None = None
    op_groups: OperationGroups | None = None
    ops: tuple[str, ...] = ()


class S2Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """An access token, known by the SHA-256 of its text, in hex; *expires_ms* is since 1970."""

    digest: str
    scope: TokenScope
    auto_prefix_streams: bool = False
    expires_ms: int | None = None


class BasinPut(msgspec.Struct, frozen=True, tag="basin"):
    """The new state of a basin; None if it is gone, with what is known of its streams."""

    basin: str
    now: S2Basin | None


class S2StreamPut(msgspec.Struct, frozen=True, tag="stream"):
    """The new state of a stream; None if it is gone."""

    basin: str
    stream: str
    now: RegisteredStream | None


class TokenPut(msgspec.Struct, frozen=True, tag="token"):
    """The new state of an access token; None if it was revoked."""

    id: str
    now: S2Token | None


class EndedTokenPut(msgspec.Struct, frozen=True, tag="ended-token"):
    """An access token that was revoked or replaced, by its digest: it is not valid again."""

    digest: str


S2Put = BasinPut | S2StreamPut | TokenPut | EndedTokenPut

_ENDED_TOKENS: Final = 10_000
"""Revoked or replaced access tokens that are remembered; then the oldest are forgotten."""


class S2Record(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[S2Put, ...]


_decoder: Final = msgspec.json.Decoder(S2Record)


def decode_puts(record: bytes) -> Sequence[S2Put]:
    """Return the puts of one record of the journal. Raises `msgspec.DecodeError`."""
    return _decoder.decode(record).puts


class S2State:
    """The state that all changes so far lead to."""

    def __init__(self) -> None:
        self.basins: dict[str, S2Basin] = {}
        # by basin and name
        self.streams: dict[str, dict[str, RegisteredStream]] = {}
        # by id
        self.tokens: dict[str, S2Token] = {}
        # ids by digest
        self.token_ids: dict[str, str] = {}
        # digests of tokens that were revoked or replaced, the oldest first
        self.ended_tokens: dict[str, None] = {}

    def apply_puts(self, puts: Sequence[S2Put]) -> None:
        """Apply one change."""
        for put in puts:
            match put:
                case BasinPut(basin, None):
                    self.basins.pop(basin, None)
                    self.streams.pop(basin, None)
                case BasinPut(basin, now) if now is not None:
                    self.basins[basin] = now
                case S2StreamPut(basin, name, None):
                    self.streams.get(basin, {}).pop(name, None)
                case S2StreamPut(basin, name, stream) if stream is not None:
                    self.streams.setdefault(basin, {})[name] = stream
                case TokenPut():
                    self._put_token(put)
                case EndedTokenPut(digest):
                    self._end_token(digest)

    def _put_token(self, put: TokenPut) -> None:
        if (before := self.tokens.pop(put.id, None)) is not None:
            self.token_ids.pop(before.digest, None)
            self._end_token(before.digest)
        if put.now is not None:
            self.tokens[put.id] = put.now
            self.token_ids[put.now.digest] = put.id
            self.ended_tokens.pop(put.now.digest, None)

    def _end_token(self, digest: str) -> None:
        self.ended_tokens[digest] = None
        if len(self.ended_tokens) > _ENDED_TOKENS:
            del self.ended_tokens[next(iter(self.ended_tokens))]

    def stream(self, basin: str, name: str) -> RegisteredStream | None:
        """Return what is known of a stream; None if nothing is."""
        streams = self.streams.get(basin)
        return streams.get(name) if streams is not None else None

    def puts_for_all(self) -> Iterator[S2Put]:
        """Yield the puts that make this state from nothing."""
        for basin, now in self.basins.items():
            yield BasinPut(basin, now)
        for basin, streams in self.streams.items():
            for name, stream in streams.items():
                yield S2StreamPut(basin, name, stream)
        for id_, token in self.tokens.items():
            yield TokenPut(id_, token)
        for digest in self.ended_tokens:
            yield EndedTokenPut(digest)
