"""What both sides of SCRAM (RFC 5802, RFC 7677) calculate, and what a server keeps of a password.

Always true: the password itself is never kept. From `stored_key` a server can tell that a client knows the password;
from `server_key` it proves that it knows it too. Neither is enough to log in with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from docstore.security.saslprep import prepared

SHA_1 = "SCRAM-SHA-1"
SHA_256 = "SCRAM-SHA-256"
_DIGESTS = {SHA_1: "sha1", SHA_256: "sha256"}
MECHANISMS = tuple(_DIGESTS)
DEFAULT_ITERATIONS = {SHA_1: 10_000, SHA_256: 15_000}
LEAST_ITERATIONS = 5_000
SALT_BYTES = {SHA_1: 16, SHA_256: 28}
"""A block of the digest less the four bytes of the counter that PBKDF2 appends."""


class Malformed(ValueError):
    """A message that is none of SCRAM."""


def digest_of(mechanism: str) -> str:
    """The name of the mechanism's hash function, as `hashlib` has it."""
    return _DIGESTS[mechanism]


def password_digest(user: str, password: str) -> str:
    """What SCRAM-SHA-1 hashes instead of the password: MongoDB had stored that before."""
    return hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False).hexdigest()


def secret_of(mechanism: str, user: str, password: str, *, stored: bool = False) -> bytes:
    """What is salted and hashed. Errors: NotPreparable."""
    if mechanism == SHA_1:
        return password_digest(user, password).encode()
    return prepared(password, stored=stored).encode()


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client makes of its password, for one salt and number of iterations."""

    client_key: bytes
    server_key: bytes


def client_keys(mechanism: str, secret: bytes, salt: bytes, iterations: int) -> ClientKeys:
    """Takes milliseconds, on purpose."""
    digest = _DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, secret, salt, iterations)
    return ClientKeys(hmac.digest(salted, b"Client Key", digest), hmac.digest(salted, b"Server Key", digest))


@dataclass(frozen=True, slots=True)
class Credential:
    """What is kept of a password for one mechanism."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def derived(cls, mechanism: str, secret: bytes, salt: bytes, iterations: int) -> Self:
        """Takes as long as `client_keys`."""
        keys = client_keys(mechanism, secret, salt, iterations)
        stored = hashlib.new(_DIGESTS[mechanism], keys.client_key).digest()
        return cls(mechanism, iterations, salt, stored, keys.server_key)

    @classmethod
    def from_document(cls, mechanism: str, document: Mapping[str, Any]) -> Self | None:
        """That of `credentials.<mechanism>` of a user's document; None where it is none."""
        try:
            iterations = int(document["iterationCount"])
            salt, stored, server = (
                base64.b64decode(document[field], validate=True) for field in ("salt", "storedKey", "serverKey")
            )
        except (KeyError, TypeError, ValueError):
            return None
        size = hashlib.new(_DIGESTS[mechanism]).digest_size
        fits = iterations > 0 and salt and len(stored) == size and len(server) == size
        return cls(mechanism, iterations, salt, stored, server) if fits else None

    def document(self) -> dict[str, Any]:
        """As it stands in a user's document."""
        texts = (base64.b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key))
        return {"iterationCount": self.iterations, **dict(zip(("salt", "storedKey", "serverKey"), texts, strict=True))}


def attributes(message: str) -> dict[str, str]:
    """The attributes "k=value" of a message, by letter. Errors: Malformed."""
    parts = [part.partition("=") for part in message.split(",")]
    if any(not equals or len(key) != 1 for key, equals, _ in parts) or len({key for key, _, _ in parts}) < len(parts):
        raise Malformed("not a list of attributes")
    return {key: value for key, _, value in parts}


def unescaped(name: str) -> str:
    """A user's name as it was before "," and "=" were escaped. Errors: Malformed."""
    first, *rest = name.split("=")
    if any(part[:2] not in ("2C", "3D") for part in rest):
        raise Malformed("an escape that there is not")
    return first + "".join({"2C": ",", "3D": "="}[part[:2]] + part[2:] for part in rest)


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def decoded(text: str) -> bytes:
    """Errors: Malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Malformed("not base64") from None
