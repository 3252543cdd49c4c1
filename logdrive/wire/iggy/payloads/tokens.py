"""Layouts of personal access tokens: requests 41 to 43 and their replies."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.payloads.fields import TEXT8, U64, or_none, to_end
from logdrive.wire.iggy.payloads.shapes import Shape, at
from logdrive.wire.iggy.replies import RawToken, TokenInfo

TOKEN_REQUESTS: Final = (
    Shape(requests.GetTokens),
    Shape(requests.CreateToken, at("name", TEXT8), at("expiry_us", or_none(U64))),
    Shape(requests.DeleteToken, at("name", TEXT8)),
)

TOKENS: Final = to_end(Shape(TokenInfo, at("name", TEXT8), at("expires_us", or_none(U64))))
RAW_TOKEN: Final = Shape(RawToken, at("token", TEXT8))
