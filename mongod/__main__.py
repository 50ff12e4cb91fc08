"""`mongod`: a data node, alone, in a replica set, or as a member of a shard."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from docstore.net.process import run
from docstore.node.process.main import serve
from docstore.node.process.settings import ClusterRole
from docstore.node.process.stop import stop_server
from docstore.options import (
    AUDIT,
    AUTHORIZATION,
    CLUSTER_KEYS,
    CONSOLE,
    LOGGING,
    NATIVE_PROTOCOL,
    NETWORK,
    PARAMETERS,
    PROCESS,
    REPLICATION,
    ROLE,
    SCRIPTING,
    SHUTDOWN,
    STORAGE,
    TLS,
    Options,
    program,
)
from mongod.composition import extension


@program(
    "mongod", NETWORK, CONSOLE, LOGGING, PROCESS, SHUTDOWN, STORAGE, SCRIPTING, AUTHORIZATION, CLUSTER_KEYS, TLS, AUDIT,
    REPLICATION, ROLE, NATIVE_PROTOCOL, PARAMETERS,
)  # fmt: skip
def main(options: Options) -> None:
    """A data node of a sharded, replicated document store that speaks MongoDB's wire protocol."""
    if options.process.shutdown:
        stop_server(options.dbpath)
    if options.role.configsvr:
        become_config_server()
    role = ClusterRole.SHARD if options.role.shardsvr else ClusterRole.NONE
    run("mongod", lambda process: serve(process, options, role, extension(role)), options)


def become_config_server() -> NoReturn:
    """`mongod --configsvr` is the other executable under its old name."""
    os.execv(sys.executable, [sys.executable, "-m", "configsvr", *sys.argv[1:]])


if __name__ == "__main__":
    main()
