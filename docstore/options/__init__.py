"""Command-line options: typed groups, declared once and shared by the executables.

An executable picks its groups:

    @program("mongod", NETWORK, LOGGING, PROCESS, STORAGE, REPLICATION, ROLE)
    def main(options: Options) -> None:
        '''What the program is, for --help.'''

`Options` holds one frozen value per group (a group that was not picked has its defaults); `Options.parsed` is what was
given, in the layout of MongoDB's configuration files. Such a file is read with `--config`; the command line wins over
it.

Always true: an option that is accepted has the effect that its help describes. Unknown options are refused, and those
that MongoDB has and we have not are refused with a sentence of their own; both with exit code 2.
"""

from docstore.options.groups import (
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
    ROUTER,
    SCRIPTING,
    SHUTDOWN,
    STORAGE,
    TLS,
)
from docstore.options.program import program
from docstore.options.values import (
    NetworkOptions,
    Options,
    ReplicationOptions,
    RoleOptions,
    StorageOptions,
    TlsOptions,
    UnixSocketOptions,
)

__all__ = [
    "AUDIT",
    "AUTHORIZATION",
    "CLUSTER_KEYS",
    "CONSOLE",
    "LOGGING",
    "NETWORK",
    "PARAMETERS",
    "PROCESS",
    "REPLICATION",
    "ROLE",
    "ROUTER",
    "SCRIPTING",
    "SHUTDOWN",
    "STORAGE",
    "TLS",
    "NetworkOptions",
    "Options",
    "ReplicationOptions",
    "RoleOptions",
    "StorageOptions",
    "TlsOptions",
    "UnixSocketOptions",
    "program",
]
