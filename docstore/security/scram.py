"""The calculations of SCRAM (RFC 5802, RFC 7677) on both sides, and the stored form of passwords.

Invariant: the password itself is never stored. `stored_key` lets a server verify that a client knows the password;
`server_key` lets it prove its own knowledge. Neither is enough to log in with.
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
    """The message is not valid SCRAM."""


def digest_of(mechanism: str) -> str:
    """Return the name of the mechanism's hash function in `hashlib`."""
    return _DIGESTS[mechanism]


def password_digest(user: str, password: str) -> str:
    """Return the MD5 that SCRAM-SHA-1 hashes instead of the password; older versions of MongoDB stored it."""
    return hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False).hexdigest()


def secret_of(mechanism: str, user: str, password: str, *, stored: bool = False) -> bytes:
    """Return the bytes to salt and hash. Errors: NotPreparable."""
    if mechanism == SHA_1:
        return password_digest(user, password).encode()
    return prepared(password, stored=stored).encode()


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys that a client derives from its password, for one salt and number of iterations."""

    client_key: bytes
    server_key: bytes


def client_keys(mechanism: str, secret: bytes, salt: bytes, iterations: int) -> ClientKeys:
    """Derive the keys. Takes milliseconds, on purpose."""
    digest = _DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, secret, salt, iterations)
    return ClientKeys(hmac.digest(salted, b"Client Key", digest), hmac.digest(salted, b"Server Key", digest))


@dataclass(frozen=True, slots=True)
class Credential:
    """The stored form of a password for one mechanism."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def derived(cls, mechanism: str, secret: bytes, salt: bytes, iterations: int) -> Self:
        """Derive a credential. Takes as long as `client_keys`."""
        keys = client_keys(mechanism, secret, salt, iterations)
        stored = hashlib.new(_DIGESTS[mechanism], keys.client_key).digest()
        return cls(mechanism, iterations, salt, stored, keys.server_key)

    @classmethod
    def from_document(cls, mechanism: str, document: Mapping[str, Any]) -> Self | None:
        """Parse `credentials.<mechanism>` of a user's document; None if it is invalid."""
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
        """Return the form in a user's document."""
        texts = (base64.b64encode(data).decode() for data in (self.salt, self.stored_key, self.server_key))
        return {"iterationCount": self.iterations, **dict(zip(("salt", "storedKey", "serverKey"), texts, strict=True))}


def attributes(message: str) -> dict[str, str]:
    """The attributes "k=value" of a message, by letter. Errors: Malformed."""
    parts = [part.partition("=") for part in message.split(",")]
    if any(not equals or len(key) != 1 for key, equals, _ in parts) or len({key for key, _, _ in parts}) < len(parts):
        raise Malformed("not a list of attributes")
    return {key: value for key, _, value in parts}


def unescaped(name: str) -> str:
    """Return a user's name with "," and "=" unescaped. Errors: Malformed."""
    first, *parts = name.split("=")
    if any(part[:2] not in ("2C", "3D") for part in parts):
        raise Malformed("an escape that there is not")
    return first + "".join({"2C": ",", "3D": "="}[part[:2]] + part[2:] for part in parts)


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def decoded(text: str) -> bytes:
    """Errors: Malformed."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Malformed("not base64") from None
