"""The client's side of SCRAM: proving to a server that one knows a password, and seeing that the server knows it too.

A conversation is a generator of messages: it yields what to send and is given what came back. It ends by itself when
the server has proven itself, and raises `ScramError` when anything is not as it must be.
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
    """The server's messages are not those of a server that knows the password."""


def conversation(mechanism: str, user: str, password: str, nonce: bytes) -> Generator[bytes, bytes, None]:
    """The messages of one authentication by `mechanism`, SCRAM-SHA-1 or SCRAM-SHA-256. `nonce`: random bytes."""
    digest = digest_of(mechanism)
    own = base64.b64encode(nonce).decode()
    first = f"n={escaped(user)},r={own}"
    answer = yield f"n,,{first}".encode()
    fields = _fields(answer)
    salt, iterations = decoded(fields.get("s", "")), fields.get("i", "")
    combined = fields.get("r", "")
    if not salt or not combined.startswith(own) or not iterations.isdecimal() or int(iterations) < MINIMUM_ITERATIONS:
        raise ScramError("the server answered with a wrong nonce, no salt or too few iterations")
    keys = _keys(mechanism, user, password, salt, int(iterations))
    without_proof = f"c=biws,r={combined}"
    signed = ",".join((first, answer.decode(), without_proof)).encode()
    signature = hmac.digest(hashlib.new(digest, keys.client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
    answer = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(keys.server_key, signed, digest)
    if not hmac.compare_digest(decoded(_fields(answer).get("v", "")), expected):
        raise ScramError("the server does not know the password")


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
