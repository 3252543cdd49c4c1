"""One of Iggy's own Python clients, driven by lines of JSON: a program of its own, run by the
Python of an environment that has the client.

    python driver.py (iggy-py|apache-iggy-classic|apache-iggy-vsr) HOST:PORT

A line `{"call": NAME, "with": {...}}` calls a method of the class below; the answer is a line
`{"value": ...}`, or `{"error": TEXT}`. Payloads are hexadecimal. The program ends with its input.
"""

import asyncio
import datetime
import enum
import importlib
import json
import sys
import threading
from typing import Any

CONNECT_SECONDS = 20.0  # the clients themselves try without end


class IggyPy:
    """iggy-py 0.4: the client of revision R1."""

    module = "iggy_py"

    def __init__(self, address: str) -> None:
        self.api = importlib.import_module(self.module)
        self.client = self.api.IggyClient(address)
        self._polled = {"offset": 0, "timestamp": 0}

    async def connect(self) -> None:
        await asyncio.wait_for(_done(self.client.connect()), CONNECT_SECONDS)

    async def login(self, user: str, password: str) -> None:
        await self.client.login_user(user, password)

    async def ping(self) -> None:
        await self.client.ping()

    async def create_stream(self, name: str, number: int | None = None) -> None:
        await self.client.create_stream(name, number)

    async def stream(self, stream: "str | int") -> Any:
        return _shown(await self.client.get_stream(self.identifier(stream)))

    async def create_topic(self, stream: "str | int", name: str, partitions: int) -> None:
        await self.client.create_topic(self.identifier(stream), name, partitions, None, None, None)

    async def topic(self, stream: "str | int", topic: "str | int") -> Any:
        return _shown(await self.client.get_topic(self.identifier(stream), self.identifier(topic)))

    async def send(
        self, stream: "str | int", topic: "str | int", partition: int, payloads: list[str]
    ) -> None:
        messages = [self.message(bytes.fromhex(payload)) for payload in payloads]
        await self.client.send_messages(
            self.identifier(stream), self.identifier(topic), partition, messages
        )

    async def poll(
        self,
        stream: "str | int",
        topic: "str | int",
        partition: int,
        strategy: str,
        value: int | None = None,
        count: int = 100,
        commit: bool = False,
    ) -> Any:
        messages = await self.client.poll_messages(
            self.identifier(stream),
            self.identifier(topic),
            partition,
            self.strategy(strategy, value),
            count,
            commit,
        )
        return [_message(message) for message in messages]

    def identifier(self, value: "str | int") -> Any:
        return value

    def message(self, payload: bytes) -> Any:
        return self.api.SendMessage(payload.decode())

    def strategy(self, name: str, value: int | None) -> Any:
        kind = getattr(self.api.PollingStrategy, name)
        return kind() if value is None else kind(value)


class ApacheIggy(IggyPy):
    """apache-iggy 0.8: the client of revision R2c."""

    module = "apache_iggy"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._member: Any = None
        self._consumed: list[Any] = []
        self._stop = asyncio.Event()
        self._consuming: asyncio.Task[None] | None = None

    async def connect_with(self, connection: str) -> None:
        """Connect anew, by a connection string."""
        self.client = self.api.IggyClient.from_connection_string(connection)
        await self.connect()

    async def create_stream(self, name: str, number: int | None = None) -> None:
        await self.client.create_stream(name)

    async def create_topic(
        self, stream: "str | int", name: str, partitions: int, **options: Any
    ) -> None:
        await self.client.create_topic(stream, name, partitions, **options)

    def message(self, payload: bytes) -> Any:
        return self.api.SendMessage(payload)

    async def join(
        self, group: str, stream: str, topic: str, commit: bool = True, batch: int = 10
    ) -> None:
        """Become a member of the group; it is created if missing."""
        api = self.api
        when = (
            api.AutoCommit.When(api.AutoCommitWhen.PollingMessages())
            if commit
            else api.AutoCommit.Disabled()
        )
        self._member = await self.client.consumer_group(
            group,
            stream,
            topic,
            polling_strategy=api.PollingStrategy.Next(),
            batch_length=batch,
            auto_commit=when,
            poll_interval=datetime.timedelta(milliseconds=20),
        )

    async def consume(self) -> None:
        """Consume in the background from now on; see `consumed`."""
        self._consuming = asyncio.create_task(self._consume())

    async def _consume(self) -> None:
        async def keep(message: Any) -> None:
            self._consumed.append(_message(message))

        await self._member.consume_messages(keep, self._stop)

    async def consumed(self) -> Any:
        """Return what was consumed so far."""
        if self._consuming is not None and self._consuming.done():
            self._consuming.result()
        return self._consumed

    async def store_offset(self, offset: int, partition: int) -> None:
        await self._member.store_offset(offset, partition)

    async def delete_offset(self, partition: int) -> None:
        await self._member.delete_offset(partition)

    async def stored_offset(self, partition: int) -> Any:
        return self._member.get_last_stored_offset(partition)


class ApacheIggyVsr(ApacheIggy):
    """apache-iggy 0.9: the client of revision R3."""

    async def poll(
        self,
        stream: "str | int",
        topic: "str | int",
        partition: int | None,
        strategy: str,
        value: int | None = None,
        count: int = 100,
        commit: bool = False,
        group: str | None = None,
    ) -> Any:
        consumer = self.api.Consumer
        messages = await self.client.poll_messages(
            stream,
            topic,
            consumer=consumer.Single(1) if group is None else consumer.Group(group),
            polling_strategy=self.strategy(strategy, value),
            count=count,
            auto_commit=commit,
            partition_id=partition,
        )
        return [_message(message) for message in messages]

    async def send_as(
        self,
        stream: str,
        topic: str,
        payloads: list[str],
        key: str | None = None,
        headers: dict[str, str] | None = None,
        chosen_id: int | None = None,
    ) -> Any:
        """Send to the partition of a key, or balanced; return the partitions and first offsets."""
        kinds = self.api.Partitioning
        response = await self.client.send_messages(
            stream,
            topic,
            kinds.balanced() if key is None else kinds.messages_key(key),
            [self.api.SendMessage(bytes.fromhex(each), headers, chosen_id) for each in payloads],
        )
        return [(each.partition_id, each.base_offset) for each in response.confirmations]

    async def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client that takes and gives plain values."""
        return _shown(await getattr(self.client, method)(*arguments, **options))

    async def request(self, code: int, payload: str) -> str:
        """Send a command of any code."""
        answer: bytes = await self.client.send_binary_request(code, bytes.fromhex(payload))
        return answer.hex()

    async def connect_by_tls(self, address: str, ca: str, domain: str) -> None:
        """Connect anew, by TLS."""
        config = self.api.TcpConfig(
            server_address=address, tls_enabled=True, tls_ca_file=ca, tls_domain=domain
        )
        self.client = self.api.IggyClient(config)
        await self.connect()

    async def update_permissions(self, user: str, **allowed: bool) -> None:
        allowances = self.api.GlobalPermissions(**allowed)
        await self.client.update_permissions(user, self.api.Permissions(allowances))


async def _done(awaitable: Any) -> Any:
    return await awaitable


def _message(message: Any) -> dict[str, Any]:
    """Return what a polled message has, whether its fields are methods or properties."""
    shown: dict[str, Any] = {"payload": bytes(message.payload()).hex()}
    for name in ("offset", "timestamp", "id", "checksum", "length", "partition_id"):
        if hasattr(message, name):
            shown[name] = getattr(message, name)()
    if hasattr(message, "user_headers"):
        headers = message.user_headers()
        shown["headers"] = headers if headers is None else dict(headers.to_scalar_dict())
    return shown


def _shown(value: Any) -> Any:
    """Return *value* as what JSON has: an object becomes its public fields."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    names = [name for name in dir(value) if not name.startswith("_")]
    fields = {name: getattr(value, name) for name in names}
    if any(type(field) is type(value) for field in fields.values()):
        return str(value)  # an enumeration
    return {name: _shown(field) for name, field in fields.items() if not callable(field)}


KINDS = {
    "iggy-py": IggyPy,
    "apache-iggy-classic": ApacheIggy,
    "apache-iggy-vsr": ApacheIggyVsr,
}


async def _serve(kind: str, address: str) -> None:
    driven = KINDS[kind](address)
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        request = json.loads(line)
        try:
            method = getattr(driven, request["call"])
            answer = {"value": await method(*request.get("args", ()), **request["with"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
