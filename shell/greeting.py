"""The first words on a new connection: who the client is, and the proof of who its user is."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Sequence

from bson.binary import Binary

import docstore
from docstore.security.scram_client import ScramError, conversation
from shell.address import EXTERNAL, X509, Credentials
from shell.wire_client import WireClient


class Refused(Exception):
    """The server does not take the user; the message is for the user."""


def greet(client: WireClient, application: str | None, users: Sequence[Credentials]) -> None:
    """Introduce the application, where it has a name, and authenticate all users. Errors: ConnectionLost, Refused."""
    if application is not None:
        client.hello(
            client={
                "application": {"name": application},
                "driver": {"name": "Docstore shell", "version": docstore.__version__},
                "os": {"type": platform.system(), "architecture": platform.machine()},
            }
        )
    for credentials in users:
        authenticate(client, credentials)


def authenticate(client: WireClient, credentials: Credentials) -> None:
    """Prove to the server of `client` who the user is. Errors: ConnectionLost, Refused."""
    mechanism = credentials.mechanism or _mechanism(client, credentials)
    if mechanism == X509:
        user_field = {"user": credentials.user} if credentials.user else {}
        reply = client.run_document({"authenticate": 1, "mechanism": X509, **user_field, "$db": EXTERNAL})
        if not reply.get("ok"):
            raise Refused(str(reply.get("errmsg")))
        return
    messages = conversation(mechanism, credentials.user, credentials.password, secrets.token_bytes(24))
    database = credentials.source
    try:
        command = {
            "saslStart": 1, "mechanism": mechanism, "payload": Binary(next(messages)),
            "options": {"skipEmptyExchange": True}, "$db": database,
        }  # fmt: skip
        while True:
            reply = client.run_document(command)
            if not reply.get("ok"):
                raise Refused(str(reply.get("errmsg")))
            try:
                payload = messages.send(bytes(reply["payload"]))
            except StopIteration:
                if reply.get("done"):
                    return
                payload = b""
            going_on = {"saslContinue": 1, "conversationId": reply["conversationId"]}
            command = {**going_on, "payload": Binary(payload), "$db": database}
    except (ScramError, KeyError, ValueError) as error:
        raise Refused(f"the server's part of the authentication is wrong: {error}") from error


def _mechanism(client: WireClient, credentials: Credentials) -> str:
    offered = client.hello(saslSupportedMechs=f"{credentials.source}.{credentials.user}").get("saslSupportedMechs", ())
    return "SCRAM-SHA-256" if "SCRAM-SHA-256" in offered else "SCRAM-SHA-1"
