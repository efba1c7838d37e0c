"""A headless browser for tests of pages: any width, light or dark, by Chromium's DevTools protocol.

The protocol travels over a pair of pipes, so that no port and no further package is needed.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    "",
)
PHONE, DESKTOP = 390, 1280
"""Widths in pixels."""

CUT = """
(root => {
  const width = document.documentElement.clientWidth, found = [];
  if (document.documentElement.scrollWidth > width)
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of document.querySelectorAll(`${root} *`)) {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    if (!box.width || !box.height || style.visibility === "hidden" || style.position === "fixed") continue;
    let [left, right, scrolls] = [0, width, false];
    for (let parent = node.parentElement; parent && !scrolls; parent = parent.parentElement) {
      const overflow = getComputedStyle(parent).overflowX;
      scrolls = overflow === "auto" || overflow === "scroll";
      if (overflow === "hidden" || overflow === "clip") {
        const around = parent.getBoundingClientRect();
        [left, right] = [Math.max(left, around.left), Math.min(right, around.right)];
      }
    }
    if (!scrolls && (box.right > right + 1 || box.left < left - 1))
      found.push(`${node.tagName} ${node.id || node.getAttribute("class") || ""} ${node.textContent.slice(0, 40)}: ` +
                 `${Math.round(box.left)} to ${Math.round(box.right)}`);
  }
  return found;
})
"""
"""Names what reaches beyond the window, or beyond what hides the rest of it, and cannot be scrolled to."""

_FORGET = "try { localStorage.clear(); sessionStorage.clear(); } catch {}"


class Browser:
    """A page in Chromium.

    Parameters
    ----------
    process
        Chromium, with the pipe of DevTools.
    into, out_of
        The ends of its pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes], into: int, out_of: int) -> None:
        self._process, self._into, self._out_of = process, into, out_of
        self._number, self._rest, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self._call("Page.enable")
        # ignore choices that a page has stored, for example of colours
        self._call("Page.addScriptToEvaluateOnNewDocument", source=_FORGET)

    def open(
        self, address: str, width: int = DESKTOP, height: int = 900, dark: bool = False
    ) -> None:
        """Open a page in a window of this size, and wait until it and its pictures are loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self._call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._events.append(self._receive())

    def ask(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript; a promise is waited for."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, selector: str = "") -> np.ndarray:
        """Return the pixels of the window, or of all of an element, shape (height, width, 3)."""
        options: dict[str, Any] = {}
        if selector:
            box = self.ask(
                f"(b => ({{x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height, scale: 1}}))"
                f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
            )
            options = {"clip": box, "captureBeyondViewport": True}
        data = base64.b64decode(self._call("Page.captureScreenshot", **options)["data"])
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._out_of, 2**20)
            assert read, f"the browser has ended with {self._process.wait()}"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


def paper_and_contrast(picture: np.ndarray) -> tuple[float, float]:
    """Return the luminance of the most common colour, and the contrast (WCAG 2) of what differs most from it."""
    share = np.arange(256) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    luminances = linear[picture[::2, ::2]] @ (0.2126, 0.7152, 0.0722)
    counts, edges = np.histogram(luminances, 100, (0.0, 1.0))
    paper = float(edges[counts.argmax()])
    low, high = np.quantile(luminances, (0.001, 0.999))
    return paper, float(max((high + 0.05) / (paper + 0.05), (paper + 0.05) / (low + 0.05)))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start Chromium with a profile in this folder."""
    (theirs_in, into), (out_of, theirs_out) = os.pipe(), os.pipe()
    # Chromium reads from descriptor 3 and writes to 4; a shell moves ours there
    start = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium", CHROMIUM]
    start += ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    start += ["--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"]
    process = subprocess.Popen(
        start,
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(process, into, out_of)
    finally:
        os.close(into)  # which ends it as well
        os.close(out_of)
        process.kill()
        process.wait()
