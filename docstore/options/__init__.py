"""Command-line options: typed groups, declared once and shared by the executables.

An executable picks its groups:

    @program("mongod", NETWORK, LOGGING, PROCESS, STORAGE, REPLICATION, ROLE)
    def main(options: Options) -> None:
        '''The description for --help.'''

`Options` holds one frozen value per group (defaults for a group that was not picked). `Options.parsed` has the given
options, in the layout of MongoDB's configuration files. `--config` reads such a file; the command line overrides it.

- An accepted option has the effect that its help describes.
- Unknown options are refused. Options that MongoDB has and we lack are refused with a message of their own. Both exit
  with code 2.
"""

from docstore.options.groups import (
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
    "NATIVE_PROTOCOL",
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
