"""Errors of change streams, with the labels that tell drivers to resume."""

from __future__ import annotations

from docstore.errors import Code, CommandError

RESUMABLE, NOT_RESUMABLE = "ResumableChangeStreamError", "NonResumableChangeStreamError"

_NETWORK_TIMEOUT, _CONNECTION_POOL_EXPIRED, _SOCKET_EXCEPTION = 89, 317, 9001
_RESUMABLE_CODES = frozenset(
    (
        Code.HostUnreachable, Code.HostNotFound, 63, _NETWORK_TIMEOUT, Code.ShutdownInProgress,
        Code.FailedToSatisfyReadPreference, 150, Code.PrimarySteppedDown, Code.RetryChangeStream,
        Code.ExceededTimeLimit, _CONNECTION_POOL_EXPIRED, _SOCKET_EXCEPTION, Code.NotWritablePrimary,
        Code.InterruptedAtShutdown, Code.InterruptedDueToReplStateChange, Code.NotPrimaryNoSecondaryOk,
        Code.NotPrimaryOrSecondary,
    )
)  # fmt: skip


def labelled(error: CommandError) -> CommandError:
    """Return the error with its label for the stream's client."""
    label = None
    if error.code in _RESUMABLE_CODES:
        label = RESUMABLE
    elif error.code in (Code.ChangeStreamFatalError, Code.ChangeStreamHistoryLost):
        label = NOT_RESUMABLE
    if label is not None and label not in error.labels:
        error.labels = (*error.labels, label)
    return error


def history_lost() -> CommandError:
    """Return the error of a stream whose position is no longer in the oplog."""
    return CommandError(
        Code.ChangeStreamHistoryLost,
        "Resume of change stream was not possible, as the resume point may no longer be in the oplog.",
        labels=(NOT_RESUMABLE,),
    )


def fatal(message: str) -> CommandError:
    """Return the error of a stream that cannot resume at any position."""
    return CommandError(Code.ChangeStreamFatalError, message, labels=(NOT_RESUMABLE,))
