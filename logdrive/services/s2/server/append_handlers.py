"""Appends: unary ones, and sessions of frames."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.s2.server.call import PROTOBUF, SESSION, Answer, Call
