"""Asks a running agent over its control socket. Blocks."""

import contextlib
import socket
from typing import Final

import msgspec

from agent.control.messages import ANSWER_BYTES, ControlAnswer, Request
from logdrive.errors import LogdriveError, os_error_text

_SECONDS: Final = 30.0
"""Limit on an answer; an agent that reads much answers within a second."""
_READ_BYTES: Final = 1 << 18


class NoAgentError(LogdriveError):
    """No agent answers at the socket; the message says what may be wrong."""


class RefusedRequestError(LogdriveError):
    """The agent did not do what was asked for; the message is its own."""


def ask_agent(path: str, request: Request) -> ControlAnswer:
    """Return the answer of the agent at the socket *path*.

    Raises `NoAgentError`, or `RefusedRequestError` if the answer is an error.
    """
    line = msgspec.json.encode(request) + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
            asking.settimeout(_SECONDS)
            asking.connect(path)
            # an agent that is busy answers at once, and closes
            with contextlib.suppress(BrokenPipeError):
                asking.sendall(line)
            data = _read_line(asking)
    except TimeoutError as error:
        raise NoAgentError(f"{path}: the agent does not answer within {_SECONDS:g} s") from error
    except OSError as error:
        raise NoAgentError(_no_agent(path, error)) from error
    try:
        answer = msgspec.json.decode(data, type=ControlAnswer)
    except msgspec.DecodeError as error:
        raise NoAgentError(f"{path}: what answers there is no agent of this version") from error
    if not answer.ok:
        raise RefusedRequestError(answer.error)
    return answer


def _read_line(asking: socket.socket) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n") and (piece := asking.recv(_READ_BYTES)):
        data += piece
        if len(data) > ANSWER_BYTES:
            raise NoAgentError(f"the answer has more than {ANSWER_BYTES:,} bytes")
    return bytes(data)


def _no_agent(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return (
            f"no agent runs here: there is no socket {path}. Start one (`systemctl start "
            "logdrive-agent`), or name its configuration with --config or its socket with --socket"
        )
    if isinstance(error, ConnectionRefusedError):
        return f"no agent runs here: one that was killed left its socket {path}"
    if isinstance(error, PermissionError):
        return f"{path}: {os_error_text(error)}: ask as root, or as a member of the agent's group"
    return f"{path}: {os_error_text(error)}"
