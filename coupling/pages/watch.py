"""A local web page that follows a training: curves, workers, and a live image of a flow.

The page is served only on this machine (127.0.0.1), at an address that cannot be guessed, and only to requests whose
Host header is this address, so that neither other users nor pages of other sites have access. It is read-only. Its
content is read from the run's folder; the flow is that of worker 0, which writes images while the page requests them
(:mod:`coupling.worker.window`).
"""

import contextlib
import csv
import io
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import numpy as np
from PIL import Image

from coupling.errors import ConfigError, RunError, describe_os_error
from coupling.files import private_opener
from coupling.run.folder import RunFolder
from coupling.run.status import read_status
from flowsim.render.fields import draw_panel
from flowsim.render.snapshot import unpack_glimpse

__all__ = ["Watch", "serve"]

LOOPBACK = "127.0.0.1"
CURVES = {
    "episodes": ("return", "length"),
    "statistics": ("steps_per_second", "beta", "far_fraction", "kl", "policy_std", "value_loss"),
}
"""Columns that are plotted against environment steps, if the tables have them."""

_POINTS = 300  # maximum number of points of a curve
_WIDTH = 640
_OLD = 10.0  # seconds after which an image is labelled as old


class _Tail:
    """A growing CSV table, of which only new rows are read."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._read = path, (0, 0), 0
        self._header: list[str] = []
        self.rows: list[list[str]] = []

    def update(self) -> None:
        """Read the new rows, or the whole file if it was replaced."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            there = self._path.stat()
            if (there.st_dev, there.st_ino) != self._file or there.st_size < self._read:
                self._file, self._read, self.rows, self._header = (
                    (there.st_dev, there.st_ino),
                    0,
                    [],
                    [],
                )
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for row in csv.reader(io.StringIO(whole.decode("utf-8", "replace"))):
            if not self._header:
                self._header = row
            elif len(row) == len(self._header):
                self.rows.append(row)

    def curves(self, names: tuple[str, ...]) -> dict[str, list[list[float]]]:
        """Return steps and values of the columns that exist, averaged to at most ``_POINTS`` points."""
        if not self.rows or "environment_steps" not in self._header:
            return {}
        found = {}
        columns = list(zip(*self.rows, strict=True))
        steps = _numbers(columns[self._header.index("environment_steps")])
        groups = np.array_split(np.arange(len(steps)), min(_POINTS, len(steps)))
        for name in names:
            if name not in self._header:
                continue
            values = _numbers(columns[self._header.index(name)])
            points = [[float(steps[group].mean()), float(values[group].mean())] for group in groups]
            found[name] = [point for point in points if np.isfinite(point).all()]
        return found


def _numbers(words: Iterable[str]) -> np.ndarray:
    """Convert a column to numbers; invalid entries become NaN and are not plotted."""

    def number(word: str) -> float:
        try:
            return float(word or "nan")
        except ValueError:
            return np.nan

    return np.array([number(word) for word in words])


class Watch:
    """Content of the page of a run.

    Parameters
    ----------
    folder
        Folder of the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._tables = {"episodes": _Tail(folder.episodes), "statistics": _Tail(folder.statistics)}
        self._lock = threading.Lock()

    def page(self, nonce: str) -> bytes:
        """Return the HTML page; only scripts and styles with this nonce are allowed."""
        template = resources.files("coupling.pages").joinpath("watch.html").read_text("utf-8")
        environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        return (
            environment.from_string(template)
            .render(run=self._folder.path.name, nonce=nonce)
            .encode()
        )

    def state(self) -> bytes:
        """Return status and curves as JSON; without a status file, the state says that the training has not begun."""
        with self._lock:
            for table in self._tables.values():
                table.update()
            curves: dict[str, Any] = {}
            for name, table in self._tables.items():
                curves |= table.curves(CURVES[name])
        try:
            status = read_status(self._folder.status)
        except (OSError, RunError):
            status = {"state": "has not begun"}
        return json.dumps({"status": status, "curves": curves}).encode()

    def flow(self) -> bytes | None:
        """Return an image of the flow as JPEG and request the next one from the run; None if there is no image."""
        # the request fails in the run of another user, but an existing image can still be shown
        with contextlib.suppress(OSError):
            os.close(private_opener(str(self._folder.watch), os.O_CREAT | os.O_WRONLY))
            os.utime(self._folder.watch)
        try:
            age = time.time() - self._folder.flow.stat().st_mtime
            scene, caption = unpack_glimpse(self._folder.flow.read_bytes())
        except (OSError, ValueError):
            return None
        old = "" if age < _OLD else f", as it was {age:.0f} s ago"
        caption = replace(caption, title=f"agent 0 of {self._folder.path.name}{old}")
        file = io.BytesIO()
        Image.fromarray(draw_panel(scene, caption, _WIDTH)).save(
            file, "JPEG", quality=92, subsampling=0
        )
        return file.getvalue()

    def forget(self) -> None:
        """Stop requesting images from the run."""
        with contextlib.suppress(OSError):
            self._folder.watch.unlink(missing_ok=True)


class _Server(ThreadingHTTPServer):
    """A server that says nothing of connections which a browser closes or resets."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of a request, unless its connection has ended."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serve(folder: RunFolder, port: int = 0) -> Iterator[str]:
    """Serve the page of a run on this machine while the context is active; yield its address.

    Parameters
    ----------
    folder
        Folder of the run.
    port
        Port on 127.0.0.1; any free one by default.

    Raises
    ------
    ConfigError
        If the port cannot be opened.
    """
    watch, token = Watch(folder), secrets.token_urlsafe(24)
    try:
        server = _Server((LOOPBACK, port), _handler(watch, token))
    except OSError as error:
        raise ConfigError(f"--port {port} cannot be opened: {describe_os_error(error)}") from error
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/{token}/"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
        watch.forget()


def _handler(watch: Watch, token: str) -> type[BaseHTTPRequestHandler]:
    """Return the request handler class, which supports GET only."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, timeout = "HTTP/1.1", 30.0

        def do_GET(self) -> None:
            if self._refusal():
                self._answer(
                    HTTPStatus.FORBIDDEN, b"this page is for this machine alone\n", "text/plain"
                )
                return
            _, given, *rest = (*urlsplit(self.path).path.split("/", 2), "", "")
            if not secrets.compare_digest(given.encode(), token.encode()):
                self._answer(HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain")
            elif rest[0] == "":
                nonce = secrets.token_urlsafe(16)
                self._answer(HTTPStatus.OK, watch.page(nonce), "text/html; charset=utf-8", nonce)
            elif rest[0] == "state":
                self._answer(HTTPStatus.OK, watch.state(), "application/json")
            elif rest[0] == "flow" and (picture := watch.flow()) is not None:
                self._answer(HTTPStatus.OK, picture, "image/jpeg")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain")

        def _refusal(self) -> bool:
            """Return whether to refuse the request: another Host (DNS rebinding), or a page of another site."""
            port = self.connection.getsockname()[1]
            hosts = {f"{LOOPBACK}:{port}", f"localhost:{port}"}
            foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
            return foreign or self.headers.get_all("Host", []) not in [[host] for host in hosts]

        def _answer(self, status: HTTPStatus, content: bytes, kind: str, nonce: str = "") -> None:
            self.send_response(status)
            policy = "default-src 'none'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
            policy += f"; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'" if nonce else ""
            for name, value in {
                "Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-store",
                "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
            }.items():  # fmt: skip
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the page was closed
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: the page sends several requests per second, and the address must not appear in logs."""

    return Handler
