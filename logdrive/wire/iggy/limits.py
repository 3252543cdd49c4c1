"""Limits of Iggy's protocol. See docs/protocols/iggy.md#limits."""

from logdrive.model.units import MIB

U8_MAX = 2**8 - 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1

# Frames of the classic revisions
REQUEST_HEAD_BYTES = 8  # length and code
REPLY_HEAD_BYTES = 8  # status and length
FRAME_BYTES = 256 * MIB  # a send's payload, and a reply's
COMMAND_BYTES = 10 * MIB  # the payload of any other request

# Messages
PAYLOAD_BYTES = 64_000_000  # of one message
MESSAGES = 500_000  # of one send: where they have ids, each takes Python
USER_HEADERS_BYTES = 100_000  # of one message, encoded
HEADER_BYTES = 255  # a user header's key, and its value; each has at least one
R0_SEND_BYTES = 10 * MIB  # all payloads of a send
R0_USER_HEADERS_BYTES = 102_400  # all header values of a send
R0_PARTITIONS = 100_000  # of a request

# Names and secrets, UTF-8
NAME_BYTES = 255  # at least one
USER_NAME_MIN_BYTES = 3
USER_NAME_MAX_BYTES = 50
PASSWORD_MIN_BYTES = 3
PASSWORD_MAX_BYTES = 100
TOKEN_NAME_MIN_BYTES = 3
TOKEN_NAME_MAX_BYTES = 30
TOKEN_BYTES = 100
TEXT_BYTES = 64 * 1024  # a text with a length of four bytes: a version, a context, an address

# What one request may ask for, and a topic may have
PARTITIONS = 1000
TOKENS_PER_USER = 100

# Option blocks of R3
OPTIONS = 1024
OPTIONS_BYTES = 100_000

# Permissions of a user, encoded
PERMISSIONS_BYTES = 1 * MIB

# Times and sizes whose meaning is not their number
NEVER = U64_MAX  # a time to live in µs
UNLIMITED = U64_MAX  # a size in bytes

FENCED_PARTITION = U32_MAX
"""The partition in an empty poll of R3: the member's assignment is out of date, it should sync."""
