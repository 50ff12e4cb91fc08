"""A headless Chromium, talked to by the protocol of its developer tools."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0",
)  # fmt: skip
_KEYS = {"Tab": 9, "Enter": 13, "Space": 32}
_SECONDS = 20.0


class ScriptFailed(Exception):
    """An expression has thrown."""


class Page:
    """One page. `complaints`: what the browser has said of errors, dialogs and what the page's policy forbade."""

    def __init__(self, socket: WebSocketClientConnection, session: str) -> None:
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        while (text := await self._socket.read_message()) is not None:
            message = json.loads(text)
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
            else:
                self._hear(message["method"], message.get("params", {}))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {params['message']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {params['exceptionDetails']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"log: {params['entry']['text']}")

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params, "sessionId": self._session}
        await self._socket.write_message(json.dumps(message))
        found = await asyncio.wait_for(answer, _SECONDS)
        assert "error" not in found, found
        result: dict[str, Any] = found["result"]
        return result

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited. Errors: ScriptFailed."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise ScriptFailed(found["exceptionDetails"])
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Return when the expression is true; AssertionError when it is not in time."""
        end = monotonic() + _SECONDS
        while True:
            with contextlib.suppress(ScriptFailed):
                if await self.evaluate(f"!!({expression})"):
                    return
            assert monotonic() < end, f"{expression}; the page has {await self.text()}; {self.complaints}"
            await asyncio.sleep(0.05)

    async def text(self) -> str:
        """What can be read."""
        found: str = await self.evaluate("document.body.innerText")
        return found

    async def reads(self, text: str) -> None:
        """Wait until the text can be read."""
        await self.until(f"document.body.innerText.includes({json.dumps(text)})")

    async def press(self, key: str, modifiers: int = 0) -> None:
        told = {
            "key": " " if key == "Space" else key,
            "code": key,
            "windowsVirtualKeyCode": _KEYS[key],
            "modifiers": modifiers,
        }
        if key == "Enter":
            told["text"] = "\r"
        await self.send("Input.dispatchKeyEvent", type="keyDown", **told)
        await self.send("Input.dispatchKeyEvent", type="keyUp", **told)

    async def type(self, text: str) -> None:
        """Into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def focused(self) -> str:
        """The tag and the text, or the id, of what has the focus."""
        found: str = await self.evaluate(
            "(e => e.tagName + ' ' + (e.id || e.textContent))(document.activeElement ?? document.body)"
        )
        return found

    async def picture(self) -> bytes:
        """A PNG."""
        return base64.b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])


@contextlib.asynccontextmanager
async def browser_page(directory: Path) -> AsyncIterator[Page]:
    """A page of a browser of its own, which keeps its profile in the directory."""
    assert PROGRAM is not None, "there is a browser"
    profile = directory / "profile"
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        try:
            socket = await websocket_connect(await _address(profile / "DevToolsActivePort"), max_message_size=64 << 20)
        except BaseException:
            process.kill()
            raise
        async with _attached(socket) as page:
            yield page
    finally:
        # One that was asked to has waited for its own processes when it ends.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _SECONDS)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _address(file: Path) -> str:
    """Where the browser listens, which it writes down."""
    end = monotonic() + _SECONDS
    while not (file.exists() and len(lines := file.read_text().splitlines()) == 2):
        assert monotonic() < end, "the browser does not start"
        await asyncio.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


@contextlib.asynccontextmanager
async def _attached(socket: WebSocketClientConnection) -> AsyncIterator[Page]:
    async def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
        await socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(await socket.read_message() or "null")
            if message.get("id") == number:
                found: dict[str, Any] = message["result"]
                return found

    target = await ask(-1, "Target.createTarget", url="about:blank")
    attached = await ask(-2, "Target.attachToTarget", targetId=target["targetId"], flatten=True)
    page = Page(socket, attached["sessionId"])
    listening = asyncio.create_task(page.listen())
    try:
        for domain in ("Page", "Runtime", "Log"):
            await page.send(f"{domain}.enable")
        yield page
    finally:
        listening.cancel()
        await asyncio.wait((listening,))
        await socket.write_message(json.dumps({"id": -3, "method": "Browser.close"}))
