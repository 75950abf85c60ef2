"""`cute-py explore`: the explorer in a browser, answered by this process; or written as pages."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cute_py.cli.output import Output, write
from cute_py.explore.answers import answer
from cute_py.explore.pages import PYODIDE, local_page, single, site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

HOST = "127.0.0.1"
LONGEST = 1 << 18  # bytes of a question, which may hold a table


def add_explore(command: ArgumentParser) -> None:
    """Add the arguments of `explore`."""
    command.set_defaults(run=_explore)
    command.add_argument(
        "-o",
        dest="output",
        metavar="DIR",
        help="write it to a folder, or to a file page.html; without it, a browser opens",
    )
    command.add_argument(
        "--runtime",
        metavar="DIR",
        type=Path,
        help=f"the folder of the npm package pyodide {PYODIDE}; without it, pages load Pyodide "
        "from its CDN",
    )


def _explore(given: Namespace) -> None:
    if given.output is None:
        _open()
        return
    if given.output.endswith((".html", ".htm")):
        write(single(given.runtime), given.output)
        return
    folder = Path(given.output)
    for name, content in site(given.runtime):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Output(str(folder))._refused(error.strerror) from None
        with Output(str(path)) as file:
            file.write(content)


def _open() -> None:
    """Open the explorer in a browser, and answer it until an interrupt."""
    import webbrowser

    with Local() as server, suppress(KeyboardInterrupt):
        print(f"The explorer is at {server.address}; Ctrl-C ends it.", flush=True)
        webbrowser.open(server.address)
        server.serve_forever()


# -- the server


class Local(ThreadingHTTPServer):
    """A server for one page and its questions, at `address`, which nobody else can guess."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.page = local_page().encode()
        self.path = f"/{secrets.token_urlsafe(16)}/"
        self.host = f"{HOST}:{self.server_port}"

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.host}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    """Answers the page at its address, and questions below it; nothing to other pages."""

    server: Local

    def do_GET(self) -> None:
        """Send the page."""
        if self.path == self.server.path and self._is_for_us():
            self._send(200, "text/html; charset=utf-8", self.server.page)
        else:
            self._send(404, "text/plain", b"")

    def do_POST(self) -> None:
        """Answer a state."""
        count = self.headers.get("Content-Length", "")
        known = self.path == f"{self.server.path}answer" and self._is_for_us()
        if not known or not count.isdecimal() or int(count) > LONGEST:
            self._send(404, "text/plain", b"")
            return
        try:
            state = json.loads(self.rfile.read(int(count)))
        except ValueError:
            state = None  # refused in words
        self._send(200, "application/json", json.dumps(answer(state)).encode())

    def _is_for_us(self) -> bool:
        """Return whether the request names this server: no other name leads here."""
        return self.headers.get("Host") == self.server.host

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *parts: Any) -> None:
        """Print nothing."""
