"""The client's side of SCRAM: proves to a server that the client knows the password, and verifies that the server
does.

A conversation is a generator: it yields the messages to send and receives the replies. It ends when the server has
proven itself, and raises `ScramError` on any deviation.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator

from docstore.security.saslprep import NotPreparable
from docstore.security.scram import (
    ClientKeys,
    Malformed,
    attributes,
    client_keys,
    decoded,
    digest_of,
    escaped,
    secret_of,
)

MINIMUM_ITERATIONS = 4096


class ScramError(Exception):
    """The server's messages do not prove that it knows the password."""


class ClientConversation:
    """One authentication by `mechanism`, SCRAM-SHA-1 or SCRAM-SHA-256. Send `first`, pass the answer to `challenged`,
    send the result of `proof`, and pass its answer to `verify`. `nonce`: random bytes.
    """

    def __init__(self, mechanism: str, user: str, nonce: bytes) -> None:
        self._digest = digest_of(mechanism)
        self._own = base64.b64encode(nonce).decode()
        self._bare = f"n={escaped(user)},r={self._own}"
        self.first = f"n,,{self._bare}".encode()
        self._challenge = ""
        self._combined = ""
        self._expected = b""

    def challenged(self, answer: bytes) -> tuple[bytes, int]:
        """The salt and iterations that the server names. Errors: ScramError."""
        fields = _fields(answer)
        salt, iterations = _decoded(fields.get("s", "")), fields.get("i", "")
        self._challenge, self._combined = answer.decode(), fields.get("r", "")
        enough = iterations.isdecimal() and int(iterations) >= MINIMUM_ITERATIONS
        if not salt or not self._combined.startswith(self._own) or not enough:
            raise ScramError("the server answered with a wrong nonce, no salt or too few iterations")
        return salt, int(iterations)

    def proof(self, keys: ClientKeys) -> bytes:
        digest = self._digest
        without_proof = f"c=biws,r={self._combined}"
        signed = ",".join((self._bare, self._challenge, without_proof)).encode()
        signature = hmac.digest(hashlib.new(digest, keys.client_key).digest(), signed, digest)
        proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
        self._expected = hmac.digest(keys.server_key, signed, digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, answer: bytes) -> None:
        """Errors: ScramError when the server does not know the password."""
        assert self._expected, "the proof comes first"
        if not hmac.compare_digest(_decoded(_fields(answer).get("v", "")), self._expected):
            raise ScramError("the server does not know the password")


def conversation(mechanism: str, user: str, password: str, nonce: bytes) -> Generator[bytes, bytes, None]:
    """The messages of one authentication by `mechanism`, SCRAM-SHA-1 or SCRAM-SHA-256. `nonce`: random bytes."""
    client = ClientConversation(mechanism, user, nonce)
    salt, iterations = client.challenged((yield client.first))
    client.verify((yield client.proof(_keys(mechanism, user, password, salt, iterations))))


def _keys(mechanism: str, user: str, password: str, salt: bytes, iterations: int) -> ClientKeys:
    try:
        return client_keys(mechanism, secret_of(mechanism, user, password), salt, iterations)
    except NotPreparable as error:
        raise ScramError(str(error)) from None


def _fields(message: bytes) -> dict[str, str]:
    try:
        return attributes(message.decode())
    except (Malformed, UnicodeDecodeError):
        raise ScramError("the server's message is none of SCRAM") from None


def _decoded(text: str) -> bytes:
    try:
        return decoded(text)
    except Malformed as error:
        raise ScramError(str(error)) from None
