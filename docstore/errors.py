"""The three kinds of error.

* `CommandError`: the caller's mistake, or a state of the server that the caller must know about. It carries MongoDB's
  numeric code and codeName and becomes an `ok: 0` reply (or a write error) at the command boundary, nowhere else.
* Errors of the transport (`docstore.net.NetworkError`) and of the disk (`docstore.storage.StorageError`) keep their own
  types: an unknown outcome is never reported as a reply.
* A broken invariant is an `AssertionError` and stops the process.

Codes are those of MongoDB 6.0; drivers match on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class Code(IntEnum):
    """Error codes, named by their codeName."""

    InternalError = 1
    BadValue = 2
    NoSuchKey = 4
    GraphContainsCycle = 5
    HostUnreachable = 6
    HostNotFound = 7
    UnknownError = 8
    FailedToParse = 9
    CannotMutateObject = 10
    UserNotFound = 11
    UnsupportedFormat = 12
    Unauthorized = 13
    TypeMismatch = 14
    Overflow = 15
    InvalidLength = 16
    ProtocolError = 17
    AuthenticationFailed = 18
    CannotReuseObject = 19
    IllegalOperation = 20
    EmptyArrayOperation = 21
    InvalidBSON = 22
    AlreadyInitialized = 23
    LockTimeout = 24
    NamespaceNotFound = 26
    IndexNotFound = 27
    PathNotViable = 28
    NonExistentPath = 29
    RoleNotFound = 31
    CannotBackfillArray = 34
    ConflictingUpdateOperators = 40
    CursorNotFound = 43
    LockBusy = 46
    NoMatchingDocument = 47
    NamespaceExists = 48
    InvalidRoleModification = 49
    MaxTimeMSExpired = 50
    DollarPrefixedFieldName = 52
    InvalidIdField = 53
    NotSingleValueField = 54
    InvalidDBRef = 55
    EmptyFieldName = 56
    DottedFieldName = 57
    CommandNotFound = 59
    ShardKeyNotFound = 61
    StaleShardVersion = 63
    WriteConcernFailed = 64
    MultipleErrorsOccurred = 65
    ImmutableField = 66
    CannotCreateIndex = 67
    IndexAlreadyExists = 68
    ShardNotFound = 70
    ReplicaSetNotFound = 71
    InvalidOptions = 72
    InvalidNamespace = 73
    NodeNotFound = 74
    WriteConcernLegacyOK = 75
    NoReplicationEnabled = 76
    OperationIncomplete = 77
    CommandResultSchemaViolation = 78
    UnknownReplWriteConcern = 79
    IndexOptionsConflict = 85
    IndexKeySpecsConflict = 86
    NetworkTimeout = 89
    CallbackCanceled = 90
    ShutdownInProgress = 91
    SecondaryAheadOfPrimary = 92
    InvalidReplicaSetConfig = 93
    NotYetInitialized = 94
    NotSecondary = 95
    OperationFailed = 96
    UnsatisfiableWriteConcern = 100
    OutdatedClient = 101
    NewReplicaSetConfigurationIncompatible = 103
    NodeNotElectable = 104
    LockFailed = 107
    InconsistentReplicaSetNames = 108
    ConfigurationInProgress = 109
    CannotInitializeNodeWithData = 110
    NotExactValueField = 111
    WriteConflict = 112
    InitialSyncFailure = 113
    CommandNotSupported = 115
    ConflictingOperationInProgress = 117
    NamespaceNotSharded = 118
    OplogStartMissing = 120
    DocumentValidationFailure = 121
    NotAReplicaSet = 123
    IncompatibleElectionProtocol = 124
    CommandFailed = 125
    RPCProtocolNegotiationFailed = 126
    UnrecoverableRollbackError = 127
    LockNotFound = 128
    LockStateChangeFailed = 129
    SymbolNotFound = 130
    FailedToSatisfyReadPreference = 133
    ReadConcernMajorityNotAvailableYet = 134
    StaleTerm = 135
    CappedPositionLost = 136
    JSInterpreterFailure = 139
    InvalidSSLConfiguration = 140
    ExceededMemoryLimit = 146
    StaleEpoch = 150
    ChunkTooBig = 153
    DurationOverflow = 159
    CollectionIsEmpty = 162
    ViewDepthLimitExceeded = 165
    CommandNotSupportedOnView = 166
    OptionNotSupportedOnView = 167
    InvalidPipelineOperator = 168
    CommandOnShardedViewNotSupportedOnMongod = 169
    CannotIndexParallelArrays = 171
    QueryPlanKilled = 175
    ElectionInProgress = 184
    ClientMetadataCannotBeMutated = 186
    PrimarySteppedDown = 189
    AmbiguousIndexKeyPattern = 181
    InvalidViewDefinition = 182
    InvalidIndexSpecificationOption = 197
    ShardingStateNotInitialized = 203
    TimeProofMismatch = 204
    ClusterTimeFailsRateLimiter = 205
    NoSuchSession = 206
    InvalidUUID = 207
    TooManyLocks = 208
    StaleClusterTime = 209
    CannotVerifyAndSignLogicalTime = 210
    KeyNotFound = 211
    IncompleteTransactionHistory = 217
    QueryFeatureNotAllowed = 224
    TransactionTooOld = 225
    MaxSubPipelineDepthExceeded = 232
    RetryChangeStream = 234
    NotImplemented = 238
    SnapshotTooOld = 239
    ConversionFailure = 241
    SnapshotUnavailable = 246
    StaleDbVersion = 249
    StaleChunkHistory = 250
    NoSuchTransaction = 251
    PreparedTransactionInProgress = 267
    TransactionCommitted = 256
    InvalidResumeToken = 260
    TooManyLogicalSessions = 261
    ExceededTimeLimit = 262
    OperationNotSupportedInTransaction = 263
    FailPointSetFailed = 266
    IndexBuildAborted = 276
    UnsatisfiableCommitQuorum = 278
    ClientDisconnect = 279
    ChangeStreamFatalError = 280
    WouldChangeOwningShard = 283
    ChangeStreamHistoryLost = 286
    NoQueryExecutionPlans = 291
    QueryExceededMemoryLimitNoDiskUseAllowed = 292
    DataCorruptionDetected = 301
    APIVersionError = 322
    APIStrictError = 323
    MechanismUnavailable = 334
    AuthenticationAbandoned = 337
    CannotDropShardKeyIndex = 370
    NotWritablePrimary = 10107
    BSONObjectTooLarge = 10334
    DuplicateKey = 11000
    InterruptedAtShutdown = 11600
    Interrupted = 11601
    InterruptedDueToReplStateChange = 11602
    MergeStageNoMatchingDocument = 13113
    DatabaseDifferCase = 13297
    StaleConfig = 13388
    NotPrimaryNoSecondaryOk = 13435
    NotPrimaryOrSecondary = 13436
    OutOfDiskSpace = 14031
    NotARetryableWriteCommand = 50768


STATE_CHANGE_CODES = frozenset(
    (
        Code.NotWritablePrimary,
        Code.NotPrimaryNoSecondaryOk,
        Code.NotPrimaryOrSecondary,
        Code.InterruptedDueToReplStateChange,
        Code.PrimarySteppedDown,
        Code.InterruptedAtShutdown,
        Code.ShutdownInProgress,
    )
)
"""Codes that tell a driver that its picture of the set is out of date."""


NO_CODE = 0
"""For the few refusals to which MongoDB gives no code; their replies have neither `code` nor `codeName`."""


class CommandError(Exception):
    """A refusal with MongoDB's code.

    `code` may be a number that has no name in `Code` (MongoDB uses thousands of location numbers); its codeName is then
    `Location<number>`, as the real server writes it. `extra` holds further reply fields (keyPattern, keyValue, ...).
    """

    def __init__(
        self, code: Code | int, message: str, *, extra: Mapping[str, Any] | None = None, labels: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.extra: dict[str, Any] = dict(extra or {})
        self.labels = labels

    @property
    def code_name(self) -> str:
        try:
            return Code(self.code).name
        except ValueError:
            return f"Location{self.code}"

    def reply(self) -> dict[str, Any]:
        """The fields of the `ok: 0` reply, in the real server's order, but for the labels."""
        body: dict[str, Any] = {"ok": 0.0, "errmsg": self.message}
        if self.code != NO_CODE:
            body |= {"code": self.code, "codeName": self.code_name}
        body.update(self.extra)
        return body

    def __repr__(self) -> str:
        return f"CommandError({self.code_name}, {self.message!r})"


def interrupted(error: CommandError) -> CommandError:
    """Return the error for an operation that is partly done.

    "Not primary" would say that nothing was done, and that the operation may be sent to another member.
    """
    if error.code != Code.NotWritablePrimary:
        return error
    text = "operation was interrupted because the node is no longer primary; some of it may be done"
    return CommandError(Code.InterruptedDueToReplStateChange, text)


def no_scripting() -> CommandError:
    """The refusal of JavaScript by a process that was started without it."""
    return CommandError(31264, "this server runs no JavaScript: it was started with --noscripting")


MOST_MEMBERS = 100 * 1024 * 1024
"""Bytes of the members of one array that an accumulator gathers; they cannot be written to disk."""


def too_many_members(accumulator: str) -> CommandError:
    """Return the error for an accumulator's array that exceeds its memory limit."""
    return CommandError(
        Code.ExceededMemoryLimit,
        f"{accumulator} used too much memory and cannot spill to disk. Memory limit: {MOST_MEMBERS} bytes",
    )
