"""Rules of multi-document transactions for all processes: the commands and options allowed in one, and its transient
errors.

- A request is part of a transaction exactly if it has `autocommit: false`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.bson import ARRAY, OBJECT, elements, get_field, values
from docstore.bson.build import DocumentParts
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.commands.declaration import Command, Resource, Result, Role
from docstore.errors import STATE_CHANGE_CODES, Code, CommandError

if TYPE_CHECKING:
    pass

TRANSIENT_LABEL = "TransientTransactionError"
ENDING = frozenset(("prepareTransaction", "commitTransaction", "abortTransaction", "coordinateCommitTransaction"))
"""Commands that end a transaction, or prepare its end."""
READ_ONLY = "readOnly"
"""The field of a shard's reply that tells that the transaction has written nothing there."""
_ERRORS = {"insert": "writeErrors", "update": "writeErrors", "delete": "writeErrors", "bulkWrite": "nErrors"}
"""The reply fields that report failed statements, by command."""
_LEVELS = frozenset((ReadLevel.LOCAL, ReadLevel.MAJORITY, ReadLevel.SNAPSHOT))
_OUTPUT_STAGES = frozenset(("$out", "$merge"))
_PROCESS_STAGES = frozenset(("$changeStream", "$currentOp", "$listLocalSessions", "$listSessions", "$planCacheStats"))
_OTHER_STAGES = frozenset(("$collStats", "$indexStats", "$unionWith"))
_INSTEAD_OF_COUNT = " Please see http://dochub.mongodb.org/core/transaction-count for a recommended alternative."

_ALWAYS_TRANSIENT = frozenset(
    (
        Code.WriteConflict, Code.LockTimeout, Code.SnapshotUnavailable, Code.SnapshotTooOld, Code.StaleShardVersion,
        Code.StaleConfig, Code.StaleEpoch, Code.StaleDbVersion, Code.StaleChunkHistory,
        Code.PreparedTransactionInProgress,
    )
)  # fmt: skip
_TRANSIENT_IN_STATEMENTS = STATE_CHANGE_CODES | {
    Code.NoSuchTransaction,
    Code.HostUnreachable,
    Code.HostNotFound,
    Code.NetworkTimeout,
    Code.ExceededTimeLimit,
    9001,
}


def is_transient(code: int, *, ends: bool) -> bool:
    """True if the whole transaction may be retried after that error.

    `ends`: the command ends the transaction, so an uncertain outcome is not transient.
    """
    if ends:
        return code in (Code.NoSuchTransaction, *_ALWAYS_TRANSIENT)
    return code in _ALWAYS_TRANSIENT or code in _TRANSIENT_IN_STATEMENTS


def check_statement(command: Command, db: str, *, first: bool, concerns: tuple[ReadConcern | None, bool]) -> None:
    """Refuse a request that cannot be part of a transaction, before it joins.

    `first`: it begins the transaction. `concerns`: its read concern, and True if it has a write concern. Errors:
    OperationNotSupportedInTransaction, InvalidOptions.
    """
    ends = command.name in ENDING
    if not (command.in_transactions or ends):
        raise CommandError(Code.OperationNotSupportedInTransaction, _unsupported(command))
    if first and (ends or command.name == "killCursors"):
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            f"Cannot run {command.name} as the first operation in a multi-document transaction.",
        )
    check_database(db)
    read_concern, has_write_concern = concerns
    if has_write_concern and not ends:
        raise CommandError(Code.InvalidOptions, "writeConcern is not allowed within a multi-statement transaction")
    if read_concern is None:
        return
    if not first:
        raise CommandError(Code.InvalidOptions, "Only the first command in a transaction may specify a readConcern")
    if read_concern.level not in _LEVELS:
        raise CommandError(
            Code.InvalidOptions,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a"
            " transaction",
        )


def check_database(db: str) -> None:
    """Errors: OperationNotSupportedInTransaction for a database excluded from transactions."""
    if db == "local":
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            "Cannot run command against the 'local' database in a transaction.",
        )
    if db == "config":
        raise CommandError(
            Code.OperationNotSupportedInTransaction, "Cannot run command against the config database in a transaction."
        )


def reports_errors(command: Command, reply: Result) -> bool:
    """True if the reply of a write with several statements reports a failed one."""
    field = _ERRORS.get(command.name)
    if field is None or isinstance(reply, DocumentParts):
        return False
    if isinstance(reply, dict):
        return bool(reply.get(field))
    errors = get_field(reply, field)
    return errors is not None and any(errors[1])


def _unsupported(command: Command) -> str:
    if command.role is Role.ANY and command.privilege.resource is Resource.NONE:
        return "This command is not supported in transactions"
    instead = _INSTEAD_OF_COUNT if command.name == "count" else ""
    return f"Cannot run '{command.name}' in a multi-document transaction.{instead}"


def check_stages(stages: list[bytes]) -> None:
    """Refuse a pipeline not allowed in transactions. Errors: OperationNotSupportedInTransaction."""
    for stage in stages:
        for name, code, value in elements(stage)[:1]:
            refused = None
            if name in _OUTPUT_STAGES:
                refused = f"{name} cannot be used in a transaction"
            elif name in _PROCESS_STAGES:
                refused = (
                    "Operation not permitted in transaction :: caused by :: "
                    f"Aggregation stage {name} cannot run within a multi-document transaction."
                )
            elif name in _OTHER_STAGES:
                refused = f"Stage not supported inside of a multi-document transaction: {name}"
            if refused is not None:
                raise CommandError(Code.OperationNotSupportedInTransaction, refused)
            if code == OBJECT and name in ("$lookup", "$facet"):
                inner = [(kind, data) for _, kind, data in elements(value) if kind == ARRAY]
                for _, data in inner:
                    check_stages([member for kind, member in values(data) if kind == OBJECT])
