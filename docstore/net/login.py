"""How a process proves to another that it is of the same cluster: with its keys, or with its certificate, before
anything else is asked.

The first message goes along with hello, so that it costs one round trip; where another key has to be tried, two more.
Always true: who is talked to has proven to know the key as well, or to have a certificate of the cluster's authority.
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
"""Sends a command and gives the raw reply, whatever that says."""


class NotTaken(Exception):
    """The other process takes none of the keys, or does not know them; the message says why."""


class Login:
    """One authentication. `first` is the key to begin with: the one that this process took before."""

    def __init__(self, keys: ClusterKeys, first: int) -> None:
        self._keys = keys
        self._order = [first, *(index for index in range(len(keys)) if index != first)]
        self._conversation = _conversation()

    def with_hello(self) -> dict[str, Any]:
        """What hello says, as `speculativeAuthenticate`."""
        return {"saslStart": 1, **self._start(), "db": SYSTEM.db}

    async def finish(self, hello: dict[str, Any], say: Say) -> int:
        """Go on after the reply to hello; the key that was taken. Errors: NotTaken, those of `say`."""
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
        known = self._keys.known(index, salt, iterations)
        if known is None:
            known = await asyncio.to_thread(self._keys.derive, index, salt, iterations)
        proof = {"conversationId": reply["conversationId"], "payload": conversation.proof(known), "$db": SYSTEM.db}
        reply = document_to_python(await say({"saslContinue": 1, **proof}))
        conversation.verify(_payload(reply))
        if not reply["done"]:
            raise ScramError("the server does not come to an end")


class CertificateLogin:
    """One authentication by the certificate that the encrypted connection was made with."""

    def with_hello(self) -> dict[str, Any]:
        """What hello says, as `speculativeAuthenticate`."""
        return {"authenticate": 1, "mechanism": X509, "db": EXTERNAL}

    async def finish(self, hello: dict[str, Any], say: Say) -> int:
        """Go on after the reply to hello. Errors: NotTaken, those of `say`."""
        if "speculativeAuthenticate" not in hello:
            reply = document_to_python(await say({"authenticate": 1, "mechanism": X509, "$db": EXTERNAL}))
            if not reply.get("ok"):
                raise NotTaken(str(reply.get("errmsg", "no reason is given")))
        return 0


def _conversation() -> ClientConversation:
    return ClientConversation(MECHANISM, SYSTEM.user, urandom(_NONCE_BYTES))


def _payload(reply: dict[str, Any]) -> bytes:
    """Errors: ScramError for a refusal."""
    if not reply.get("ok", True):
        raise ScramError(str(reply.get("errmsg", "no reason is given")))
    return bytes(reply["payload"])
