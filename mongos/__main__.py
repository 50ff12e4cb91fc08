"""`mongos`: a router."""

from __future__ import annotations

import functools

from docstore.net.process import run
from docstore.options import (
    AUDIT,
    CLUSTER_KEYS,
    CONSOLE,
    LOGGING,
    NATIVE_PROTOCOL,
    NETWORK,
    PARAMETERS,
    PROCESS,
    ROUTER,
    SCRIPTING,
    TLS,
    Options,
    program,
)
from mongos.process import serve


@program(
    "mongos", NETWORK, CONSOLE, LOGGING, PROCESS, SCRIPTING, CLUSTER_KEYS, TLS, AUDIT, ROUTER, NATIVE_PROTOCOL,
    PARAMETERS,
)  # fmt: skip
def main(options: Options) -> None:
    """Route the operations of clients to the shards of a cluster, split and balance its chunks."""
    run("mongos", functools.partial(serve, options=options), options)


if __name__ == "__main__":
    main()
