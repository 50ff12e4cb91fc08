"""What the port of the console bounds, and the files that it serves."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools import Distribution

from docstore.console import handlers
from docstore.console.assets import Assets
from docstore.console.server import LARGEST_BODY
from docstore.console.start import check_reach
from docstore.net.process import StartError
from docstore.net.tls.certificates import TlsCertificates
from docstore.options import NetworkOptions, Options, TlsOptions
from docstore.options.build import build_options
from docstore.options.values import ConsoleOptions, SecurityOptions, TlsMode
from tests.harness.certificates import Authority
from tests.harness.dispatching import command
from tests.harness.serving import LOOPBACK, run
from tests.unit.console.served import PASSWORD, console


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is closed, however that is."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_the_page_names_its_files_and_they_are_kept_for_ever() -> None:
    async def scenario() -> None:
        async with console() as served:
            page = await served.ask("/")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert page.headers["cache-control"] == "no-store"
            prefix = f"/assets/{Assets().version}"
            assert f'src="{prefix[1:]}/main.js"' in page.body.decode()
            for name, kind in (
                ("main.js", "text/javascript"),
                ("style.css", "text/css"),
                ("icon.svg", "image/svg+xml"),
            ):
                answer = await served.ask(f"{prefix}/{name}")
                assert (answer.status, answer.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
                assert "immutable" in answer.headers["cache-control"]

    run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/assets/VERSION/../__init__.py", "/assets/VERSION/%2e%2e/__init__.py", "/assets/VERSION/..%2f__init__.py",
        "/assets/VERSION/__init__.py", "/assets/VERSION/index.html", "/assets/0123456789abcdef/main.js",
        "/assets/VERSION//etc/passwd", "/assets/../server.py", "//etc/passwd", "/../../etc/passwd", "/index.html",
        "/assets/VERSION/", "/assets/", "/assets/VERSION/main.js%00",
    ],
)  # fmt: skip
def test_no_other_file_is_served(path: str) -> None:
    async def scenario() -> None:
        async with console() as served:
            answer = await served.ask(path.replace("VERSION", Assets().version))
            assert (answer.status, list(answer.told)) == (404, ["error"])

    run(scenario())


def test_a_long_body_is_not_read() -> None:
    async def scenario() -> None:
        async with console() as served:
            for length in (LARGEST_BODY + 1, 1 << 40):
                reader, writer = await served.connect()
                head = f"POST /api/command HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
                writer.write(f"{head}X-Docstore-Console: 1\r\nContent-Length: {length}\r\n\r\n".encode() + b"x" * 1000)
                assert b"200 OK" not in await rest(reader)
                writer.close()

    run(scenario())


def test_a_body_in_chunks_is_bounded_too() -> None:
    async def scenario() -> None:
        async with console() as served:
            reader, writer = await served.connect()
            head = f"POST /api/command HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}X-Docstore-Console: 1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(LARGEST_BODY // 65536 + 2):
                writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            assert b"200 OK" not in await rest(reader)
            writer.close()

    run(scenario())


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10])
def test_who_is_slow_with_the_head_is_cut_off(sent: bytes) -> None:
    async def scenario() -> None:
        async with console(idle_seconds=0.1) as served:
            reader, writer = await served.connect()
            writer.write(sent)
            assert await reader.read() == b""
            writer.close()

    run(scenario())


def test_who_does_not_begin_to_encrypt_is_cut_off(tmp_path: Path) -> None:
    file = Authority(tmp_path).issue("server")
    certificates = TlsCertificates(TlsOptions(mode=TlsMode.REQUIRE, certificate_key_file=file))

    async def scenario() -> None:
        async with console(certificates=certificates, idle_seconds=0.1) as served:
            for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
                reader, writer = await served.connect()
                writer.write(sent)
                assert await rest(reader) == b""
                writer.close()

    run(scenario())


def test_who_is_slow_with_the_body_is_cut_off() -> None:
    async def scenario() -> None:
        async with console(body_seconds=0.1) as served:
            reader, writer = await served.connect()
            head = f"POST /api/command HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}X-Docstore-Console: 1\r\nContent-Length: 10\r\n\r\n{{".encode())
            assert await reader.read() == b""
            writer.close()

    run(scenario())


def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "SEND_SECONDS", 0.1)
    long = command("long", lambda context, arguments: {"text": "x" * 4_100_000})

    async def scenario() -> None:
        async with console(long) as served:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, (LOOPBACK, served.port))
            body = json.dumps({"db": "shop", "command": {"long": 1}}).encode()
            head = f"POST /api/command HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            request = f"{head}X-Docstore-Console: 1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            await loop.sock_sendall(sock, request)
            while True:
                # Its sockets are those of the server and of the client alone: when the server's is gone it was cut off.
                await asyncio.sleep(0.01)
                if all(stream.closed() for stream in served.server._streams) and len(served.server._streams):
                    break
            sock.close()

    run(scenario())


def test_only_so_many_connections_are_open() -> None:
    async def scenario() -> None:
        async with console(most_connections=2) as served:
            kept = [await served.connect() for _ in range(2)]
            for reader, writer in kept:
                writer.write(f"GET /api/session HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            reader, writer = await served.connect()
            assert await reader.read() == b""
            writer.close()
            kept[0][1].close()
            await kept[0][1].wait_closed()
            while True:
                reader, writer = await served.connect()
                writer.write(f"GET / HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n".encode())
                answered = await reader.read()
                writer.close()
                if answered:
                    break
            kept[1][1].close()

    run(scenario())


def test_half_sent_requests_keep_nobody_out() -> None:
    async def scenario() -> None:
        async with console(most_connections=3, quiet_seconds=0.0) as served:
            reader, writer = await served.connect()
            writer.write(f"GET /api/session HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            halves = []
            for _ in range(9):
                halves.append(await served.connect())
                halves[-1][1].write(b"GET / HTTP/1.1\r\nHost: ")
            answer = await served.ask("/api/session")
            assert answer.status == 200
            assert len(served.server._streams) <= 3
            for _, half in (*halves, (reader, writer)):
                half.close()

    run(scenario())


def test_an_encrypted_port_serves_https_with_the_newest_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = authority.issue("server")
    certificates = TlsCertificates(TlsOptions(mode=TlsMode.PREFER, certificate_key_file=file))
    context = ssl.create_default_context(cafile=str(authority.ca_file))

    async def scenario() -> None:
        async with console(auth=True, certificates=certificates, context=context) as served:
            answer = await served.ask("/api/login", {"user": "root", "password": PASSWORD})
            assert "Secure" in answer.headers["set-cookie"].split("; ")
            _, writer = await served.connect()
            before = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
            writer.close()
            authority.issue("server")
            certificates.rotate()
            _, writer = await served.connect()
            assert writer.get_extra_info("ssl_object").getpeercert()["serialNumber"] != before
            writer.close()
            reader, writer = await asyncio.open_connection(LOOPBACK, served.port)
            writer.write(f"GET / HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
            assert b"HTTP" not in await rest(reader)
            writer.close()

    run(scenario())


def reached(*addresses: str, auth: bool = False, encrypted: bool = False, told: bool = False) -> Options:
    return Options(
        console=ConsoleOptions(0, addresses),
        network=NetworkOptions(allow_unauthenticated=told),
        security=SecurityOptions(auth=auth),
        tls=TlsOptions(mode=TlsMode.REQUIRE if encrypted else TlsMode.DISABLED),
    )


@pytest.mark.parametrize(
    "options",
    [reached("127.0.0.1"), reached("::1", "localhost"), reached("10.0.0.1", auth=True, encrypted=True),
     reached("0.0.0.0", told=True)],
)  # fmt: skip
def test_a_console_that_may_be(options: Options) -> None:
    check_reach(options)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (reached("10.0.0.1"), "could read and change everything"),
        (reached("127.0.0.1", "0.0.0.0", encrypted=True), "could read and change everything"),
        (reached("10.0.0.1", auth=True), "in the clear"), (reached("0.0.0.0", auth=True, told=True), "in the clear"),
    ],
)  # fmt: skip
def test_a_console_that_may_not_be(options: Options, reason: str) -> None:
    with pytest.raises(StartError, match=reason) as caught:
        check_reach(options)
    assert caught.value.exit_code == 2


def test_options_of_the_console() -> None:
    assert build_options({}).console == ConsoleOptions(None)
    given = {"net.http.port": 0, "net.http.bindIp": "127.0.0.1, ::1", "net.http.hosts": "db.example"}
    assert build_options(given).console == ConsoleOptions(0, ("127.0.0.1", "::1"), ("db.example",))
    with pytest.raises(ValueError, match="--httpHosts needs --httpPort"):
        build_options({"net.http.hosts": "x"})
    with pytest.raises(ValueError, match="empty"):
        build_options({"net.http.port": 1, "net.http.bindIp": "127.0.0.1,"})


def test_a_process_without_a_console_loads_nothing_of_it() -> None:
    program = (
        "import sys, mongod.__main__, mongos.__main__, configsvr.__main__\n"
        "print(sorted({'tornado.web', 'prometheus_client', 'docstore.console.server'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_wheel_has_all_files_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[3]
    monkeypatch.chdir(root)
    distribution = Distribution()
    distribution.parse_config_files(["setup.cfg"])
    building = distribution.get_command_obj("build_py")
    building.finalize_options()
    packed = {
        name for package, *_, names in building.data_files for name in names if package == "docstore.console.page"
    }
    files = {each.name for each in (root / "docstore/console/page").iterdir() if each.is_file()}
    assert packed == files - {"__init__.py"}
    assert {"index.html", "main.js", "style.css", "icon.svg"} <= packed
