"""Option values of an executable: one frozen value per group of options, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

MONGOD_PORT = 27017
SHARD_PORT = 27018
CONFIG_PORT = 27019
LOOPBACK = "127.0.0.1"
COMPRESSORS = ("snappy", "zstd", "zlib")


VERSIONS = {"6.0": "6.0.5", "8.0": "8.0.0"}
"""The MongoDB versions that a process can emulate, by their first two numbers."""
ENGINES = {"wiredTiger": "rocksdb", "ephemeralForTest": "inMemory"}
"""MongoDB's names of storage engines, which clients' scripts pass, with the engine that is used."""
EMULATED = "8.0"
"""The MongoDB version that a process emulates by default."""


@dataclass(frozen=True, slots=True)
class UnixSocketOptions:
    """Unix domain sockets. `prefix`: the directory of the socket named after the port; None: none.

    `paths`: further sockets. `permissions`: of all of them.
    """

    prefix: Path | None = Path("/tmp")
    permissions: int = 0o700
    paths: tuple[Path, ...] = ()

    def of(self, port: int) -> list[Path]:
        """Return the socket files of a server that listens on that port."""
        named = [] if self.prefix is None else [self.prefix / f"mongodb-{port}.sock"]
        return [*named, *self.paths]


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """`port`: None for the default of the node's role; 0: a free one. `compressors`: those offered to clients.

    `allow_unauthenticated`: serve remote clients without access control. `unix_sockets`: the Unix domain sockets.
    """

    addresses: tuple[str, ...] = (LOOPBACK,)
    port: int | None = None
    max_connections: int = 65_536
    compressors: tuple[str, ...] = COMPRESSORS
    allow_unauthenticated: bool = False
    unix_sockets: UnixSocketOptions = UnixSocketOptions(None)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """`port`: None: no console; 0: a free one. `hosts`: names by which browsers may address it."""

    port: int | None = None
    addresses: tuple[str, ...] = (LOOPBACK,)
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    path: Path | None = None
    append: bool = False
    verbosity: int = 0
    quiet: bool = False
    rotate: str = "rename"
    """The effect of a rotation: "rename" keeps the old file under another name, "reopen" leaves that to another
    program.
    """
    slow_ms: int = 100
    """The duration from which operations are logged."""
    redact: bool = False
    """Log no client data."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """`destination`: "file", "console" or "syslog"; None: no audit log. `format`, `path`: of a file.

    `filter`: of messages, as text. `rename`: a rotation keeps the old file under another name.
    """

    destination: str | None = None
    format: str = "JSON"
    path: Path | None = None
    filter: str | None = None
    rename: bool = True


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    fork: bool = False
    pid_file: Path | None = None
    shutdown: bool = False
    """Stop the server of the data directory instead of starting one."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """`dbpath`: None for the default of the node's role. `engine`: "rocksdb" or "inMemory"."""

    dbpath: Path | None = None
    engine: str = "rocksdb"
    scripting: bool = True
    """Run JavaScript for clients."""
    repair: bool = False
    """Repair the data and exit."""
    cache_bytes: int = 64 << 20
    """Maximum size of the block cache; documents read by key may take a third of that in addition."""


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    set_name: str | None = None
    oplog_bytes: int | None = None


class ClusterAuthMode(Enum):
    """Authentication between the processes of a cluster: by a key file, or by certificates."""

    KEY_FILE = "keyFile"
    SEND_KEY_FILE = "sendKeyFile"
    """Accept both, send keys."""
    SEND_X509 = "sendX509"
    """Accept both, send certificates."""
    X509 = "x509"

    @property
    def sends_certificates(self) -> bool:
        return self in (ClusterAuthMode.SEND_X509, ClusterAuthMode.X509)

    @property
    def takes_certificates(self) -> bool:
        return self is not ClusterAuthMode.KEY_FILE

    @property
    def takes_keys(self) -> bool:
        return self is not ClusterAuthMode.X509


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """`key_file`: the keys of the cluster's processes. `transition`: unauthenticated connections are accepted too."""

    auth: bool = False
    """Enable access control."""
    key_file: Path | None = None
    transition: bool = False
    cluster_mode: ClusterAuthMode = ClusterAuthMode.KEY_FILE

    @property
    def knows_processes(self) -> bool:
        """True if the processes of the cluster authenticate to each other."""
        return self.key_file is not None or self.cluster_mode is ClusterAuthMode.X509


class TlsMode(Enum):
    """Use of TLS on accepted and on outgoing connections."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    """Optional on accepted connections, not used on outgoing ones."""
    PREFER = "preferTLS"
    """Optional on accepted connections, used on outgoing ones."""
    REQUIRE = "requireTLS"

    @property
    def sends(self) -> bool:
        """True if outgoing connections use TLS."""
        return self in (TlsMode.PREFER, TlsMode.REQUIRE)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS settings, with certificate files in PEM format.

    `certificate_key_file`: the process's own certificate and key. `cluster_file`: the certificate presented to other
    processes of the cluster instead. `ca_file`: the trusted authorities; `cluster_ca_file`: those trusted for client
    certificates instead. `disabled_protocols`: of TLS1_2 and TLS1_3.
    """

    mode: TlsMode = TlsMode.DISABLED
    certificate_key_file: Path | None = None
    password: str | None = field(default=None, repr=False)
    cluster_file: Path | None = None
    cluster_password: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cluster_ca_file: Path | None = None
    crl_file: Path | None = None
    disabled_protocols: tuple[str, ...] = ()
    log_versions: tuple[str, ...] = ()
    """Log every connection that uses one of these versions: "1.2", "1.3"."""
    fips: bool = False
    """Use only the FIPS module of OpenSSL."""
    without_certificates: bool = False
    """Clients need not present a certificate."""
    invalid_certificates: bool = False
    """Accept invalid certificates."""
    invalid_hostnames: bool = False
    """Accept server certificates for another host name."""


@dataclass(frozen=True, slots=True)
class RoleOptions:
    """The cluster role; at most one of the two."""

    shardsvr: bool = False
    configsvr: bool = False


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """`config_db`: "set/host,host" or a bare "host,host", as written. `hints`: the directory of hinted writes that wait
    for a primary.
    """

    config_db: str = ""
    hints: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """All options of an executable."""

    network: NetworkOptions = NetworkOptions()
    console: ConsoleOptions = ConsoleOptions()
    logging: LoggingOptions = LoggingOptions()
    process: ProcessOptions = ProcessOptions()
    storage: StorageOptions = StorageOptions()
    replication: ReplicationOptions = ReplicationOptions()
    role: RoleOptions = RoleOptions()
    security: SecurityOptions = SecurityOptions()
    tls: TlsOptions = TlsOptions()
    audit: AuditOptions = AuditOptions()
    router: RouterOptions = RouterOptions()
    cql_port: int | None = None
    """The port of Cassandra's native protocol; None: none; 0: a free one."""
    emulate: str = EMULATED
    """The MongoDB version that the process emulates."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """--setParameter, by name."""
    parsed: Mapping[str, Any] = field(default_factory=dict)
    """The given options, nested as in a configuration file, for getCmdLineOpts."""
    argv: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """Log messages about options whose meaning differs from MongoDB's."""

    @property
    def port(self) -> int:
        """The port to listen on: the given one, else that of the role."""
        if self.network.port is not None:
            return self.network.port
        return SHARD_PORT if self.role.shardsvr else CONFIG_PORT if self.role.configsvr else MONGOD_PORT

    @property
    def dbpath(self) -> Path:
        """The data directory: the given one, else that of the role."""
        if self.storage.dbpath is not None:
            return self.storage.dbpath
        return Path("/data/configdb" if self.role.configsvr else "/data/db")
