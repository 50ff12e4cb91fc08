"""Authentication between processes of a cluster, by key or by certificate, before any other command.

The first message is sent with hello, so that a login costs one round trip; each further key to try costs two more. The
peer is authenticated too: it has proven to know the key, or has a certificate of the cluster's authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from os import urandom
from typing import Any

from docstore.bson import document_to_python
from docstore.commands.access.control import X509
from docstore.security.cluster_keys import MECHANISM, ClusterKeys
from docstore.security.names import EXTERNAL, SYSTEM
from docstore.security.scram_client import ClientConversation, ScramError

_NONCE_BYTES = 24

Say = Callable[[dict[str, Any]], Awaitable[bytes]]
"""Sends a command and returns the raw reply, unchecked."""


class NotTaken(Exception):
    """The peer accepts none of the keys, or does not know them; the message has the reason."""


class Login:
    """One authentication by key. `first`: the key to try first, the one that the peer accepted before."""

    def __init__(self, keys: ClusterKeys, first: int) -> None:
        self._keys = keys
        self._order = [first, *(index for index in range(len(keys)) if index != first)]
        self._conversation = _conversation()

    def with_hello(self) -> dict[str, Any]:
        """Return the `speculativeAuthenticate` of hello."""
        return {"saslStart": 1, **self._start(), "db": SYSTEM.db}

    async def finish(self, hello: dict[str, Any], say: Say) -> int:
        """Continue after the reply to hello; return the accepted key. Errors: NotTaken, those of `say`."""
        reason = ""
        reply = hello.get("speculativeAuthenticate")
        for index in self._order:
            if reply is None:
                self._conversation = _conversation()
                reply = document_to_python(await say({"saslStart": 1, **self._start(), "$db": SYSTEM.db}))
            try:
                await self._prove(index, reply, say)
            except ScramError as error:
                reason = str(error)
            except (KeyError, TypeError):
                reason = "an answer is none of SCRAM"
            else:
                return index
            reply = None
        raise NotTaken(reason)

    def _start(self) -> dict[str, Any]:
        payload = self._conversation.first
        return {"mechanism": MECHANISM, "payload": payload, "options": {"skipEmptyExchange": True}}

    async def _prove(self, index: int, reply: dict[str, Any], say: Say) -> None:
        conversation = self._conversation
        salt, iterations = conversation.challenged(_payload(reply))
        derived_keys = self._keys.cached(index, salt, iterations)
        if derived_keys is None:
            derived_keys = await asyncio.to_thread(self._keys.derive, index, salt, iterations)
        proof = {
            "conversationId": reply["conversationId"],
            "payload": conversation.proof(derived_keys),
            "$db": SYSTEM.db,
        }
        reply = document_to_python(await say({"saslContinue": 1, **proof}))
        conversation.verify(_payload(reply))
        if not reply["done"]:
            raise ScramError("the server does not come to an end")


class CertificateLogin:
    """One authentication by the certificate of the TLS connection."""

    def with_hello(self) -> dict[str, Any]:
        """Return the `speculativeAuthenticate` of hello."""
        return {"authenticate": 1, "mechanism": X509, "db": EXTERNAL}

    async def finish(self, hello: dict[str, Any], say: Say) -> int:
        """Finish after the reply to hello. Errors: NotTaken, those of `say`."""
        if "speculativeAuthenticate" not in hello:
            reply = document_to_python(await say({"authenticate": 1, "mechanism": X509, "$db": EXTERNAL}))
            if not reply.get("ok"):
                raise NotTaken(str(reply.get("errmsg", "no reason is given")))
        return 0


def _conversation() -> ClientConversation:
    return ClientConversation(MECHANISM, SYSTEM.user, urandom(_NONCE_BYTES))


def _payload(reply: dict[str, Any]) -> bytes:
    """Return the payload of a reply. Errors: ScramError for a refusal."""
    if not reply.get("ok", True):
        raise ScramError(str(reply.get("errmsg", "no reason is given")))
    return bytes(reply["payload"])
