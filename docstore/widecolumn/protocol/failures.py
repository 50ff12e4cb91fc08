"""Errors of statements as ERROR responses: the code of each, and the fields that clients decide by.

A failover, an election or a lost connection is never a server error: a client that hears one of these codes knows
whether it may send the request again. Unavailable says that nothing was done, a timeout of a write that it may have
been.
"""

from __future__ import annotations

from docstore.errors import Code, CommandError
from docstore.widecolumn.cql.errors import CqlError, translated
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.protocol.opcodes import ErrorCode
from docstore.widecolumn.protocol.responses import Failure

_UNREACHED = frozenset(
    (
        Code.NotWritablePrimary,
        Code.NotPrimaryNoSecondaryOk,
        Code.NotPrimaryOrSecondary,
        Code.HostUnreachable,
        Code.HostNotFound,
        Code.FailedToSatisfyReadPreference,
        Code.UnsatisfiableWriteConcern,
        Code.ShardNotFound,
    )
)
"""Nobody could be asked."""
_UNFINISHED = frozenset(
    (
        Code.InterruptedDueToReplStateChange,
        Code.PrimarySteppedDown,
        Code.InterruptedAtShutdown,
        Code.ShutdownInProgress,
        Code.Interrupted,
        Code.NetworkTimeout,
        Code.MaxTimeMSExpired,
        Code.ExceededTimeLimit,
        Code.WriteConcernFailed,
    )
)
"""The request ended before its outcome was known."""
_BUSY = frozenset(
    (
        Code.StaleConfig,
        Code.StaleDbVersion,
        Code.ConflictingOperationInProgress,
        Code.LockTimeout,
        Code.LockBusy,
        Code.WriteConflict,
        Code.ExceededMemoryLimit,
    )
)
_INVALID = frozenset(
    (
        Code.BadValue,
        Code.FailedToParse,
        Code.TypeMismatch,
        Code.InvalidNamespace,
        Code.InvalidOptions,
        Code.NamespaceNotFound,
        Code.CommandNotSupported,
        Code.IllegalOperation,
        Code.NotImplemented,
        Code.BSONObjectTooLarge,
    )
)


def failure_of(error: CommandError, *, level: Level, write_type: str | None) -> Failure:
    """The contents of the ERROR for an error of a request. `write_type`: None for a read."""
    request_error = translated(error)
    extra = request_error.extra
    code = extra.get("cqlCode")
    message = request_error.message
    if code is None:
        code = _code_of(request_error, write_type)
        if code == ErrorCode.UNAVAILABLE:
            message = f"Cannot achieve consistency level {level.value}"
        elif code in (ErrorCode.WRITE_TIMEOUT, ErrorCode.READ_TIMEOUT):
            message = f"Operation timed out - received only 0 responses. ({request_error.message})"
    named = extra.get("consistency")
    return Failure(
        code=code,
        message=message,
        level=level if named is None else level_named(named),
        required=extra.get("required", 1),
        received=extra.get("alive", extra.get("received", 0)),
        write_type=write_type or "SIMPLE",
        keyspace=request_error.keyspace if isinstance(request_error, CqlError) else "",
        table=request_error.table if isinstance(request_error, CqlError) else "",
    )


def _code_of(error: CommandError, write_type: str | None) -> ErrorCode:
    if error.code in _UNREACHED:
        return ErrorCode.UNAVAILABLE
    if error.code in _UNFINISHED:
        return ErrorCode.READ_TIMEOUT if write_type is None else ErrorCode.WRITE_TIMEOUT
    if error.code in _BUSY:
        return ErrorCode.OVERLOADED
    if error.code == Code.Unauthorized:
        return ErrorCode.UNAUTHORIZED
    if error.code in _INVALID:
        return ErrorCode.INVALID
    return ErrorCode.SERVER_ERROR


def unprepared(statement_id: bytes) -> Failure:
    """The ERROR for an id that is not known here; the client prepares the statement again and repeats the request."""
    return Failure(
        code=ErrorCode.UNPREPARED,
        message=(
            f"Prepared query with ID {statement_id.hex()} not found (either the query was not prepared on this host "
            "(maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from "
            "the internal cache)"
        ),
        statement_id=statement_id,
    )
