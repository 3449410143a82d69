"""Drive a real browser with the standard library alone: the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# The browser reads commands on descriptor 3 and answers on 4; this moves ours there and becomes the browser.
_LAUNCH = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_PATIENCE = 60.0  # seconds for one answer: far more than any needs, so that only a hang ends here


def find() -> str | None:
    """The browser on this machine, if there is one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Browser:
    """One browser with a new, empty profile."""

    def __init__(self, program: str, profile: Path) -> None:
        commands, self._to = _high_pipe()
        self._from, answers = _high_pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(commands), str(answers), program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        try:
            target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
            attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        os.close(self._to)  # a closed pipe ends the browser
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command to the page and wait for its answer; events on the way are kept."""
        return self._call(method, parameters)

    def open(
        self, path: Path, width: int = 1200, height: int = 900, media: str = "screen", scheme: str = "light"
    ) -> None:
        """Load a file in a window of this size."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._receive()

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Save what is seen, or the whole page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def pdf(self) -> bytes:
        """Print the page as its own style asks."""
        self.call("Emulation.clearDeviceMetricsOverride")
        self.call("Emulation.setEmulatedMedia", media="print")
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])

    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors and warnings of the console: policy violations, exceptions, failed loads."""
        wanted = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}
        return [event["params"] for event in self.events if event.get("method") in wanted]

    def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._from, 1 << 20) if ready else b""
            if not chunk:
                raise AssertionError("the browser " + ("ended" if ready else "does not answer"))
            self._buffer += chunk
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message


def _high_pipe() -> tuple[int, int]:
    """A pipe whose ends lie above 4, where the launcher's own copies will not fall on them."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
