"""What an executable was told: one frozen value for each group of options, with its defaults."""

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


EMULATED = "8.0"
"""The version of MongoDB that a process passes for unless it is told another."""


@dataclass(frozen=True, slots=True)
class UnixSocketOptions:
    """Sockets in the file system. `prefix`: the directory of one that is named after the port; None: there is none.
    `paths`: the files of others. `permissions`: of all of them.
    """

    prefix: Path | None = Path("/tmp")
    permissions: int = 0o700
    paths: tuple[Path, ...] = ()

    def of(self, port: int) -> list[Path]:
        """The files of a server that listens on that port."""
        named = [] if self.prefix is None else [self.prefix / f"mongodb-{port}.sock"]
        return [*named, *self.paths]


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """`port` None: the default of the node's role; 0: a free one. `compressors`: those that clients may agree on.
    `allow_unauthenticated`: anyone may be let in from anywhere. `unix_sockets`: those in the file system.
    """

    addresses: tuple[str, ...] = (LOOPBACK,)
    port: int | None = None
    max_connections: int = 65_536
    compressors: tuple[str, ...] = COMPRESSORS
    allow_unauthenticated: bool = False
    unix_sockets: UnixSocketOptions = UnixSocketOptions(None)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """`port` None: there is no console; 0: a free one. `hosts`: names that browsers may call it by."""

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
    """What a rotation does: "rename" keeps the old lines under another name, "reopen" leaves that to someone else."""
    slow_ms: int = 100
    """Operations at least as long are logged."""
    redact: bool = False
    """No values that clients have sent are logged."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """`destination`: "file", "console" or "syslog"; None: nothing is audited. `format`, `path`: of a file. `filter`:
    of messages, as text. `rename`: a rotation keeps the old messages under another name.
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
    """`dbpath` None: the default of the node's role. `engine`: "rocksdb" or "inMemory"."""

    dbpath: Path | None = None
    engine: str = "rocksdb"
    scripting: bool = True
    """Whether JavaScript is run for clients."""
    repair: bool = False
    """Repair the data and end."""
    cache_bytes: int = 64 << 20
    """Most that the block cache takes; what was read by key may take a third of that beside it."""


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    set_name: str | None = None
    oplog_bytes: int | None = None


class ClusterAuthMode(Enum):
    """How the processes of a cluster authenticate to each other: by keys of a file, or by certificates."""

    KEY_FILE = "keyFile"
    SEND_KEY_FILE = "sendKeyFile"
    """Take both, send keys."""
    SEND_X509 = "sendX509"
    """Take both, send certificates."""
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
    """`key_file`: holds the keys of the cluster's processes. `transition`: who does not authenticate is taken too."""

    auth: bool = False
    """Whether what clients may do is checked."""
    key_file: Path | None = None
    transition: bool = False
    cluster_mode: ClusterAuthMode = ClusterAuthMode.KEY_FILE

    @property
    def knows_processes(self) -> bool:
        """Whether the processes of the cluster authenticate to each other."""
        return self.key_file is not None or self.cluster_mode is ClusterAuthMode.X509


class TlsMode(Enum):
    """Whether connections are encrypted: those that are accepted, and those that the process makes itself."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    """Accepted ones may be; own ones are not."""
    PREFER = "preferTLS"
    """Accepted ones may be; own ones are."""
    REQUIRE = "requireTLS"

    @property
    def sends(self) -> bool:
        """Whether connections that the process makes are encrypted."""
        return self in (TlsMode.PREFER, TlsMode.REQUIRE)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Files of certificates, in PEM.

    `certificate_key_file`: the process's own certificate and its key; `cluster_file`: what it shows to other processes
    of the cluster instead. `ca_file`: who is trusted; `cluster_ca_file`: who is trusted to have signed certificates of
    clients instead. `disabled_protocols`: of TLS1_2 and TLS1_3.
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
    """Every connection that speaks one of these is logged: "1.2", "1.3"."""
    fips: bool = False
    """Nothing but the FIPS module of OpenSSL computes."""
    without_certificates: bool = False
    """Clients may show no certificate."""
    invalid_certificates: bool = False
    """Certificates are not looked at."""
    invalid_hostnames: bool = False
    """A server's certificate may be for another host."""


@dataclass(frozen=True, slots=True)
class RoleOptions:
    """At most one of the two."""

    shardsvr: bool = False
    configsvr: bool = False


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """`config_db`: "set/host,host" or a bare "host,host", as written. `hints`: a directory for writes that wait for a
    primary.
    """

    config_db: str = ""
    hints: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Everything an executable was told."""

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
    emulate: str = EMULATED
    """The version of MongoDB that the process passes for."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """--setParameter, by name."""
    parsed: Mapping[str, Any] = field(default_factory=dict)
    """What was given, nested as in a configuration file, for getCmdLineOpts."""
    argv: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What the log should say about options whose meaning differs from MongoDB's."""

    @property
    def port(self) -> int:
        """The port to listen on: the one given, else that of the role."""
        if self.network.port is not None:
            return self.network.port
        return SHARD_PORT if self.role.shardsvr else CONFIG_PORT if self.role.configsvr else MONGOD_PORT

    @property
    def dbpath(self) -> Path:
        """Where the data is: the directory given, else that of the role."""
        if self.storage.dbpath is not None:
            return self.storage.dbpath
        return Path("/data/configdb" if self.role.configsvr else "/data/db")
