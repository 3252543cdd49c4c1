"""A headless Chromium, spoken to over two pipes in its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/: JSON messages that end with a zero byte. The
browser reads them from its descriptor 3 and writes to 4.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SECONDS = 60.0  # limit on the wait for an answer
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the browser's program, if it is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Page:
    """One tab of the browser."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._number = 0
        self._data = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        """What the page said on the console, and errors."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call *method* of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, file: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Show *file* in a window of this size, as on a phone, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2,
            mobile=True,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.as_uri())
        while self.evaluate("document.readyState + location.protocol") != "completefile:":
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Return the value of *expression* in JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    def print_pdf(self, **options: Any) -> bytes:
        """Return the page as a PDF, in A4 unless *options* say otherwise."""
        paper = {"paperWidth": 8.27, "paperHeight": 11.69}
        return base64.b64decode(self.call("Page.printToPDF", **(paper | options))["data"])

    def screenshot(self) -> bytes:
        """Return a picture of the whole page, in PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _next_message(self) -> dict[str, Any]:
        limit = time.monotonic() + _SECONDS
        while b"\0" not in self._data:
            ready, _, _ = select.select([self._reading], [], [], max(0, limit - time.monotonic()))
            assert ready, "the browser does not answer"
            received = os.read(self._reading, 1 << 16)
            assert received, "the browser ended"
            self._data += received
        message, _, self._data = self._data.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        complaining = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        failed = ("Network.loadingFailed",)
        if event.get("method") in (*complaining, *failed):
            self.complaints.append(json.dumps(event["params"]))


@contextmanager
def open_page(program: str, directory: Path) -> Iterator[Page]:
    """Yield a page of a new browser, whose files are in *directory*."""
    for_browser, writing = os.pipe()
    reading, of_browser = os.pipe()
    command = [
        program,
        "--headless=new",
        "--no-sandbox",  # there is none in a container
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        f"--user-data-dir={directory}",
        "--remote-debugging-pipe",
    ]

    def give_pipes() -> None:
        # by way of other numbers: one of the pipes may be 3 or 4 itself
        low, high = os.dup(for_browser), os.dup(of_browser)
        os.dup2(low, 3)
        os.dup2(high, 4)

    browser = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=give_pipes,
    )
    try:
        os.close(for_browser)
        os.close(of_browser)
        page = Page(reading, writing)
        yield page
    finally:
        browser.terminate()
        browser.wait(30)
        os.close(writing)
        os.close(reading)
