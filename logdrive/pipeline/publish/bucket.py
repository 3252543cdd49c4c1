"""Objects below one address of a store that speaks S3's protocol, by their names there."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyarrow.fs import FileSelector, FileSystem, FileType, S3FileSystem

from logdrive.errors import ConfigError, Mistake, StorageError, os_error_text
from logdrive.model.units import MIB

_SCHEME: Final = "s3://"
_ADDRESS: Final = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/@]+)*/?")
_URL: Final = re.compile(r"(https?)://([^/@]+)/?", re.IGNORECASE)
_AT_ONCE: Final = 4 * MIB  # bytes of a file that are in memory at a time
_REMEDIES: Final = {
    "NO_SUCH_BUCKET": "make the bucket first",
    "ACCESS_DENIED": "the keys (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or a profile) must be "
    "allowed to list, read, write and delete there",
    "NETWORK_CONNECTION": "is --endpoint right, and can it be reached from here?",
}
"""By what the message of an error has in it."""


class Bucket:
    """The objects below *root* of *files*; *address* is what users call that place.

    All methods raise `StorageError`. An object is there whole or not at all.
    """

    def __init__(self, files: FileSystem, root: str, address: str) -> None:
        self._files = files
        self._root = root
        self.address = address

    def check_bucket(self) -> None:
        """Raise `StorageError` if there is no such bucket, or it can't be asked."""
        bucket = self._root.partition("/")[0]
        with self._named(""):
            (info,) = self._files.get_file_info([bucket])
        if info.type == FileType.NotFound:
            raise StorageError(f"there is no bucket {bucket}: make it first")

    def list_objects(self, below: str) -> dict[str, int]:
        """Return the names of all objects below *below*, relative to it, and their bytes."""
        place = self._path(below)
        with self._named(below):
            selector = FileSelector(place, recursive=True, allow_not_found=True)
            found: list[Any] = self._files.get_file_info(selector)
        return {
            info.path[len(place) + 1 :]: info.size for info in found if info.type == FileType.File
        }

    def list_places(self, below: str) -> list[str]:
        """Return the names of what has objects below it, directly below *below*, in their order."""
        with self._named(below):
            selector = FileSelector(self._path(below), allow_not_found=True)
            found: list[Any] = self._files.get_file_info(selector)
        return sorted(info.base_name for info in found if info.type == FileType.Directory)

    def read_object(self, name: str) -> bytes | None:
        """Return the bytes of an object, which must be few; None if there is none."""
        with self._named(name):
            (info,) = self._files.get_file_info([self._path(name)])
            if info.type != FileType.File:
                return None
            with self._files.open_input_stream(self._path(name)) as source:
                return bytes(source.read())

    def put_bytes(self, name: str, data: bytes) -> None:
        """Write an object of *data*."""
        with self._named(name), self._writing(name) as target:
            target.write(data)

    def put_file(self, name: str, path: str) -> None:
        """Write an object with the bytes of the file at *path*. Raises FileNotFoundError, too."""
        try:
            source = open(path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(f"{path} can't be read: {os_error_text(error)}") from error
        with source, self._named(name), self._writing(name) as target:
            shutil.copyfileobj(source, target, _AT_ONCE)

    def delete_object(self, name: str) -> None:
        """Delete an object."""
        with self._named(name):
            self._files.delete_file(self._path(name))

    @contextmanager
    def _writing(self, name: str) -> Iterator[Any]:
        target = self._files.open_output_stream(self._path(name))
        try:
            yield target
        except BaseException:
            # closing is all that the library offers, and makes an object of what it has got so far
            with suppress(OSError):
                target.close()
                self._files.delete_file(self._path(name))
            raise
        target.close()

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Name the object in the error that is raised inside, and what to do about it."""
        try:
            yield
        except OSError as error:
            text = str(error)
            remedy = next((remedy for code, remedy in _REMEDIES.items() if code in text), None)
            raise StorageError(
                f"{self.address}/{name}: {text}{f'; {remedy}' if remedy else ''}"
            ) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def open_bucket(address: str, *, endpoint: str | None, region: str | None) -> Bucket:
    """Return the bucket at *address*, `s3://bucket/prefix`; nothing is asked of it yet.

    *endpoint* is the URL of a store that is not Amazon's. Raises `ConfigError`.
    """
    if _ADDRESS.fullmatch(address) is None:
        raise ConfigError("TO", [Mistake("", "", "an address such as s3://bucket/logs")])
    place = address.removeprefix(_SCHEME).rstrip("/")
    url = _URL.fullmatch(endpoint) if endpoint else None
    if endpoint and url is None:
        raise ConfigError(
            "--endpoint", [Mistake("", endpoint, "a URL such as https://minio.example.org:9000")]
        )
    options: dict[str, Any] = {"region": region}
    if url is not None:
        options = {"endpoint_override": url[2], "scheme": url[1].lower()}
        options["region"] = region or "us-east-1"
    try:
        files = S3FileSystem(**options)
    except OSError as error:
        raise StorageError(f"{address}: {error}") from error
    return Bucket(files, place, f"{_SCHEME}{place}")
