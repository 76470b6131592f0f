"""The page on this machine only, with the library behind it.

Bound to 127.0.0.1. Every request must name this server as its host, and as its origin if it names
one: pages of other places cannot ask through the reader's browser, whatever name they give to
127.0.0.1. GET serves an explicit list of files, read once, and POST two functions; nothing else can
be reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from anyseq.errors import AnyseqError
from anyseq.play.api import TookTooLong, approximate_function, check_design

ADDRESS = "127.0.0.1"
LONGEST_BODY = 64 * 1024
PATIENCE = 20.0  # seconds that a client may take to say what it wants
WAIT = 60.0  # seconds that a question waits for the one before it

_PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_WITH_SERVER = b'"use strict";\nwindow.ANYSEQ_SERVER = true;\n'
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_API: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "/api/check": check_design,
    "/api/approximate": approximate_function,
}


class PlayServer(ThreadingHTTPServer):
    """Serves the page at `url` until `shutdown` is called. port: 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = 0) -> None:
        super().__init__((ADDRESS, port), _Handler)
        self.files = page_files()
        self.one_at_a_time = Lock()
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def busy(self) -> bool:
        """Whether a question is being answered."""
        return self.one_at_a_time.locked()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours, and is not reported."""


def page_files() -> dict[str, tuple[str, bytes]]:
    """By path: the type and the content of each file of the page."""
    found = {}
    for file in sorted(_PAGE.rglob("*")):
        if file.is_file() and file.suffix in _TYPES:
            path = "/" + file.relative_to(_PAGE).as_posix()
            found[path] = (_TYPES[file.suffix], file.read_bytes())
    found["/"] = found["/index.html"]
    found["/server.js"] = (_TYPES[".js"], _WITH_SERVER)
    return found


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status, self.reason, self.headers = status, reason, headers


class _Handler(BaseHTTPRequestHandler):
    server: PlayServer
    timeout = PATIENCE
    server_version, sys_version = "anyseq", ""

    def do_GET(self) -> None:
        self._answer(self._file)

    def do_POST(self) -> None:
        self._answer(self._ask)

    def _other(self) -> None:
        self._answer(self._no_method)

    do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _other

    def _no_method(self) -> tuple[str, bytes]:
        allowed = "POST" if self.path in _API else "GET"
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"expected {allowed}", Allow=allowed)

    def _file(self) -> tuple[str, bytes]:
        if self.path in _API:
            return self._no_method()
        if self.path not in self.server.files:
            raise _Refused(HTTPStatus.NOT_FOUND, "there is no such file in the page")
        return self.server.files[self.path]

    def _ask(self) -> tuple[str, bytes]:
        if self.path not in _API:
            if self.path in self.server.files:
                return self._no_method()
            raise _Refused(HTTPStatus.NOT_FOUND, f"expected {' or '.join(_API)}")
        body = self._body()
        if not self.server.one_at_a_time.acquire(timeout=WAIT):
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, "busy with another question; try later")
        try:
            answer = _API[self.path](body)
        except TookTooLong as problem:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, str(problem)) from None
        except AnyseqError as problem:
            raise _Refused(HTTPStatus.BAD_REQUEST, " ".join(str(problem).split())) from None
        finally:
            self.server.one_at_a_time.release()
        return "application/json", json.dumps(answer, allow_nan=False).encode()

    def _body(self) -> Mapping[str, Any]:
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(length) > 9 or int(length) > LONGEST_BODY:
            reason = f"expected at most {LONGEST_BODY:,} bytes"
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            body = json.loads(self.rfile.read(int(length)).decode())
        except (ValueError, RecursionError):
            raise _Refused(HTTPStatus.BAD_REQUEST, "expected JSON in UTF-8") from None
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return body

    def _check_asker(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            raise _Refused(HTTPStatus.FORBIDDEN, f"expected the host {ADDRESS} and this port")
        for origin in self.headers.get_all("Origin", []):
            if origin.lower() != f"http://{hosts[0].lower()}":
                raise _Refused(HTTPStatus.FORBIDDEN, "asked by a page of another origin")

    def _answer(self, find: Callable[[], tuple[str, bytes]]) -> None:
        self.close_connection = True
        try:
            self._check_asker()
            kind, content = find()
        except _Refused as refused:
            self._refuse(refused)
        except TimeoutError:
            self._refuse(_Refused(HTTPStatus.REQUEST_TIMEOUT, "the question came too slowly"))
        except Exception as problem:
            reason = f"an error of anyseq's own, {type(problem).__name__}; please report it"
            self._refuse(_Refused(HTTPStatus.INTERNAL_SERVER_ERROR, reason))
        else:
            self._send(HTTPStatus.OK, kind, content, {})

    def _refuse(self, refused: _Refused) -> None:
        content = json.dumps({"error": refused.reason}).encode()
        self._send(refused.status, "application/json", content, refused.headers)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, more: Mapping[str, str]) -> None:
        self.send_response(status)
        sizes = {"Content-Type": kind, "Content-Length": str(len(content)), "Connection": "close"}
        for name, value in {**_HEADERS, **sizes, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library finds wrong with a request, said in JSON, too."""
        self.close_connection = True
        self._refuse(_Refused(HTTPStatus(code), message or HTTPStatus(code).phrase))

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing is logged: the page says what went wrong."""
