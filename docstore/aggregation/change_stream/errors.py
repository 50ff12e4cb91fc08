"""The errors of change streams, and their labels: by these drivers know whether to open the stream anew."""

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
    """The error as a stream's client gets it."""
    label = None
    if error.code in _RESUMABLE_CODES:
        label = RESUMABLE
    elif error.code in (Code.ChangeStreamFatalError, Code.ChangeStreamHistoryLost):
        label = NOT_RESUMABLE
    if label is not None and label not in error.labels:
        error.labels = (*error.labels, label)
    return error


def history_lost() -> CommandError:
    """The error of a stream whose place is no longer in the log."""
    return CommandError(
        Code.ChangeStreamHistoryLost,
        "Resume of change stream was not possible, as the resume point may no longer be in the oplog.",
        labels=(NOT_RESUMABLE,),
    )


def fatal(message: str) -> CommandError:
    """The error of a stream that cannot go on from any place."""
    return CommandError(Code.ChangeStreamFatalError, message, labels=(NOT_RESUMABLE,))
