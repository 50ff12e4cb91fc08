"""A client that logs in to a node in memory."""

from __future__ import annotations

import os
from typing import Any

from bson.binary import Binary

from docstore.commands.client_connection import ClientConnection
from docstore.security.scram import MECHANISMS, SALT_BYTES, SHA_256, Credential, secret_of
from docstore.security.scram_client import conversation
from tests.unit.node.local import LocalNode


def another_client(node: LocalNode, remote: str = "127.0.0.1:10") -> ClientConnection:
    """From now on the node is talked to over a new connection, which is returned."""
    node.peer = ClientConnection(node.peer.id + 1, remote, local="127.0.0.1:1")
    return node.peer


def user_document(user: str, password: str, db: str = "admin", **fields: Any) -> dict[str, Any]:
    """A document of `admin.system.users`, for 5000 iterations."""
    credentials = {
        mechanism: Credential.derived(
            mechanism, secret_of(mechanism, user, password), os.urandom(SALT_BYTES[mechanism]), 5_000
        ).document()
        for mechanism in MECHANISMS
    }
    return {"_id": f"{db}.{user}", "user": user, "db": db, "credentials": credentials, "roles": [], **fields}


async def log_in(
    node: LocalNode, user: str, password: str, db: str = "admin", *, mechanism: str = SHA_256, short: bool = True
) -> dict[str, Any]:
    """The last reply of a conversation: that to the client's proof, or the first that refuses."""
    messages = conversation(mechanism, user, password, os.urandom(24))
    reply = await node.reply(
        {
            "saslStart": 1, "mechanism": mechanism, "payload": Binary(next(messages)),
            "options": {"skipEmptyExchange": short},
        },
        db,
    )  # fmt: skip
    return await continue_login(node, messages, reply, db)


async def continue_login(node: LocalNode, messages: Any, reply: dict[str, Any], db: str = "admin") -> dict[str, Any]:
    """The rest of a conversation, from the reply to its first message."""
    while reply["ok"] and not reply["done"]:
        try:
            payload = messages.send(bytes(reply["payload"]))
        except StopIteration:
            payload = b""
        number = reply["conversationId"]
        reply = await node.reply({"saslContinue": 1, "conversationId": number, "payload": Binary(payload)}, db)
    return reply


async def who(node: LocalNode) -> list[dict[str, Any]]:
    """The users of the present connection."""
    found: list[dict[str, Any]] = (await node.run({"connectionStatus": 1}))["authInfo"]["authenticatedUsers"]
    return found
