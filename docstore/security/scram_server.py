"""The server's side of SCRAM: a conversation of two messages and their answers.

Invariant: a login as an unknown user looks like one with a wrong password: the same messages, and the same
calculations.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from docstore.security.names import UserName
from docstore.security.scram import SALT_BYTES, Credential, Malformed, attributes, decoded, digest_of, unescaped

MAX_FIRST_BYTES = 8192
"""A conversation keeps its first message, and a stranger may begin one on each connection."""


class ClientFirst:
    """The first message of a client. Errors: Malformed for an invalid message, or one with an unsupported feature:
    channel binding, or acting for another user.
    """

    def __init__(self, payload: bytes, db: str) -> None:
        if len(payload) > MAX_FIRST_BYTES:
            raise Malformed("longer than any name and nonce")
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            raise Malformed("not UTF-8") from None
        binding, _, remaining_text = text.partition(",")
        other, comma, self.bare = remaining_text.partition(",")
        if binding not in ("n", "y") or not comma:
            raise Malformed("no header of SCRAM")
        self.header = f"{binding},{other},".encode()
        fields = attributes(self.bare)
        if list(fields)[:2] != ["n", "r"] or not fields["n"] or not fields["r"]:
            raise Malformed("no name and nonce")
        self.name = UserName(unescaped(fields["n"]), db)
        self.nonce = fields["r"]
        if other and other != f"a={fields['n']}":
            raise Malformed("one user acting for another")


class ServerConversation:
    """The server's side, from a client's first message to the server's proof. `challenge` answers the first message.

    `credential` None: the user does not exist, or has none for the mechanism; `prove` then refuses every proof.
    `alternatives`: further accepted credentials of the user, with the same salt and iterations.
    """

    def __init__(
        self, first: ClientFirst, credential: Credential | None, pretended: Credential, nonce: bytes,
        alternatives: Sequence[Credential] = (),
    ) -> None:  # fmt: skip
        """`pretended`: used without a credential. `nonce`: random bytes."""
        self.name = first.name
        self._alternatives = alternatives
        self._known = credential is not None
        self._credential = credential or pretended
        self._header = first.header
        self._nonce = first.nonce + base64.b64encode(nonce).decode()
        salt = base64.b64encode(self._credential.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._bare = first.bare

    @property
    def challenge(self) -> bytes:
        return self._challenge.encode()

    def prove(self, payload: bytes) -> bytes | None:
        """Return the server's proof in answer to the client's; None if the client's is wrong. Errors: Malformed."""
        try:
            without_proof, _, proof_text = payload.decode().rpartition(",p=")
        except UnicodeDecodeError:
            raise Malformed("not UTF-8") from None
        fields = attributes(without_proof)
        if decoded(fields.get("c", "")) != self._header or fields.get("r") != self._nonce:
            raise Malformed("another channel or nonce")
        proof = decoded(proof_text)
        signed = ",".join((self._bare, self._challenge, without_proof)).encode()
        for credential in (self._credential, *self._alternatives):
            if _proves(credential, proof, signed):
                if not self._known:
                    return None
                signature = hmac.digest(credential.server_key, signed, digest_of(credential.mechanism))
                return b"v=" + base64.b64encode(signature)
        return None


def _proves(credential: Credential, proof: bytes, signed: bytes) -> bool:
    """True if the proof is right. Errors: Malformed for a proof of another length."""
    digest = digest_of(credential.mechanism)
    signature = hmac.digest(credential.stored_key, signed, digest)
    if len(proof) != len(signature):
        raise Malformed("a proof of another length")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)


def pretended_credential(mechanism: str, name: UserName, secret: bytes, iterations: int) -> Credential:
    """Return the credential that an unknown user seems to have: the same at every attempt while `secret` stays the
    same.
    """

    def part(label: str, size: int) -> bytes:
        digest = hmac.digest(secret, f"{label} {mechanism} {name.key}".encode(), "sha512")
        return digest[:size]

    size = hashlib.new(digest_of(mechanism)).digest_size
    return Credential(
        mechanism, iterations, part("salt", SALT_BYTES[mechanism]), part("stored", size), part("server", size)
    )
