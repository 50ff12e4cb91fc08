"""`configsvr`: a config server, one member of the replica set that keeps a cluster's metadata."""

from __future__ import annotations

import sys
from dataclasses import replace

from configsvr.composition import IMPLICIT_SET_NAME, extension
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
    NETWORK,
    PARAMETERS,
    PROCESS,
    REPLICATION,
    ROLE,
    SHUTDOWN,
    STORAGE,
    TLS,
    Options,
    RoleOptions,
    program,
)
from docstore.options.build import KEY_FILE_REQUIRED


@program(
    "configsvr", NETWORK, CONSOLE, LOGGING, PROCESS, SHUTDOWN, STORAGE, AUTHORIZATION, CLUSTER_KEYS, TLS, AUDIT,
    REPLICATION,
    ROLE, PARAMETERS,
)  # fmt: skip
def main(options: Options) -> None:
    """A config server. Without --replSet its set is the one that a router with a bare --configdb list makes."""
    if options.process.shutdown:
        stop_server(replace(options, role=RoleOptions(configsvr=True)).dbpath)
    if options.role.shardsvr:
        sys.exit("configsvr: a config server is no shard: leave out --shardsvr")
    if options.security.auth and not options.security.knows_processes:
        sys.exit(f"configsvr: {KEY_FILE_REQUIRED}")
    set_name = options.replication.set_name or IMPLICIT_SET_NAME
    options = replace(
        options, role=RoleOptions(configsvr=True), replication=replace(options.replication, set_name=set_name)
    )
    run("configsvr", lambda process: serve(process, options, ClusterRole.CONFIG, extension()), options)


if __name__ == "__main__":
    main()
