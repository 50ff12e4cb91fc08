"""SASL conversations of clients, one at a time per connection.

- A failed conversation is over. Its error is AuthenticationFailed, for any reason; the reason is logged.
- No message of a conversation is ever logged.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from docstore.bson import document_to_python
from docstore.bson.walk import BINARY, BOOL, OBJECT, STRING, Value
from docstore.commands.access.control import X509, AccessControl
from docstore.commands.access.conversation import Conversation
from docstore.commands.access.logins import client_address, keep_apart, log_in, may_be
from docstore.commands.context import Context
from docstore.commands.values import text_of, type_name
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.query.value.option_fields import option_fields
from docstore.security.names import EXTERNAL, SYSTEM, UserName
from docstore.security.scram import Malformed
from docstore.security.scram_server import ClientFirst, ServerConversation
from docstore.security.users import KnownBy, User

LOG = component("ACCESS")
CONVERSATION_ID = 1
"""A connection has one conversation at a time, so all have the same id."""


def failed() -> CommandError:
    return CommandError(Code.AuthenticationFailed, "Authentication failed.")


def _unavailable(context: Context, mechanism: str, name: UserName | None) -> CommandError:
    _note(context, mechanism, name, Code.MechanismUnavailable)
    return CommandError(
        Code.MechanismUnavailable, f"Received authentication for mechanism {mechanism} which is not enabled"
    )


def payload_of(value: Value) -> bytes:
    """Return a message of a conversation: binary, or base64 from old clients. Errors: BadValue."""
    code, data = value
    if code == BINARY:
        return data[5:]
    if code != STRING:
        payload_type = type_name(code)
        raise CommandError(Code.BadValue, f"Invalid SASLPayload type. Expected Base64 or BinData, got: {payload_type}")
    try:
        return base64.b64decode(text_of(data), validate=True)
    except (binascii.Error, ValueError):
        raise CommandError(Code.BadValue, "Invalid base64 in the payload") from None


async def mechanisms_for(context: Context, argument: str | bytes) -> list[str]:
    """Return the mechanisms by which a user may authenticate; `argument`: "db.user" or a document `{user, db}`.

    The reply for an unknown user resembles that of a known one, so that names cannot be probed.
    """
    access = context.services.access
    credentials, profile = await access.known_by(_parse_user_name(argument))
    user_mechanisms = profile if credentials is None else credentials
    return [name for name in access.mechanisms if name != X509 and name in user_mechanisms]


def _parse_user_name(argument: str | bytes) -> UserName:
    if isinstance(argument, bytes):
        fields = document_to_python(argument)
        for field in ("user", "db"):
            if not isinstance(fields.get(field), str):
                raise CommandError(Code.BadValue, f"UserName must contain a field named: {field}")
        return UserName(fields["user"], fields["db"])
    db, dot, user = argument.partition(".")
    if not dot:
        raise CommandError(Code.BadValue, "UserName must contain a '.' separated database.user pair")
    return UserName(user, db)


async def speculate(context: Context, argument: bytes) -> dict[str, Any] | None:
    """Return the reply to a conversation's first message that came with hello.

    None if it fails, and the client has to start again. Errors: 40413; 51769 for a message that starts no conversation.
    """
    fields = option_fields("hello.speculativeAuthenticate", argument)
    name = next(iter(fields), "")
    if name not in ("saslStart", "authenticate"):
        raise CommandError(51769, f"hello.speculativeAuthenticate unknown command: {name}")
    mechanism, payload, db = (fields.get(field) for field in ("mechanism", "payload", "db"))
    if mechanism is None or mechanism[0] != STRING or (db is not None and db[0] != STRING):
        return None
    if name == "authenticate":
        authentication_db = EXTERNAL if db is None else text_of(db[1])
        return await _speculate_on_certificate(context, text_of(mechanism[1]), authentication_db, fields.get("user"))
    if payload is None or db is None:
        return None
    options = fields.get("options")
    if options is None or options[0] != OBJECT:
        short = None
    else:
        short = option_fields("saslStart.options", options[1]).get("skipEmptyExchange")
    try:
        reply = await start(
            context, text_of(mechanism[1]), payload_of(payload), text_of(db[1]), short=short == (BOOL, b"\1")
        )
    except CommandError:
        return None
    conversation = context.connection.conversation
    if conversation is not None and conversation.hopeless:
        # Without a reply the client picks a mechanism from `saslSupportedMechs`.
        context.connection.conversation = None
        return None
    return reply


async def _speculate_on_certificate(
    context: Context, mechanism: str, db: str, user: Value | None
) -> dict[str, Any] | None:
    try:
        name = text_of(user[1]) if user is not None and user[0] == STRING else None
        return await by_certificate(context, mechanism, name, db)
    except CommandError:
        return None


async def by_certificate(context: Context, mechanism: str, user: str | None, db: str) -> dict[str, Any]:
    """Authenticate as the subject of the client's certificate, and return the reply. `user`: the name the client
    claims.

    Errors: MechanismUnavailable, ProtocolError, AuthenticationFailed, and those of `log_in`.
    """
    access, connection, security = context.services.access, context.connection, context.services.transport_security
    subject = connection.subject
    if mechanism != X509:
        raise _unavailable(context, mechanism, None)
    if security is None or subject is None:
        _note(context, mechanism, None, Code.AuthenticationFailed)
        raise CommandError(Code.AuthenticationFailed, "No verified subject name available from client")
    name = UserName(subject.text, EXTERNAL)
    if db != EXTERNAL:
        raise CommandError(Code.ProtocolError, "X.509 authentication must always use the $external database.")
    if user is not None and user != subject.text:
        _note(context, mechanism, name, Code.AuthenticationFailed)
        raise CommandError(Code.AuthenticationFailed, "There is no x.509 client certificate matching the user.")
    generation = access.directory.generation
    keys = access.keys
    if keys is not None and keys.mode.takes_certificates and security.subject.is_member_with(subject):
        account: User | None = keys.user
    elif X509 not in access.mechanisms:
        raise _unavailable(context, mechanism, name)
    else:
        account = await access.find(name)
    if account is None:
        raise _refused(context, mechanism, name, "there is no such user")
    _admit(context, mechanism, account, generation)
    return {"dbname": EXTERNAL, "user": subject.text}


async def start(context: Context, mechanism: str, payload: bytes, db: str, *, short: bool) -> dict[str, Any]:
    """Start a conversation; return the reply to its first message. Errors: MechanismUnavailable,
    AuthenticationFailed.
    """
    access, connection, audit = context.services.access, context.connection, context.services.audit
    if audit is not None:
        audit.abandoned(connection)
    connection.conversation = None
    try:
        first = ClientFirst(payload, db)
    except Malformed as error:
        if mechanism not in access.mechanisms or mechanism == X509:
            raise _unavailable(context, mechanism, None) from None
        raise _refused(context, mechanism, None, str(error)) from None
    if not access.takes(mechanism, first.name):
        raise _unavailable(context, mechanism, first.name)
    if first.name != SYSTEM:
        # A delayed client is no process of the cluster.
        delay = access.attempts.delay(client_address(connection), first.name, context.services.clock())
        if delay:
            await access.pause(delay)
    credentials = await access.known_by(first.name)
    connection.conversation = _begin_scram(access, mechanism, first, credentials, short)
    return _reply(connection.conversation.scram.challenge, done=False)


def _begin_scram(
    access: AccessControl,
    mechanism: str,
    first: ClientFirst,
    credentials_and_profile: KnownBy,
    short: bool,
) -> Conversation:
    credentials, profile = credentials_and_profile
    pretended = access.pretended(mechanism, first.name, profile)
    credential = None if credentials is None else credentials.get(mechanism)
    member = first.name == SYSTEM and credential is not None
    alternatives = access.keys.credentials[1:] if access.keys is not None and member else ()
    scram = ServerConversation(first, credential, pretended, access.random_bytes(24), alternatives)
    hopeless = mechanism not in (profile if credentials is None else credentials)
    return Conversation(mechanism, scram, credential, hopeless=hopeless, short=short)


async def proceed(context: Context, conversation_id: int, payload: bytes) -> dict[str, Any]:
    """Return the reply to a further message.

    Errors: ProtocolError without a conversation, AuthenticationFailed, and those of `log_in`.
    """
    connection = context.connection
    conversation = connection.conversation
    if conversation is None:
        raise CommandError(Code.ProtocolError, "No SASL session state found")
    if conversation_id != CONVERSATION_ID:
        raise CommandError(Code.ProtocolError, "sasl: Mismatched conversation id")
    connection.conversation = None
    if conversation.proven:
        if payload:
            raise _refused(context, conversation.mechanism, conversation.scram.name, "a message after the last one")
        return await _done(context, conversation, b"")
    try:
        proof = conversation.scram.prove(payload)
    except Malformed as error:
        raise _refused(context, conversation.mechanism, conversation.scram.name, str(error)) from None
    if proof is None:
        reason = "there is no such user" if conversation.credential is None else "the password is wrong"
        raise _refused(context, conversation.mechanism, conversation.scram.name, reason)
    if conversation.short:
        return await _done(context, conversation, proof)
    conversation.proven = True
    connection.conversation = conversation
    return _reply(proof, done=False)


async def _done(context: Context, conversation: Conversation, payload: bytes) -> dict[str, Any]:
    assert conversation.credential is not None, "nobody has proven to be someone who does not exist"
    access, mechanism, name = context.services.access, conversation.mechanism, conversation.scram.name
    generation = access.directory.generation
    user = await access.find(name)
    if user is None or user.credentials.get(mechanism) != conversation.credential:
        # The cached user is older than the credentials just proven.
        access.directory.invalidate()
        generation = access.directory.generation
        user = await access.find(name)
    if user is None:
        raise _refused(context, mechanism, name, "there is no such user any more")
    if name != SYSTEM and user.credentials.get(mechanism) != conversation.credential:
        raise _refused(context, mechanism, name, "the password was changed after the conversation began")
    _admit(context, mechanism, user, generation)
    return _reply(payload, done=True)


def _admit(context: Context, mechanism: str, user: User, generation: int) -> None:
    """Log the client in as the user it has proven to be. Errors: AuthenticationFailed, and those of `log_in`."""
    connection = context.connection
    if not may_be(connection, user):
        raise _refused(context, mechanism, user.name, "the client's address is not allowed")
    try:
        log_in(connection, user, generation)
    except CommandError as error:
        _note(context, mechanism, user.name, int(error.code))
        raise
    _note(context, mechanism, user.name, 0)
    if context.services.access.enabled:
        keep_apart(connection)
    log = LOG.debug if user.name == SYSTEM else LOG.info
    log(
        "Authentication succeeded", mechanism=mechanism, user=user.name.user, db=user.name.db,
        remote=connection.remote,
    )  # fmt: skip


def _reply(payload: bytes, *, done: bool) -> dict[str, Any]:
    return {"conversationId": CONVERSATION_ID, "done": done, "payload": payload}


def _refused(context: Context, mechanism: str, name: UserName | None, reason: str) -> CommandError:
    """Record a failed attempt and return its error."""
    if name is not None:
        context.services.access.attempts.failed(client_address(context.connection), name, context.services.clock())
    _note(context, mechanism, name, Code.AuthenticationFailed)
    name_fields = {} if name is None else {"user": name.user, "db": name.db}
    LOG.info(
        "Authentication failed", mechanism=mechanism, **name_fields, remote=context.connection.remote, reason=reason
    )
    return failed()


def _note(context: Context, mechanism: str, name: UserName | None, code: int) -> None:
    """Write the outcome of an authentication to the audit log."""
    audit = context.services.audit
    if audit is not None:
        user_name = name or UserName("", context.db)
        audit.note(context.connection, "authenticate", {**user_name.document(), "mechanism": mechanism}, code)
