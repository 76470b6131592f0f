"""The local server: what it serves, what it refuses, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

import anyseq.play
from anyseq.play import PlayServer
from anyseq.play.server import LONGEST_BODY, page_files

PAGE = Path(anyseq.play.__file__).parent / "page"
SAYS = '{"tokens": 3, "pattern": "full"}'


@pytest.fixture(scope="module")
def server() -> Iterator[PlayServer]:
    with PlayServer() as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def asked(
    server: PlayServer,
    path: str,
    *,
    method: str = "GET",
    body: str | bytes | None = None,
    **headers: str | None,
) -> tuple[HTTPResponse, bytes]:
    """The answer; a header given as None is left out."""
    named: dict[str, str | None] = {"Host": f"127.0.0.1:{server.server_port}"}
    if body is not None:
        content = body.encode() if isinstance(body, str) else body
        named |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in named.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(None if body is None else content)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer, read


def refused(server: PlayServer, status: int, path: str, **options: Any) -> str:
    answer, content = asked(server, path, **options)
    assert answer.status == status, content
    assert answer.getheader("Content-Type") == "application/json"
    assert answer.getheader("Access-Control-Allow-Origin") is None
    return "" if options.get("method") == "HEAD" else str(json.loads(content)["error"])


def raw(server: PlayServer, message: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_every_file_of_the_page_is_served_as_it_is(server: PlayServer) -> None:
    for file in PAGE.rglob("*.*"):
        path = "/" + file.relative_to(PAGE).as_posix()
        answer, content = asked(server, path)
        assert answer.status == 200
        assert (content == file.read_bytes()) == (path != "/server.js")
        assert "unsafe" not in str(answer.getheader("Content-Security-Policy"))
        assert "default-src 'none'" in str(answer.getheader("Content-Security-Policy"))
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Cache-Control") == "no-store"
        assert answer.getheader("Access-Control-Allow-Origin") is None
    assert asked(server, "/")[1] == (PAGE / "index.html").read_bytes()
    assert b"ANYSEQ_SERVER = true" in asked(server, "/server.js")[1]
    assert len(page_files()) == 1 + len([*PAGE.rglob("*.*")])


def test_the_page_names_only_files_that_are_served() -> None:
    text = (PAGE / "index.html").read_text()
    named = [part.partition('"')[0] for part in text.split('src="')[1:]]
    named += [part.partition('"')[0] for part in text.split('rel="stylesheet" href="')[1:]]
    assert named
    assert {"/" + name for name in named} <= set(page_files())


@pytest.mark.parametrize(
    "path",
    [
        "/server.py",
        "/../server.py",
        "/%2e%2e/server.py",
        "/networks/../../server.py",
        "//etc/passwd",
        "/etc/passwd",
        "/networks/",
        "/networks",
        "/index.html?",
        "/index.html/",
        "/api",
        "/\\..\\server.py",
        "/..%5cserver.py",
        "*",
        "http://127.0.0.1/index.html",
    ],
)
def test_nothing_else_can_be_reached(server: PlayServer, path: str) -> None:
    assert "no such file" in refused(server, 404, path)
    assert "/api/check" in refused(server, 404, path, method="POST", body=SAYS)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil.example", "", None],
)
def test_another_host_is_refused(server: PlayServer, host: str | None) -> None:
    assert "host" in refused(server, 403, "/", Host=host)
    assert "host" in refused(server, 403, "/api/check", method="POST", body=SAYS, Host=host)


def test_two_hosts_are_refused(server: PlayServer) -> None:
    here = f"127.0.0.1:{server.server_port}"
    message = f"GET / HTTP/1.1\r\nHost: {here}\r\nHost: evil.example\r\n\r\n".encode()
    assert b" 403 " in raw(server, message).splitlines()[0]


def test_another_origin_is_refused(server: PlayServer) -> None:
    here = f"127.0.0.1:{server.server_port}"
    others = ["http://evil.example", "null", f"https://{here}", "http://127.0.0.1", ""]
    others.append(f"http://localhost:{server.server_port}")  # another one than its host
    for origin in others:
        said = refused(server, 403, "/api/check", method="POST", body=SAYS, Origin=origin)
        assert "origin" in said
    for host in (here, f"localhost:{server.server_port}"):
        answer, _ = asked(
            server, "/api/check", method="POST", body=SAYS, Host=host, Origin=f"http://{host}"
        )
        assert answer.status == 200


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: PlayServer, method: str) -> None:
    refused(server, 405, "/", method=method)
    refused(server, 405, "/api/check", method=method)
    assert asked(server, "/api/check", method=method)[0].getheader("Allow") == "POST"


def test_methods_are_for_their_own_paths(server: PlayServer) -> None:
    assert "POST" in refused(server, 405, "/api/check")
    assert "GET" in refused(server, 405, "/index.html", method="POST", body=SAYS)
    assert b" 501 " in raw(server, b"FOO / HTTP/1.1\r\n\r\n").splitlines()[0]


def test_the_body_must_be_json_of_a_known_small_size(server: PlayServer) -> None:
    def post(status: int, **options: Any) -> str:
        return refused(server, status, "/api/check", method="POST", **options)

    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        assert "application/json" in post(415, body=SAYS, Content_Type=kind)
    for length in (None, "-1", "3.5", "²", "1 2"):
        encoded = None if length is None else length.encode("latin-1", "replace").decode("latin-1")
        assert "Content-Length" in post(411, body=SAYS, Content_Length=encoded)
    for length in (str(LONGEST_BODY + 1), "9" * 40):
        assert "bytes" in post(413, body=SAYS, Content_Length=length)
    chunked = "2\r\n{}\r\n0\r\n\r\n"
    assert "Content-Length" in post(411, body=chunked, Transfer_Encoding="chunked")
    for body in ("", "{", b"\xff\xfe", "[" * 30000, "1" * 5000):
        assert "JSON" in post(400, body=body)
    for body in ("[]", "1", "null"):
        assert "object" in post(400, body=body)


def test_rubbish_gets_an_answer_or_none(server: PlayServer) -> None:
    for message in (b"\r\n", b"GET\r\n\r\n", b"\x00\xff\xfe\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        first = raw(server, message).split(b"\r\n")[0]
        assert not first or b"error" in first or b" 4" in first or b" 5" in first
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n")
    assert asked(server, "/")[0].status == 200


def start(*options: str, **environment: str) -> subprocess.Popen[str]:
    code = "from anyseq.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "play", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_the_command_prints_its_url_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    with start("--no-browser") as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        url = line.split()[2]
        assert line == f"anyseq play: {url} (Ctrl-C stops it)\n"
        assert url.startswith("http://127.0.0.1:")
        port = int(url.rstrip("/").rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        second = subprocess.run(
            [*running.args[:-1], "--port", str(port)],  # type: ignore[index]
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 2
        assert second.stderr.startswith(f"anyseq: --port {port}: ")
        assert second.stderr.count("\n") == 1
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=30)
    assert (running.returncode, rest, errors) == (0, "stopped\n", "")


def test_ctrl_c_stops_it_while_it_computes() -> None:
    formula = "+".join(["sum(sin(x*x[i]+x))"] * 15)
    slow = json.dumps({"formula": formula, "tokens": 6, "tol": 200.0}).encode()
    with start("--no-browser") as running:
        assert running.stdout is not None
        port = int(running.stdout.readline().split()[2].rstrip("/").rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/api/approximate", slow, {"Content-Type": "application/json"})
        sleep(0.3)  # it computes
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=30)
        connection.close()
    assert (running.returncode, rest, errors) == (0, "stopped\n", "")


def test_the_command_opens_the_browser(tmp_path: Path) -> None:
    """BROWSER names a program of ours, which notes what it was told to open."""
    note, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {note}.part && mv {note}.part {note}\n')
    program.chmod(0o755)
    with start(BROWSER=f"{program} %s") as running:
        assert running.stdout is not None
        url = running.stdout.readline().split()[2]
        for _ in range(200):
            if note.exists():
                break
            sleep(0.05)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert note.read_text().strip() == url
    assert running.returncode == 0


def test_a_port_that_is_none_is_refused() -> None:
    with start("--port", "99999") as running:
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 2
    assert "--port 99999: expected" in errors
