"""The refusals of CQL: each has the code of the native protocol, and a code of MongoDB for replies to commands.

The text is the message that clients of CQL know; a syntax error's begins with `line L:C `, lines counted from 1 and
columns from 0.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError

INVALID = 0x2200
SYNTAX = 0x2000
UNAUTHORIZED = 0x2100
CONFIGURATION = 0x2300
ALREADY_EXISTS = 0x2400
PROTOCOL = 0x000A


class CqlError(CommandError):
    """A refusal. `cql_code`: the error code of the native protocol; `keyspace` and `table` name an element that
    exists already.
    """

    def __init__(
        self, cql_code: int, message: str, code: Code, exception: str, *, keyspace: str = "", table: str = ""
    ) -> None:
        super().__init__(code, message, extra={"wcException": exception, "why": message, "cqlCode": cql_code})
        self.cql_code = cql_code
        self.keyspace = keyspace
        self.table = table


UNAVAILABLE, WRITE_TIMEOUT, READ_TIMEOUT, READ_FAILURE, UNAUTHORIZED = 0x1000, 0x1100, 0x1200, 0x1300, 0x2100


def translated(error: CommandError) -> CommandError:
    """Return an executor's error with the code and the text of CQL; other errors unchanged."""
    if isinstance(error, CqlError):
        return error
    exception, message = str(error.extra.get("wcException", "")), error.message
    if exception == "UnavailableException":
        code = UNAVAILABLE
        message = f"Cannot achieve consistency level {error.extra['consistency']}"
    elif exception == "TimedOutException":
        code = WRITE_TIMEOUT if error.code == Code.WriteConcernFailed else READ_TIMEOUT
        message = f"Operation timed out - received only {error.extra['received']} responses."
    elif exception == "TombstoneOverwhelming":
        code = READ_FAILURE
    elif error.code == Code.Unauthorized:
        code = UNAUTHORIZED
    elif exception in _CODES:
        code = ALREADY_EXISTS if error.code == Code.NamespaceExists else _CODES[exception]
    else:
        return error
    extra = {**error.extra, "why": message, "cqlCode": code}
    return CommandError(error.code, message, extra=extra, labels=error.labels)


_CODES = {"InvalidRequestException": INVALID, "ConfigurationException": CONFIGURATION}


def invalid(message: str) -> CqlError:
    """Return the error for a statement that is invalid for any data."""
    return CqlError(INVALID, message, Code.BadValue, "InvalidRequestException")


def unsupported(feature: str) -> CqlError:
    """A part of CQL that is known and not served."""
    return CqlError(INVALID, f"{feature} not supported", Code.NotImplemented, "InvalidRequestException")


def syntax(line: int, column: int, message: str) -> CqlError:
    return CqlError(SYNTAX, f"line {line}:{column} {message}", Code.FailedToParse, "SyntaxException")


def configuration(message: str) -> CqlError:
    return CqlError(CONFIGURATION, message, Code.BadValue, "ConfigurationException")


def protocol(message: str) -> CqlError:
    return CqlError(PROTOCOL, message, Code.BadValue, "ProtocolException")


def no_keyspace(name: str) -> CqlError:
    return CqlError(INVALID, f"Keyspace '{name}' does not exist", Code.NamespaceNotFound, "InvalidRequestException")


def no_table(name: str) -> CqlError:
    return CqlError(INVALID, f"table {name} does not exist", Code.NamespaceNotFound, "InvalidRequestException")


def keyspace_exists(name: str) -> CqlError:
    return CqlError(
        ALREADY_EXISTS,
        f'Cannot add existing keyspace "{name}"',
        Code.NamespaceExists,
        "AlreadyExistsException",
        keyspace=name,
    )


def table_exists(keyspace: str, name: str) -> CqlError:
    return CqlError(
        ALREADY_EXISTS,
        f'Cannot add already existing table "{name}" to keyspace "{keyspace}"',
        Code.NamespaceExists,
        "AlreadyExistsException",
        keyspace=keyspace,
        table=name,
    )
