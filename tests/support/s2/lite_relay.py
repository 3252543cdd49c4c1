"""Runs `s2 lite` in a network namespace, and relays connections from a loopback port outside.

Prints the port, and a line for each command that it reads: start, pid, wait. Ends, and the server
with it, at the end of its input.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys

_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
PORT = 8080


def enter_namespace() -> None:
    """Enter a new network namespace, and bring its loopback interface up."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interface:
        fcntl.ioctl(interface, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand bytes on until the end, which is handed on, too, or until either end is reset."""
    try:
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand one connection in; both ends are reset when one of them is."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", PORT)
    except OSError:
        writer.transport.abort()
        return
    for end in (writer, inner_writer):
        end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
    writer.transport.abort()
    inner_writer.transport.abort()


async def wait_listening() -> None:
    """Return once the server accepts connections."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.close()
            return
        await asyncio.sleep(0.05)


async def main(binary: str, directory: str) -> None:
    outside = socket.create_server(("127.0.0.1", 0))
    enter_namespace()
    listening = await asyncio.start_server(relay, sock=outside)
    print(outside.getsockname()[1], flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    server: asyncio.subprocess.Process | None = None
    try:
        while command := (await commands.readline()).strip():
            if command == b"start":
                server = await asyncio.create_subprocess_exec(
                    binary,
                    "lite",
                    "--port",
                    str(PORT),
                    "--local-root",
                    directory,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                await wait_listening()
            assert server is not None
            if command == b"wait":
                await server.wait()
            print(server.pid, flush=True)
    finally:
        listening.close()
        if server is not None and server.returncode is None:
            server.kill()
            await server.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    os._exit(0)
