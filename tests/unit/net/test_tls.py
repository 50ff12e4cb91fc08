"""Encrypted connections between a listener and a pool: who is let in, what flows, and what is told from plain ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import bson
import pytest

from docstore.errors import CommandError
from docstore.net import Listener, NetworkError, Pool
from docstore.net.process import StartError
from docstore.net.tls import door, stream
from docstore.net.tls.certificates import TlsCertificates, Unusable, tls_certificates
from docstore.options import TlsOptions
from docstore.options.values import TlsMode
from docstore.wire.handshake import is_handshake
from tests.harness.certificates import Authority, name
from tests.harness.dispatching import command
from tests.harness.serving import LOOPBACK, BareClient, hello, run, serving, until

PING = command("ping", lambda context, arguments: {"subject": getattr(context.connection.subject, "text", None)})
LONG = command("long", lambda context, arguments: {"text": "x" * 8_000_000})
REQUIRE, ALLOW, PREFER = TlsMode.REQUIRE, TlsMode.ALLOW, TlsMode.PREFER


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def options(authority: Authority, file: str = "server", mode: TlsMode = REQUIRE, **fields: Any) -> TlsOptions:
    path = fields.pop("certificate_key_file", None) or authority.issue(file)
    return TlsOptions(mode=mode, certificate_key_file=path, **{"ca_file": authority.ca_file, **fields})


@contextlib.asynccontextmanager
async def encrypted(options: TlsOptions) -> AsyncIterator[Listener]:
    async with serving(hello(), PING, LONG, certificates=TlsCertificates(options)) as listener:
        yield listener


@contextlib.asynccontextmanager
async def pool_of(options: TlsOptions | None) -> AsyncIterator[Pool]:
    pool = Pool(certificates=None if options is None else TlsCertificates(options))
    try:
        yield pool
    finally:
        await pool.close()


async def ping(listener: Listener, options: TlsOptions | None, host: str = LOOPBACK) -> str | None:
    """Whose certificate the listener saw."""
    async with pool_of(options) as pool:
        subject: str | None = bson.decode(await pool.command(f"{host}:{listener.port}", "test", {"ping": 1}))["subject"]
        return subject


async def refused(listener: Listener, options: TlsOptions | None, host: str = LOOPBACK) -> str:
    with pytest.raises(NetworkError) as caught:
        await ping(listener, options, host)
    assert not caught.value.sent
    return caught.value.reason


def test_a_message_that_begins_like_a_handshake_is_told_from_one() -> None:
    client = ssl.MemoryBIO(), ssl.MemoryBIO()
    speaker = ssl.create_default_context().wrap_bio(*client, server_hostname="example.org")
    with pytest.raises(ssl.SSLWantReadError):
        speaker.do_handshake()
    greeting = client[1].read()
    assert [is_handshake(greeting[:size]) for size in (0, 1, 5, 9, 10, 100)] == [None] * 4 + [True] * 2
    for size, request_id in ((0x0316, 1), (0x10316, 0x0100), (0x2010316, 0x0101)):
        message = (
            size.to_bytes(4, "little") + request_id.to_bytes(4, "little") + bytes(4) + (2013).to_bytes(4, "little")
        )
        assert is_handshake(message) is False
    assert is_handshake(b"\xdd") is False


def test_a_pool_with_a_certificate_of_the_authority_is_let_in(authority: Authority) -> None:
    async def scenario() -> None:
        async with encrypted(options(authority)) as listener:
            member = authority.issue("member", name(O="Docs", CN="a member"))
            assert await ping(listener, options(authority, certificate_key_file=member)) == "CN=a member,O=Docs"
            assert await ping(listener, options(authority, certificate_key_file=member), "localhost")
            certificates = TlsCertificates(options(authority, cluster_file=member))
            pool = Pool(certificates=certificates)
            for _ in range(3):
                reply = bson.decode(await pool.command(f"{LOOPBACK}:{listener.port}", "test", {"ping": 1}))
                assert reply["subject"] == "CN=a member,O=Docs"
            assert len(listener.connections) == 1
            await pool.close()
            await until(lambda: not listener.connections)

    run(scenario())


def test_who_is_not_let_in(authority: Authority, tmp_path: Path) -> None:
    async def scenario() -> None:
        stranger = Authority(tmp_path / "stranger", "Stranger")
        revoked = authority.issue("revoked", revoked=True)
        async with encrypted(options(authority, crl_file=authority.revocations())) as listener:
            good = options(authority)
            assert await ping(listener, good)
            assert "certificate" in await refused(listener, options(authority, certificate_key_file=revoked))
            foreign = options(stranger, ca_file=authority.ca_file)
            assert "unknown ca" in await refused(listener, foreign)
            assert "self-signed" in await refused(listener, options(authority, ca_file=stranger.ca_file))
            await refused(listener, None)
            await until(lambda: not listener.connections)

    run(scenario())


def test_a_client_whose_certificate_has_ended_is_refused(authority: Authority) -> None:
    async def scenario() -> None:
        ended = authority.issue("ended", days=-1)
        async with encrypted(options(authority)) as listener:
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            context.load_cert_chain(ended)
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context)
            with pytest.raises((ssl.SSLError, ConnectionError), match=r"expired|reset"):
                await BareClient(reader, writer).ask({"ping": 1})
            await until(lambda: not listener.connections)

    run(scenario())


def test_without_an_authority_clients_need_no_certificate_and_servers_one_that_this_machine_trusts(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        alone = TlsOptions(mode=REQUIRE, certificate_key_file=authority.issue("server"))
        async with encrypted(alone) as listener:
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context)
            client = BareClient(reader, writer)
            assert (await client.ask({"ping": 1}))["subject"] is None
            await client.close()
            assert "unable to get local issuer" in await refused(listener, alone)
            monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
            assert await ping(listener, alone) is None

    run(scenario())


def test_the_mode_goes_on_by_one_step_at_a_time_and_holds_at_once(authority: Authority) -> None:
    async def scenario() -> None:
        certificates = TlsCertificates(options(authority, mode=ALLOW))
        async with serving(hello(), PING, certificates=certificates) as listener:
            for wrong in ("requireTLS", "allowTLS", "disabled", "maybe"):
                with pytest.raises(CommandError):
                    certificates.change_mode(wrong)
            certificates.change_mode("preferTLS")
            assert await ping(listener, None) is None
            certificates.change_mode("requireTLS")
            await refused(listener, None)
            assert await ping(listener, options(authority, "client")) == "CN=client"
            with pytest.raises(CommandError, match="from requireTLS to preferTLS"):
                certificates.change_mode("preferTLS")

    run(scenario())


def test_clients_may_have_an_authority_of_their_own(authority: Authority, tmp_path: Path) -> None:
    async def scenario() -> None:
        clients = Authority(tmp_path / "clients", "Clients")
        async with encrypted(options(authority, cluster_ca_file=clients.ca_file)) as listener:
            issued = clients.issue("client")
            assert await ping(listener, options(authority, certificate_key_file=issued)) == "CN=client"
            assert "unknown ca" in await refused(listener, options(authority, "other"))

    run(scenario())


def test_the_name_of_a_server_goes_along_with_the_handshake(authority: Authority) -> None:
    async def scenario() -> None:
        certificates = TlsCertificates(options(authority))
        names: list[str | None] = []
        certificates.accepting.sni_callback = lambda _connection, name, _context: names.append(name)
        async with serving(hello(), PING, certificates=certificates) as listener:
            for host in ("localhost", LOOPBACK):
                await ping(listener, options(authority, "client"), host)
        assert names == ["localhost", None]

    run(scenario())


def test_a_certificate_is_for_its_hosts_only(authority: Authority) -> None:
    async def scenario() -> None:
        elsewhere = options(authority, certificate_key_file=authority.issue("elsewhere", hosts=("localhost",)))
        async with encrypted(elsewhere) as listener:
            good = options(authority)
            assert await ping(listener, good, "localhost")
            assert "IP address mismatch" in await refused(listener, good)
            assert await ping(listener, options(authority, invalid_hostnames=True))

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "subject"), [({"without_certificates": True}, "CN=client"), ({"invalid_certificates": True}, None)]
)
def test_certificates_of_clients_may_be_left_out(authority: Authority, fields: dict[str, Any], subject: str) -> None:
    async def scenario() -> None:
        async with encrypted(options(authority, **fields)) as listener:
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context)
            client = BareClient(reader, writer)
            assert (await client.ask({"ping": 1}))["subject"] is None
            await client.close()
            assert await ping(listener, options(authority, "client")) == subject

    run(scenario())


@pytest.mark.parametrize("mode", [ALLOW, PREFER])
def test_plain_and_encrypted_connections_come_to_one_port(authority: Authority, mode: TlsMode) -> None:
    async def scenario() -> None:
        server = options(authority, mode=mode)
        async with encrypted(server) as listener:
            client = await BareClient.connect(listener)
            for byte in client.frame({"ping": 1, "comment": "x" * (0x0316 - 59)}):
                await client.write(bytes([byte]))
            assert bson.decode((await client.receive()).body)["ok"] == 1
            assert await ping(listener, None) is None
            assert await ping(listener, options(authority, "client")) == "CN=client"
            # A process that only allows encryption does not use it itself.
            assert await ping(listener, server) == (None if mode is ALLOW else "CN=server")
            await client.close()

    run(scenario())


def test_long_messages_go_both_ways_and_a_slow_reader_holds_them_back(authority: Authority) -> None:
    async def scenario() -> None:
        async with encrypted(options(authority, without_certificates=True)) as listener:
            async with pool_of(options(authority, "client")) as pool:
                address = f"{LOOPBACK}:{listener.port}"
                await pool.command(address, "test", {"ping": 1, "comment": "y" * 5_000_000})
                replies = await asyncio.gather(*(pool.command(address, "test", {"long": 1}) for _ in range(3)))
                assert [len(bson.decode(reply)["text"]) for reply in replies] == [8_000_000] * 3
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context, limit=1)
            client = BareClient(reader, writer)
            for _ in range(4):
                await client.send({"long": 1})
            await until(lambda: listener.traffic.requests >= 5)
            assert await ping(listener, options(authority, "other")) == "CN=other"
            for _ in range(4):
                assert len((await client.receive()).body) > 8_000_000
            await client.close()

    run(scenario())


def test_a_handshake_that_takes_too_long_ends(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        for module in (door, stream):
            monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.05)
        async with encrypted(options(authority)) as listener:
            silent, slow = await BareClient.connect(listener), await BareClient.connect(listener)
            await slow.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            assert await silent.closed()
            assert await slow.closed()
            await until(lambda: not listener.connections)
            for bad in (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03\x03" + bytes(100), b"GET / HTTP/1.1\r\n\r\n"):
                client = await BareClient.connect(listener)
                await client.write(bad)
                with contextlib.suppress(ConnectionError):
                    await client.reader.read()
                await client.close()
            await until(lambda: not listener.connections)

    run(scenario())


def test_files_read_anew_hold_for_later_connections(authority: Authority) -> None:
    async def scenario() -> None:
        path = authority.issue("server", name(CN="first"))
        certificates = TlsCertificates(options(authority, certificate_key_file=path, without_certificates=True))
        async with serving(hello(), PING, certificates=certificates) as listener:
            context = ssl.create_default_context(cafile=str(authority.ca_file))
            _, old = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context)
            path.write_bytes(authority.issue("next", name(CN="second")).read_bytes())
            certificates.rotate()
            _, new = await asyncio.open_connection(LOOPBACK, listener.port, ssl=context)
            shown = [writer.get_extra_info("peercert")["subject"][0][0][1] for writer in (old, new)]
            assert shown == ["first", "second"]
            path.write_text("nothing")
            with pytest.raises(CommandError, match="no certificate"):
                certificates.rotate()
            assert certificates.subject.text == "CN=second"
            await until(lambda: certificates.accepted_by_version() == {"1.3": 2})
            for writer in (old, new):
                writer.close()

    run(scenario())


def test_only_protocols_that_are_not_disabled_are_spoken(authority: Authority) -> None:
    async def scenario() -> None:
        async with encrypted(options(authority, disabled_protocols=("TLS1_3",))) as listener:
            assert await ping(listener, options(authority, "client"))
            assert "alert" in await refused(listener, options(authority, "newer", disabled_protocols=("TLS1_2",)))

    run(scenario())


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    server, locked = authority.issue("server"), authority.issue("locked", password="secret")
    public, empty = authority.issue("public"), tmp_path / "empty"
    public.chmod(0o640)
    empty.touch(mode=0o600)
    for file, reason, fields in (
        (public, "too open", {}), (empty, "no certificate", {}), (tmp_path / "none", "No such file", {}),
        (authority.issue("old", days=-1), "expired or not yet valid", {}), (locked, "no password is given", {}),
        (locked, "cannot use", {"password": "wrong"}), (server, "authorities in", {"ca_file": empty}),
        (server, "revoked certificates in", {"crl_file": tmp_path / "none"}),
        (server, "no list of them", {"crl_file": server}),
    ):  # fmt: skip
        with pytest.raises(Unusable, match=reason):
            TlsCertificates(options(authority, certificate_key_file=file, **fields))
    TlsCertificates(options(authority, certificate_key_file=locked, password="secret"))


@pytest.mark.parametrize(
    ("days", "threshold", "told"), [(29, None, 1), (31, None, 0), (31, 40, 1), (29, 10, 0), (1, 0, 0)]
)
def test_a_certificate_that_ends_soon_is_told_of(
    authority: Authority, caplog: pytest.LogCaptureFixture, days: int, threshold: int | None, told: int
) -> None:
    path = authority.issue("server", days=days)
    certificates = tls_certificates(options(authority, certificate_key_file=path))
    assert certificates is not None
    put = certificates.parameter().assign
    assert put is not None
    if threshold is not None:
        put(threshold)
    certificates.begin()
    messages = [each.getMessage() for each in caplog.records]
    assert messages.count("Server certificate will expire on the following date") == told
    with pytest.raises(CommandError, match="not greater than or equal to 0"):
        put(-1)


def test_connections_of_named_versions_are_logged(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "docstore.NETWORK")

    async def scenario(*versions: str) -> None:
        caplog.clear()
        async with encrypted(options(authority, log_versions=versions)) as listener:
            await ping(listener, options(authority))

    for versions, logged in ((("1.2",), 0), (("1.2", "1.3"), 1)):
        run(scenario(*versions))
        found = [each for each in caplog.records if each.getMessage() == "Accepted connection with TLS"]
        assert len(found) == logged


def test_fips_mode_is_refused_where_openssl_is_not_told_to(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.net.tls.certificates.get_fips_mode", lambda: 0)
    with pytest.raises(StartError, match="--tlsFIPSMode: OpenSSL"):
        tls_certificates(options(authority, fips=True))
    monkeypatch.setattr("docstore.net.tls.certificates.get_fips_mode", lambda: 1)
    assert tls_certificates(options(authority, fips=True)) is not None
