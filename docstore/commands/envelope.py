"""Parsing of a whole request: its command, the envelope fields common to all commands, the command's parameters.

Envelope fields are declared once, in `_FIELDS`; every other field must be a parameter of the command. Each field has an
effect or is refused; none is ignored.

Codes and the order of checks follow MongoDB 6.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from docstore.bson import document_from, elements, get_field, validate
from docstore.bson.walk import ARRAY, BOOL, DOUBLE, INT32, INT64, NULL, OBJECT, STRING
from docstore.commands.access.logins import check_owner
from docstore.commands.access.membership import is_known_to
from docstore.commands.arguments import Arguments, check_required, convert, take, unknown_field
from docstore.commands.client_connection import ClientConnection
from docstore.commands.concerns import (
    ReadConcern,
    ReadLevel,
    parse_read_concern,
    parse_read_preference,
    parse_write_concern,
)
from docstore.commands.context import Context, RequestFields, Services
from docstore.commands.declaration import Command, Parameter, Role, Type, admin_only_error
from docstore.commands.limits import (
    MAX_COMMAND_NAME_BYTES,
    MAX_INTERNAL_BYTES,
    MAX_REQUEST_DEPTH,
    MAX_TIME_MS,
    batch_refused,
    check_internal_size,
)
from docstore.commands.request_templates import templates_of
from docstore.commands.sessions.fields import Session, parse_lsid
from docstore.commands.sessions.transactions import check_statement
from docstore.commands.values import NUMBERS, integer_of, number_of, text_of, truth_of, type_name, wrong_type
from docstore.errors import Code, CommandError
from docstore.namespace import check_database_name
from docstore.query.value.option_fields import option_fields, refuse_duplicate
from docstore.wire.message import Message, Overfull

_NO_FIELD = ("", 0, b"")
_OF_UNREAD = ("lsid", "txnNumber", "autocommit", "maxTimeMS", "$db")
_ONE = (1).to_bytes(4, "little")
_UNLIMITED_LEVELS = frozenset((ReadLevel.LOCAL, ReadLevel.AVAILABLE))


class Envelope:
    """The envelope fields parsed so far; defaults are class attributes. `fields`: the fields of the future context."""

    db: str | None = None
    lsid: bytes | None = None
    txn_number: int | None = None
    stmt_ids: tuple[int, ...] | None = None
    autocommit: bool | None = None
    start_transaction: bool | None = None
    api_version: str | None = None
    api_strict: bool | None = None
    api_deprecation_errors: bool | None = None
    help: bool = False

    def __init__(self) -> None:
        self.fields: RequestFields = {}


def open_request(
    request: Message, connection: ClientConnection, services: Services, started: float
) -> tuple[Context, Arguments]:
    """Parse a request received at `started` (seconds of `services.clock`) into its context and arguments.

    An internal command (`_...`) may be as long as a message.

    Errors: BSONObjectTooLarge, InvalidLength, CommandNotFound, CommandNotSupported, Unauthorized (admin only),
    Location40413 to 40415, TypeMismatch, and those of the fields.
    """
    if len(request.body) > MAX_INTERNAL_BYTES and request.body[5:6] != b"_":
        check_internal_size(request.body)
    templates = templates_of(connection)
    opened = templates.bind(request, started)
    if opened is None:
        opened = _open_document(request, connection, services, started)
        templates.keep(*opened)
    context, arguments = opened
    command = context.command
    if request.sequences:
        _take_sequences(command, request, arguments, connection, services)
    if not command.required.keys() <= arguments.values.keys() and not context.help_asked:
        check_required(command.name, command.required, arguments.sent_values())
    return context, arguments


def unread_context(
    request: Message, connection: ClientConnection, services: Services, started: float
) -> Context | None:
    """Return the context of a request that is not read yet, by which it is seen and killed: it has the command's name,
    and of the envelope the session, database and time limit if they are well formed. None if its command is unknown.
    """
    body = request.body
    end = body.find(b"\0", 5, 5 + MAX_COMMAND_NAME_BYTES)
    command = None if end < 0 else services.table.find(body[5:end].decode("utf-8", "replace"))
    if command is None:
        return None
    envelope_fields: list[tuple[str, int, bytes]] = []
    envelope = Envelope()
    try:
        envelope_fields += [(name, *value) for name in _OF_UNREAD if (value := get_field(body, name)) is not None]
        validate(document_from(envelope_fields), MAX_REQUEST_DEPTH)
        for name, code, data in envelope_fields:
            if name == "lsid":
                envelope.lsid = parse_lsid(code, data, owner=connection.session_owner)
                check_owner(connection, envelope.lsid)
            else:
                _FIELDS[name](envelope, code, data)
    except CommandError:
        envelope_fields, envelope = [], Envelope()
    fields: RequestFields = {"db": envelope.db or ""}
    if envelope.lsid is not None:
        in_transaction = envelope.autocommit is not None
        fields["session"] = Session(envelope.lsid, envelope.txn_number, None, in_transaction)
    if envelope.fields.get("max_time_ms"):
        fields["deadline"] = started + envelope.fields["max_time_ms"] / 1000
    stub = request._replace(body=document_from([(command.name, INT32, _ONE), *envelope_fields]), sequences={})
    return Context(command, stub, connection, services, started, fields)


def _open_document(
    request: Message, connection: ClientConnection, services: Services, started: float
) -> tuple[Context, Arguments]:
    """Parse the request's document, without its document sequences."""
    validate(request.body, MAX_REQUEST_DEPTH)
    listed = elements(request.body)
    fields = iter(listed)
    spelling, value_code, value_data = next(fields, _NO_FIELD)
    command = services.table.get(spelling)
    refuse_duplicate("APIParametersFromClient", [name for name, _, _ in listed])
    envelope = Envelope()
    parameters = command.by_name
    own: list[tuple[Parameter, int, bytes]] = []
    for name, code, data in fields:
        reader = _FIELDS.get(name)
        if name == "lsid":
            envelope.lsid = parse_lsid(code, data, owner=connection.session_owner)
            check_owner(connection, envelope.lsid)
        elif reader is not None:
            reader(envelope, code, data)
        elif is_known_to(services.access, connection, command, parameters.get(name)):
            own.append((parameters[name], code, data))
        elif not command.tolerant:
            # Check the fields before it first.
            for parameter, kind, content in own:
                take(command.name, parameter, kind, content, "", {})
            raise unknown_field(command.name, name)
    db = envelope.db
    if db is None:
        raise CommandError(40571, "OP_MSG requests require a $db argument")
    envelope.fields["db"] = db
    values: dict[str, Any] = {}
    for parameter, code, data in own:
        take(command.name, parameter, code, data, db, values)
    arguments = Arguments(parameters, values, _value(command, value_code, value_data, db))
    if command.names_collection and isinstance(arguments.value, str):
        envelope.fields["namespace"] = f"{db}.{arguments.value}"
    _finish(envelope, command, started)
    return Context(command, request, connection, services, started, envelope.fields), arguments


def addressee(request: Message) -> tuple[str, str]:
    """Return (command name, database) of a request that may be malformed: "" for an unreadable part."""
    try:
        fields = list(elements(request.body))
        databases = [text_of(data) for name, code, data in fields if name == "$db" and code == STRING]
    except (CommandError, UnicodeDecodeError):
        return "", ""
    return fields[0][0] if fields else "", databases[0] if len(databases) == 1 else ""


def _value(command: Command, code: int, data: bytes, db: str) -> Any:
    if command.value is Type.ANY:
        return code, data
    if command.value is Type.COLLECTION and code != STRING:
        raise CommandError(command.wrong_name, f"collection name has invalid type {type_name(code)}")
    return convert(f"{command.name}.{command.name}", command.value, code, data, db)


def _take_sequences(
    command: Command, request: Message, arguments: Arguments, connection: ClientConnection, services: Services
) -> None:
    for name, documents in request.sequences.items():
        if isinstance(documents, Overfull):
            raise batch_refused(documents.total)
        parameter = command.by_name.get(name)
        is_known = is_known_to(services.access, connection, command, parameter)
        if not is_known or parameter is None or not _is_documents(parameter):
            raise unknown_field(command.name, name)
        if name in arguments:
            raise CommandError(40433, f"Duplicate field between body and document sequence {name}")
        if name != "documents":
            # Documents to store are checked when they are stored, more strictly.
            for document in documents:
                validate(document, MAX_REQUEST_DEPTH)
        arguments.set(name, documents)


def _is_documents(parameter: Parameter) -> bool:
    return parameter.type is Type.DOCUMENTS or Type.DOCUMENTS in parameter.types


def _finish(envelope: Envelope, command: Command, started: float) -> None:
    """Check and convert fields that depend on others, once all are parsed."""
    fields = envelope.fields
    if command.admin_only and envelope.db != "admin":
        raise admin_only_error(command)
    if envelope.api_version is not None:
        _check_api(envelope, command)
    elif envelope.api_strict is not None or envelope.api_deprecation_errors is not None:
        raise CommandError(4886600, "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion")
    txn_number = envelope.txn_number
    if txn_number is not None or envelope.autocommit is not None or envelope.start_transaction is not None:
        _check_transaction(envelope, command)
    in_transaction = envelope.autocommit is not None
    if envelope.lsid is not None:
        starts = envelope.start_transaction is not None
        fields["session"] = Session(envelope.lsid, txn_number, envelope.stmt_ids, in_transaction, starts)
    if in_transaction:
        concerns = fields.get("read_concern"), "write_concern" in fields
        check_statement(command, envelope.db or "", first=envelope.start_transaction is not None, concerns=concerns)
    if "write_concern" in fields and not command.takes_write_concern:
        raise CommandError(Code.InvalidOptions, "Command does not support writeConcern")
    if "read_concern" in fields and not in_transaction:
        _check_read_concern(fields["read_concern"], command)
    if fields.get("max_time_ms"):
        fields["deadline"] = started + fields["max_time_ms"] / 1000
    if envelope.help:
        fields["help_asked"] = True


def _check_read_concern(concern: ReadConcern, command: Command) -> None:
    if concern.level is ReadLevel.SNAPSHOT and not command.snapshot_reads:
        raise CommandError(
            Code.InvalidOptions, f"Command {command.name} does not support readConcern level 'snapshot' here"
        )
    # A write is always after a gossiped cluster time: its timestamp is above all of them.
    timed = concern.after_cluster_time is not None and command.role is not Role.PRIMARY
    if not command.read_concern and (timed or concern.level not in _UNLIMITED_LEVELS):
        raise CommandError(
            Code.InvalidOptions,
            f"Command {command.name} does not support readConcern level '{concern.level.value}' or a cluster time",
        )


def _check_transaction(envelope: Envelope, command: Command) -> None:
    if envelope.lsid is None:
        raise CommandError(Code.InvalidOptions, "Transaction number requires a session ID to also be specified")
    if envelope.autocommit is not None and envelope.txn_number is None:
        raise CommandError(Code.InvalidOptions, "'autocommit' field requires a transaction number to also be specified")
    if envelope.start_transaction is not None and envelope.autocommit is None:
        raise CommandError(
            Code.InvalidOptions, "'startTransaction' field requires 'autocommit' field to also be specified"
        )
    if envelope.txn_number is not None and envelope.txn_number < 0:
        raise CommandError(Code.InvalidOptions, "Transaction number cannot be negative")
    if envelope.autocommit:
        raise CommandError(Code.InvalidOptions, "Specifying autocommit=true is not allowed.")
    if envelope.start_transaction is False:
        raise CommandError(Code.InvalidOptions, "Specifying startTransaction=false is not allowed.")
    if envelope.autocommit is None and not command.retryable:
        raise CommandError(
            Code.NotARetryableWriteCommand,
            "txnNumber may only be provided for multi-document transactions and retryable write commands. "
            f"autocommit:false was not provided, and {command.name} is not a retryable write command.",
        )


def _check_api(envelope: Envelope, command: Command) -> None:
    if envelope.api_version != "1":
        raise CommandError(Code.APIVersionError, f"Cannot accept API version {envelope.api_version}")
    envelope.fields["api_version"] = envelope.api_version
    if envelope.api_strict:
        envelope.fields["api_strict"] = True
        if not command.stable:
            raise CommandError(
                Code.APIStrictError,
                f"Provided apiStrict:true, but the command {command.name} is not in API Version 1.",
            )


@lru_cache(maxsize=1024)
def _database(data: bytes) -> str:
    db = text_of(data)
    check_database_name(db)
    return db


def _db(envelope: Envelope, code: int, data: bytes) -> None:
    if code != STRING:
        raise CommandError(13111, f"wrong type for field ($db) {type_name(code)} != string")
    envelope.db = _database(data)


def _txn_number(envelope: Envelope, code: int, data: bytes) -> None:
    if code != INT64:
        raise wrong_type("OperationSessionInfo.txnNumber", code, "long")
    envelope.txn_number = integer_of(code, data)


def _stmt_id(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.stmt_ids = (_int32("OperationSessionInfo.stmtId", code, data),)


def _stmt_ids(envelope: Envelope, code: int, data: bytes) -> None:
    if code != ARRAY:
        raise wrong_type("OperationSessionInfo.stmtIds", code, "array")
    envelope.stmt_ids = tuple(
        _int32(f"OperationSessionInfo.stmtIds.{name}", kind, value) for name, kind, value in elements(data)
    )


def _int32(field: str, code: int, data: bytes) -> int:
    if code != INT32:
        raise wrong_type(field, code, "int")
    return integer_of(code, data)


def _autocommit(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.autocommit = _boolean("OperationSessionInfo.autocommit", code, data)


def _start_transaction(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.start_transaction = _boolean("OperationSessionInfo.startTransaction", code, data)


def _boolean(field: str, code: int, data: bytes) -> bool:
    if code != BOOL:
        raise wrong_type(field, code, "bool")
    return data != b"\0"


def _read_preference(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.fields["read_preference"] = parse_read_preference(code, data)


def _query_options(envelope: Envelope, code: int, data: bytes) -> None:
    # The form in which clients before 3.6 sent the read preference to mongos.
    if code != OBJECT:
        raise wrong_type("$queryOptions", code, "object")
    inner = option_fields("$queryOptions", data).get("$readPreference")
    if inner is not None:
        _read_preference(envelope, *inner)


def _cluster_time(envelope: Envelope, code: int, data: bytes) -> None:
    if code != OBJECT:
        raise CommandError(10065, "$clusterTime must be an object")
    envelope.fields["cluster_time"] = data


def _read_concern(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.fields["read_concern"] = parse_read_concern(code, data)
    envelope.fields["explicit_read_concern"] = True


def _write_concern(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.fields["write_concern"] = parse_write_concern(code, data)
    envelope.fields["explicit_write_concern"] = True


def _max_time_ms(envelope: Envelope, code: int, data: bytes) -> None:
    if code not in NUMBERS:
        raise CommandError(Code.BadValue, "maxTimeMS must be a number")
    if code == DOUBLE and not float(number_of(code, data)).is_integer():
        raise CommandError(Code.BadValue, "maxTimeMS has non-integral value")
    milliseconds = integer_of(code, data)
    if not 0 <= milliseconds <= MAX_TIME_MS:
        raise CommandError(Code.BadValue, f"{milliseconds} value for maxTimeMS is out of range")
    envelope.fields["max_time_ms"] = milliseconds


def _comment(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.fields["comment"] = (code, data)


def _api_version(envelope: Envelope, code: int, data: bytes) -> None:
    if code != STRING:
        raise wrong_type("APIParametersFromClient.apiVersion", code, "string")
    envelope.api_version = text_of(data)


def _api_strict(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.api_strict = _boolean("APIParametersFromClient.apiStrict", code, data)


def _api_deprecation_errors(envelope: Envelope, code: int, data: bytes) -> None:
    # Version 1 of the API has no deprecated features, so nothing is refused.
    envelope.api_deprecation_errors = _boolean("APIParametersFromClient.apiDeprecationErrors", code, data)


def _shard_version(envelope: Envelope, code: int, data: bytes) -> None:
    if code != OBJECT:
        raise CommandError(10065, "shardVersion must be an object")
    envelope.fields["shard_version"] = data


def _help(envelope: Envelope, code: int, data: bytes) -> None:
    envelope.help = code != NULL and (code not in (BOOL, *NUMBERS) or truth_of(code, data))


_FIELDS: dict[str, Callable[[Envelope, int, bytes], None]] = {
    "$clusterTime": _cluster_time,
    "$db": _db,
    "$queryOptions": _query_options,
    "$readPreference": _read_preference,
    "apiDeprecationErrors": _api_deprecation_errors,
    "apiStrict": _api_strict,
    "apiVersion": _api_version,
    "autocommit": _autocommit,
    "comment": _comment,
    "help": _help,
    "maxTimeMS": _max_time_ms,
    "readConcern": _read_concern,
    "shardVersion": _shard_version,
    "startTransaction": _start_transaction,
    "stmtId": _stmt_id,
    "stmtIds": _stmt_ids,
    "txnNumber": _txn_number,
    "writeConcern": _write_concern,
}
ENVELOPE_FIELDS = frozenset((*_FIELDS, "lsid"))
"""The names of envelope fields, which no parameter may have."""
