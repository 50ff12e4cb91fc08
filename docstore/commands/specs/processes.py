"""Commands about a process: handshake, status, shutdown."""

from __future__ import annotations

from docstore.commands.access.catalog_needs import current_op_needs, kill_op_needs
from docstore.commands.declaration import PUBLIC, Parameter, Privilege, Resource, Role, Spec, Type
from docstore.commands.greeting import PARAMETERS as GREETING
from docstore.commands.greeting import following

HELLO = Spec(
    "hello", privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True, parameters=GREETING, following=following,
    sensitive=("speculativeAuthenticate",), help="the server's place in its deployment and its limits",
)  # fmt: skip

IS_MASTER = Spec(
    "isMaster", aliases=("ismaster",), privilege=PUBLIC, role=Role.ANY, tolerant=True, parameters=GREETING,
    following=following, sensitive=("speculativeAuthenticate",), help="hello with its old name",
)  # fmt: skip

SERVER_STATUS = Spec(
    "serverStatus", aliases=("serverstatus",), privilege=Privilege("serverStatus", Resource.CLUSTER), role=Role.ANY,
    tolerant=True, help="what this process does and has done",
)  # fmt: skip

CURRENT_OP = Spec(
    "currentOp", aliases=("currentop",), privilege=Privilege("inprog", Resource.CLUSTER), role=Role.ANY,
    admin_only=True, tolerant=True, parameters=(Parameter("$ownOps", Type.ANY),), needs=current_op_needs,
    help="operations in progress",
)  # fmt: skip

KILL_OP = Spec(
    "killOp", privilege=Privilege("killop", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("op", Type.ANY),), needs=kill_op_needs,
    help="end an operation by its id",
)  # fmt: skip

GET_CMD_LINE_OPTS = Spec(
    "getCmdLineOpts", privilege=Privilege("getCmdLineOpts", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="the command line of the process",
)  # fmt: skip

GET_SHARD_VERSION = Spec(
    "getShardVersion", aliases=("getshardversion",), privilege=Privilege("getShardVersion", Resource.COLLECTION),
    role=Role.ANY, admin_only=True, value=Type.NAMESPACE, help="this process's routing of a collection",
)  # fmt: skip

CONN_POOL_STATS = Spec(
    "connPoolStats", privilege=Privilege("connPoolStats", Resource.CLUSTER), role=Role.ANY, tolerant=True,
    help="connections to other processes",
)  # fmt: skip

SHUTDOWN = Spec(
    "shutdown", privilege=Privilege("shutdown", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(Parameter("force", Type.SAFE_BOOL, default=False), Parameter("timeoutSecs", Type.INT, minimum=0)),
    help="end this process",
)  # fmt: skip

HOST_INFO = Spec(
    "hostInfo", privilege=Privilege("hostInfo", Resource.CLUSTER), role=Role.ANY,
    help="the machine and the operating system of the process",
)  # fmt: skip

FSYNC = Spec(
    "fsync", privilege=Privilege("fsync", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    parameters=(
        Parameter("lock", Type.SAFE_BOOL, default=False),
        Parameter("async", Type.SAFE_BOOL, default=False),
        Parameter("fsyncLockAcquisitionTimeoutMillis", Type.INT, unsupported="the lock is taken at once"),
    ),
    help="write everything to disk",
)  # fmt: skip

FSYNC_UNLOCK = Spec(
    "fsyncUnlock", privilege=Privilege("unlock", Resource.CLUSTER), role=Role.ANY, admin_only=True,
    help="let writes go on after fsync with lock",
)  # fmt: skip

GET_CLUSTER_PARAMETER = Spec(
    "getClusterParameter", privilege=Privilege("getClusterParameter", Resource.CLUSTER), role=Role.ANY,
    value=Type.ANY, admin_only=True, help="parameters of all members",
)  # fmt: skip

SET_CLUSTER_PARAMETER = Spec(
    "setClusterParameter", privilege=Privilege("setClusterParameter", Resource.CLUSTER), role=Role.PRIMARY,
    value=Type.OBJECT, admin_only=True, help="set a parameter of all members",
)  # fmt: skip
