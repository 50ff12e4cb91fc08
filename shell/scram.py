"""SCRAM: proving to a server that one knows a password, and seeing that the server knows it too (RFC 5802, RFC 7677).

A conversation is a generator of messages: it yields what to send and is given what came back. It ends by itself when
the server has proven itself, and raises `ScramError` when anything is not as it must be.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from collections.abc import Generator

MINIMUM_ITERATIONS = 4096
_DIGESTS = {"SCRAM-SHA-1": "sha1", "SCRAM-SHA-256": "sha256"}
_PROHIBITED = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9,
)  # fmt: skip


class ScramError(Exception):
    """The server's messages are not those of a server that knows the password."""


def conversation(mechanism: str, user: str, password: str) -> Generator[bytes, bytes, None]:
    """The messages of one authentication by `mechanism`, SCRAM-SHA-1 or SCRAM-SHA-256."""
    digest = _DIGESTS[mechanism]
    nonce = base64.b64encode(secrets.token_bytes(24)).decode()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    answer = yield f"n,,{first}".encode()
    fields = _fields(answer)
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    if not fields["r"].startswith(nonce) or iterations < MINIMUM_ITERATIONS:
        raise ScramError("the server answered with a wrong nonce or too few iterations")
    salted = hashlib.pbkdf2_hmac(digest, _secret(mechanism, user, password), salt, iterations)
    without_proof = f"c=biws,r={fields['r']}"
    signed = ",".join((first, answer.decode(), without_proof)).encode()
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    answer = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(base64.b64decode(_fields(answer).get("v", "")), expected):
        raise ScramError("the server does not know the password")


def _fields(message: bytes) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.decode().split(",") if "=" in part)


def _secret(mechanism: str, user: str, password: str) -> bytes:
    if mechanism == "SCRAM-SHA-1":  # the first mechanism hashes what MongoDB had stored before
        return hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False).hexdigest().encode()
    return _prepared(password).encode()


def _prepared(password: str) -> str:
    """SASLprep (RFC 4013): equal passwords are equal bytes, however they were typed."""
    mapped = "".join(
        " " if stringprep.in_table_c12(letter) else letter for letter in password if not stringprep.in_table_b1(letter)
    )
    text = unicodedata.normalize("NFKC", mapped)
    if any(test(letter) for letter in text for test in _PROHIBITED):
        raise ScramError("the password has a character that no password may have")
    if any(map(stringprep.in_table_d1, text)) and (
        any(map(stringprep.in_table_d2, text))
        or not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))
    ):
        raise ScramError("the password mixes directions of writing")
    return text
