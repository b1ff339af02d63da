"""Headless Chromium over the DevTools protocol, for checks of HTML pages.

Standard library only. Messages are JSON texts, each ended by a zero byte, on two pipes that
Chromium has as its file descriptors 3 and 4.
"""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TIMEOUT_S = 60.0
_ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# Plots lie in shadow trees, which a plain query does not enter.
_COUNT_IN_SHADOWS = """
((selector) => {
  const count = (tree) => [...tree.querySelectorAll("*")].reduce(
    (sum, element) => sum + (element.shadowRoot ? count(element.shadowRoot) : 0),
    tree.querySelectorAll(selector).length);
  return count(document);
})(%s)"""


@dataclass
class Page:
    """A loaded page: what its console said, and what it asked of the network."""

    _browser: "_Browser"
    _session: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def count(self, selector: str) -> int:
        """How many elements match a CSS selector, those in shadow trees included."""
        return self.evaluate(_COUNT_IN_SHADOWS % json.dumps(selector))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        parameters = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return self._call("Runtime.evaluate", parameters)["result"].get("value")

    def wait_for(self, selector: str, at_least: int) -> None:
        """Returns when so many elements match; raises TimeoutError when they never do."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while self.count(selector) < at_least:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{self.count(selector)} of {at_least} {selector} on the page")
            time.sleep(0.1)

    def _call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._browser.call(method, parameters, self._session, self._on_event)

    def _on_event(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "assert"):
                self.errors.append(json.dumps(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])


@contextmanager
def open_page(chromium: str, path: Path) -> Iterator[Page]:
    """Loads a local page with the network off."""
    with tempfile.TemporaryDirectory() as profile, _Browser.start(chromium, profile) as browser:
        target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        page = Page(browser, browser.call("Target.attachToTarget", attach)["sessionId"])
        for domain in ("Runtime", "Log", "Network", "Page"):
            page._call(f"{domain}.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        page._call("Network.emulateNetworkConditions", offline)
        page._call("Page.navigate", {"url": path.resolve().as_uri()})
        deadline_s = time.monotonic() + _TIMEOUT_S
        while page.evaluate("document.readyState") != "complete":
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{path} does not load")
            time.sleep(0.1)
        yield page


class _Browser:
    """The two pipes of a running Chromium."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands = commands
        self._replies = replies
        self._pending = b""
        self._last_id = 0

    @classmethod
    @contextmanager
    def start(cls, chromium: str, profile: str) -> Iterator["_Browser"]:
        """Starts Chromium with a profile of its own, and ends it."""
        their_input, our_output = os.pipe()
        our_input, their_output = os.pipe()
        # The shell puts the pipes where Chromium looks for them.
        redirect = f'exec "$@" 3<&{their_input} 4>&{their_output}'
        command = ["bash", "-c", redirect, "chromium", chromium, *_ARGUMENTS]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            pass_fds=(their_input, their_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        try:
            browser = cls(our_output, our_input)
            yield browser
            browser.call("Browser.close")
            process.wait(_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            os.close(our_output)
            os.close(our_input)

    def call(
        self,
        method: str,
        parameters: dict[str, Any] | None = None,
        session: str | None = None,
        on_event: Any = None,
    ) -> dict[str, Any]:
        """Sends a command and waits for its reply; events that arrive meanwhile go to on_event."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._receive()
            if reply.get("id") == self._last_id:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']['message']}")
                return reply["result"]
            if "method" in reply and on_event:
                on_event(reply)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            if not select.select([self._replies], [], [], _TIMEOUT_S)[0]:
                raise TimeoutError("Chromium does not answer")
            chunk = os.read(self._replies, 1 << 16)
            if not chunk:
                raise RuntimeError("Chromium ended")
            self._pending += chunk
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)
