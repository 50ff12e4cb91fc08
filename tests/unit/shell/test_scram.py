"""SCRAM against a server of a few lines that keeps what RFC 5802 says a server keeps."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from typing import Any

import bson
import pytest

from docstore.security.scram_client import ScramError, conversation
from shell.address import Credentials, parse_address
from shell.deployment import Deployment, Unreachable
from tests.unit.shell.fake_server import FakeServer


class Server:
    """The server's side for one user. `proves` False: it does not know the password."""

    def __init__(self, mechanism: str, secret: bytes, *, proves: bool = True, iterations: int = 4096) -> None:
        self.digest = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256"}[mechanism]
        self.salt = os.urandom(16)
        self.iterations = iterations
        self.salted = hashlib.pbkdf2_hmac(self.digest, secret, self.salt, iterations)
        self.proves = proves

    def first(self, message: bytes) -> bytes:
        assert message.startswith(b"n,,")
        self.client_first = message[3:].decode()
        nonce = self.client_first.split("r=")[1] + "server"
        self.answer = f"r={nonce},s={base64.b64encode(self.salt).decode()},i={self.iterations}"
        return self.answer.encode()

    def last(self, message: bytes) -> bytes | None:
        without_proof, _, proof = message.decode().rpartition(",p=")
        signed = ",".join((self.client_first, self.answer, without_proof)).encode()
        key = hmac.digest(self.salted, b"Client Key", self.digest)
        signature = hmac.digest(hashlib.new(self.digest, key).digest(), signed, self.digest)
        if bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) != key:
            return None
        known = self.salted if self.proves else b"nothing"
        server_key = hmac.digest(known, b"Server Key", self.digest)
        return b"v=" + base64.b64encode(hmac.digest(server_key, signed, self.digest))


def talk(server: Server, mechanism: str, user: str, password: str) -> bool:
    messages = conversation(mechanism, user, password, os.urandom(24))
    answer = server.last(messages.send(server.first(next(messages))))
    if answer is None:
        return False
    with pytest.raises(StopIteration):
        messages.send(answer)
    return True


def test_both_sides_agree() -> None:
    assert talk(Server("SCRAM-SHA-256", b"pencil"), "SCRAM-SHA-256", "a,b=c", "pencil")
    hashed = hashlib.md5(b"u:mongo:pencil").hexdigest().encode()
    assert talk(Server("SCRAM-SHA-1", hashed), "SCRAM-SHA-1", "u", "pencil")
    assert not talk(Server("SCRAM-SHA-256", b"pencil"), "SCRAM-SHA-256", "u", "pen")


@pytest.mark.parametrize(
    ("typed", "prepared"), [("I\u00adX", "IX"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")]
)
def test_passwords_are_prepared(typed: str, prepared: str) -> None:
    assert talk(Server("SCRAM-SHA-256", prepared.encode()), "SCRAM-SHA-256", "u", typed)


@pytest.mark.parametrize("password", ["\u0007", "\u0627\u0031"])
def test_passwords_that_no_user_can_have_are_refused(password: str) -> None:
    with pytest.raises(ScramError):
        talk(Server("SCRAM-SHA-256", b"x"), "SCRAM-SHA-256", "u", password)


def test_a_server_that_is_not_genuine_is_found_out() -> None:
    with pytest.raises(ScramError, match="does not know the password"):
        talk(Server("SCRAM-SHA-256", b"pencil", proves=False), "SCRAM-SHA-256", "u", "pencil")
    with pytest.raises(ScramError, match="too few iterations"):
        talk(Server("SCRAM-SHA-256", b"pencil", iterations=10), "SCRAM-SHA-256", "u", "pencil")


def test_a_deployment_authenticates_each_connection() -> None:
    server = Server("SCRAM-SHA-256", b"pencil")

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        if "hello" in command:
            return {"ok": 1.0, "saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256"]}
        if "saslStart" in command:
            assert command["$db"] == "shop"
            return {"ok": 1.0, "conversationId": 1, "done": False, "payload": server.first(command["payload"])}
        if "saslContinue" in command:
            payload = server.last(command["payload"])
            if payload is None:
                return {"ok": 0.0, "errmsg": "Authentication failed.", "code": 18}
            return {"ok": 1.0, "conversationId": 1, "done": True, "payload": payload}
        return {"ok": 1.0}

    ping = bson.encode({"ping": 1, "$db": "test"})
    with FakeServer(answer) as fake:
        for password in ("pencil", "pen"):
            deployment = Deployment(parse_address(f"mongodb://u:{password}@{fake.address}/shop"))
            if password == "pencil":
                deployment.run(ping)
                assert fake.seen == ["hello", "saslStart", "saslContinue", "ping"]
            else:
                with pytest.raises(Unreachable, match="Authentication failed"):
                    deployment.run(ping)
            deployment.close()
        later = Deployment(parse_address(fake.address))
        later.run(ping)
        with pytest.raises(Unreachable, match="Authentication failed"):
            later.authenticate(Credentials("u", "pen", "shop"))
        later.authenticate(Credentials("u", "pencil", "shop"))
        later.close()
