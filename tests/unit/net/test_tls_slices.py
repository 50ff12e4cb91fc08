"""TLS connections whose peers give the server much to calculate, and those beside them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from pathlib import Path
from typing import Any

import bson
import pytest

from docstore.net import Listener
from docstore.net.connection import Connection
from docstore.net.tls.certificates import TlsCertificates
from docstore.net.tls.door import Door
from docstore.net.tls.records import MAX_SILENT_RECORDS, MAX_SLICE_RECORDS, Ciphertext, Records
from docstore.options.values import TlsMode, TlsOptions
from docstore.wire.message import MORE_TO_COME, decode_frame, encode_message
from tests.harness.certificates import Authority
from tests.harness.dispatching import FakeHost, command, dispatcher_of
from tests.harness.fake_socket import FakeSocket
from tests.harness.serving import run, serving

PING = command("ping", tolerant=True)


class Peer:
    """A client of TLS on a connection without a socket."""

    def __init__(self, listener: Listener, certificates: TlsCertificates, authority: Authority) -> None:
        loop = asyncio.get_running_loop()
        self.socket = Switched()
        self.door = Door(certificates, Connection(listener, loop), loop, listener.turn)
        self.door.connection_made(self.socket)
        self.socket.set_protocol(self.door)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        context.check_hostname = False
        self.tls = context.wrap_bio(self._incoming, self._outgoing)

    def greet(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        self.send()

    def send(self) -> None:
        """Send what the engine has to send."""
        self.socket.protocol.data_received(self._outgoing.read())

    def take(self) -> bytes:
        """Return what the engine has to send."""
        return self._outgoing.read()

    async def finish_handshake(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.receive()
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                # The server may have asked for a key of another group.
                if self._outgoing.pending:
                    self.send()
                continue
            self.send()
            for _ in range(3):
                await asyncio.sleep(0)
            return

    def receive(self) -> None:
        self._incoming.write(b"".join(self.socket.sent))
        self.socket.sent.clear()


class Switched(FakeSocket):
    """A socket whose protocol is exchanged, as that of asyncio."""

    protocol: Any

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


def certificates_of(authority: Authority, **fields: Any) -> TlsCertificates:
    path, trusted = authority.issue("server"), authority.ca_file
    given = {"mode": TlsMode.PREFER, "ca_file": trusted, "without_certificates": True, **fields}
    return TlsCertificates(TlsOptions(certificate_key_file=path, **given))


def test_received_bytes_are_cut_between_records_however_they_come() -> None:
    records = [bytes((23, 3, 3, 0, size)) + bytes(size) for size in range(1, 60)]
    everything = b"".join(records)
    for step in (1, 7, 300, len(everything)):
        ciphertext, slices = Ciphertext(), list[tuple[bytes, int]]()
        for start in range(0, len(everything), step):
            ciphertext.feed(everything[start : start + step])
            while ciphertext.has_slice:
                slices.append(ciphertext.next_slice())
        assert b"".join(piece for piece, _ in slices) == everything
        assert sum(count for _, count in slices) == len(records)
        assert max(count for _, count in slices) <= MAX_SLICE_RECORDS
        assert not len(ciphertext)


def test_a_peer_that_sends_records_without_data_is_disconnected(tmp_path: Path) -> None:
    context = certificates_of(Authority(tmp_path / "certificates")).accepting
    engine = Records(context, None)

    class Silent:
        """An engine that reads records and finds no data in them."""

        data = b""

        def read(self, size: int) -> bytes:
            if self.data:
                data, self.data = self.data, b""
                return data
            raise ssl.SSLWantReadError

    silent: Any = Silent()
    engine.tls = silent
    update = bytes((23, 3, 3, 0, 22)) + bytes(22)
    for number in range(MAX_SILENT_RECORDS):
        silent.data = b"data"
        engine.ciphertext.feed(update * 2)
        assert engine.decrypted() == (b"data", False), number
    engine.ciphertext.feed(update)
    with pytest.raises(ssl.SSLError, match="carry no data"):
        engine.decrypted()


def test_handshakes_wait_for_each_other_and_nobody_for_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")

    async def scenario() -> None:
        now = itertools.count()
        certificates = certificates_of(authority)
        # Each look at the clock takes 0.1 ms.
        dispatcher = dispatcher_of(PING, host=FakeHost(), clock=lambda: next(now) / 10_000)
        async with serving(dispatcher=dispatcher, certificates=certificates) as listener:
            peers = [Peer(listener, certificates, authority) for _ in range(60)]
            for peer in peers:
                peer.greet()
            plain = Switched()
            connection = Connection(listener, asyncio.get_running_loop())
            connection.connection_made(plain)
            connection.data_received(encode_message(bson.encode({"ping": 1, "$db": "test"}), request_id=1))
            await asyncio.sleep(0)
            assert len(plain.sent) == 1
            answered = sum(bool(peer.socket.sent) for peer in peers)
            assert 0 < answered < 40
            while not all(peer.socket.sent for peer in peers):
                await asyncio.sleep(0)
            for peer in peers:
                peer.socket.protocol.connection_lost(None)
            connection.connection_lost(None)

    run(scenario())


def test_many_short_records_are_decrypted_in_turns_and_to_the_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    noted: list[int] = []

    async def scenario() -> None:
        certificates = certificates_of(authority)

        def noting(context: Any, arguments: Any) -> dict[str, Any]:
            noted.append(1)
            return {}

        note = command("note", noting, tolerant=True)
        async with serving(PING, note, certificates=certificates) as listener:
            peer = Peer(listener, certificates, authority)
            peer.greet()
            await peer.finish_handshake()
            peer.receive()
            for byte in encode_message(bson.encode({"ping": 1, "$db": "test"}), request_id=1):
                peer.tls.write(bytes([byte]))
            peer.send()
            assert len(peer.socket.protocol._records.ciphertext) > 0, "the rest is left for later"
            while not peer.socket.sent:
                await asyncio.sleep(0)
            peer.receive()
            assert bson.decode(decode_frame(peer.tls.read(10_000)).body)["ok"] == 1
            for number in range(2 * MAX_SILENT_RECORDS):
                peer.tls.write(encode_message(bson.encode({"ping": 1, "$db": "test"}), request_id=number))
                sealed = peer.take()
                for part in (sealed[:30], sealed[30:]):
                    peer.socket.protocol.data_received(part)
                    await asyncio.sleep(0)
            assert not peer.socket.is_closed, "a record may come in parts"
            unanswered = encode_message(bson.encode({"note": 1, "$db": "test"}), request_id=2, flags=MORE_TO_COME)
            for byte in unanswered:
                peer.tls.write(bytes([byte]))
            peer.send()
            peer.socket.close()
            peer.socket.protocol.connection_lost(None)
            while listener.connections:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert noted == [1], "what came before the end is still done"

    run(scenario())


def test_first_messages_that_are_dear_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")

    async def scenario() -> None:
        certificates = certificates_of(authority)
        async with serving(PING, certificates=certificates) as listener:
            peer = Peer(listener, certificates, authority)
            peer.socket.protocol.data_received(b"\x16\x03\x01\x40\x00\x01\x00\x20\x01\x03\x03")
            assert peer.socket.is_closed
            peer.door.connection_lost(None)

    run(scenario())
    # Of the groups that a client may offer one is taken, and none of those whose keys have thousands of bits.
    server, client = certificates_of(authority).accepting, ssl.create_default_context(cafile=str(authority.ca_file))
    client.check_hostname = False
    client.set_ecdh_curve("secp521r1")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client.wrap_bio(to_client, to_server).do_handshake()
    with pytest.raises(ssl.SSLError):
        server.wrap_bio(to_server, to_client, server_side=True).do_handshake()


@pytest.mark.parametrize(("disabled", "version"), [((), "TLSv1.2"), (("TLS1_2",), "TLSv1.3")])
def test_the_console_speaks_a_protocol_without_key_updates(
    tmp_path: Path, disabled: tuple[str, ...], version: str
) -> None:
    authority = Authority(tmp_path / "certificates")
    certificates = certificates_of(authority, disabled_protocols=disabled)
    client = ssl.create_default_context(cafile=str(authority.ca_file))
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = certificates.of_console.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server)
    for side in (client_side, server_side) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client_side.version() == server_side.version() == version
