"""Drives a headless Chromium through its debugging protocol over a pipe, without a separate driver."""

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

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
DESKTOP = (1280, 800)
PHONE = (375, 740)
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def executable() -> str:
    """Find the browser; FileNotFoundError says what to install."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise FileNotFoundError("these tests need Chromium: install Debian's package `chromium`, or put one on PATH")


class Browser:
    """One page of a running browser. `reported` are the events it sent."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = os.fdopen(commands, "wb"), os.fdopen(answers, "rb")
        self._number, self._session = 0, ""
        self._buffer = b""
        self.reported: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)  # else only the newest tab may focus its fields

    def send(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._next()).get("id") != self._number:
            self.reported.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(
        self, page: Path | str, size: tuple[int, int] = DESKTOP, *, dark: bool = False, script: bool = True
    ) -> None:
        """Load a file or a URL in a window of this size."""
        width, height = size
        # the page before may follow a server that is gone, and its last complaints would come late
        self.reported.clear()
        self.send("Page.navigate", url="about:blank")
        self._wait_for_load()
        self.reported.clear()
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[scheme, still])
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        self.send("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self._wait_for_load()

    def follow(self, selector: str) -> None:
        """Click an element that leads to another page, and wait until that is loaded; TimeoutError if none is."""
        self.reported.clear()
        self.click(selector)
        self._wait_for_load()

    def enter(self, *, control: bool = False) -> None:
        """Press Enter, perhaps with Control, where that leads to another page, and wait until it is loaded."""
        self.reported.clear()
        self.press("Enter", control=control)
        self._wait_for_load()

    def until(self, condition: str) -> None:
        """Wait until a condition holds in the page, which may change but not be left.

        It is checked at every change and in every frame, since a field is focused without a change.
        """
        look = f"const look = () => {{ if ({condition}) done(true); }}"
        observe = "new MutationObserver(look).observe(document, {subtree: true, childList: true, attributes: true})"
        frame = "const frame = () => { look(); requestAnimationFrame(frame); }; frame()"
        waited = (
            f"new Promise(done => {{ {look}; {observe}; {frame}; setTimeout(() => done(false), {PATIENCE * 1000}); }})"
        )
        assert self.ask(waited), self.ask("document.body.innerText")

    def ask(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its value; RuntimeError if it throws."""
        outcome = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in outcome:
            raise RuntimeError(outcome["exceptionDetails"])
        return outcome["result"].get("value")

    def press(self, key: str, *, control: bool = False) -> None:
        """Press and release a key, one of `KEYS` or a character, with Control or without."""
        code = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper())),
            "modifiers": 2 * control,
        }
        text = {"text": "\r"} if key == "Enter" and not control else {}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.send("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click the middle of the first element that matches."""
        x, y = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', inline: 'center'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _wait_for_load(self) -> None:
        until = time.monotonic() + PATIENCE
        while not any(message.get("method") == "Page.loadEventFired" for message in self.reported):
            left = until - time.monotonic()
            if left < 0 or (b"\0" not in self._buffer and not select.select([self._answers], [], [], left)[0]):
                raise TimeoutError("no page was loaded")
            self.reported.append(self._next())

    def screenshot(self, to: Path) -> None:
        """Save the visible part as a PNG."""
        to.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def complaints(self) -> list[str]:
        """Return what the page logged: script errors, and whatever its policy blocked."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(message["params"]) for message in self.reported if message.get("method") in kinds]

    def requested(self) -> list[str]:
        """Return every address that the page requested."""
        sent = [message["params"] for message in self.reported if message.get("method") == "Network.requestWillBeSent"]
        return [message["request"]["url"] for message in sent]

    def referrers(self) -> list[str]:
        """Return the Referer of every request that had one."""
        sent = [message["params"] for message in self.reported if message.get("method") == "Network.requestWillBeSent"]
        headers = [message["request"]["headers"] for message in sent]
        return [header["Referer"] for header in headers if "Referer" in header]

    def close(self) -> None:
        """Close the pipe, on which the browser exits."""
        self._commands.close()
        self._answers.close()

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._answers.fileno(), 65536)
            if not read:
                raise RuntimeError("Chromium ended")
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run a browser with a fresh profile for the block."""
    # Chromium reads commands from descriptor 3 and answers on 4; a shell can redirect them
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    placed = f'exec "$@" 3<&{commands_out} 4>&{answers_in}'
    argv = ("bash", "-c", placed, "bash", executable(), *FLAGS, f"--user-data-dir={profile}")
    with subprocess.Popen(argv, pass_fds=(commands_out, answers_in), stderr=subprocess.DEVNULL) as process:
        os.close(commands_out)
        os.close(answers_in)
        tab = Browser(commands_in, answers_out)
        try:
            yield tab
        finally:
            tab.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
