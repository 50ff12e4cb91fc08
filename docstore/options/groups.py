"""The groups of options that executables pick from: spellings, configuration file names, types and help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from docstore.options.values import EMULATED, ENGINES, VERSIONS


@dataclass(frozen=True, slots=True)
class Setting:
    """One option: its spelling on the command line and its dotted name in a configuration file."""

    flag: str
    key: str
    kind: click.ParamType[Any] | type | None = None
    """None for a flag without a value."""
    help: str = ""
    metavar: str | None = None
    repeated: bool = False

    def option(self) -> click.Option:
        """Return a new click option for each program: click keeps state in it."""
        shape: dict[str, Any] = {"is_flag": True, "default": None}
        if self.kind is not None:
            shape = {"type": self.kind, "multiple": self.repeated}
        return click.Option([self.flag, self.name], help=self.help, metavar=self.metavar, **shape)

    @property
    def name(self) -> str:
        """The name of its value, a Python identifier."""
        return self.key.replace(".", "_")


@dataclass(frozen=True, slots=True)
class Group:
    settings: tuple[Setting, ...]


class _Verbosity(click.ParamType[int]):
    """A level: "", "v" to "vvvvv", or 0 to 5."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        level = len(text) if set(text) <= {"v"} else int(text) if text.isdecimal() else -1
        if not 0 <= level <= 5:
            self.fail(f"{text} is no level from 0 to 5", param, ctx)
        return level


class _Permissions(click.ParamType[int]):
    """File permissions: octal with a leading 0, else decimal, as in a configuration file."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        try:
            mode = int(text, 8 if text.startswith("0") else 10)
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            self.fail(f"{text} are no permissions of a file", param, ctx)
        return mode


_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_PORT = click.IntRange(0, 65_535)

NO_UNIX_SOCKETS = "net.unixDomainSocket.disabled"
"""In a configuration file this is the inverse option `enabled`."""

NETWORK = Group((
    Setting("--port", "net.port", _PORT,
            "Port to listen on; 0 takes a free one and names it in the ready line [27017; of a shard's member 27018, "
            "of a config server 27019]."),
    Setting("--bind_ip", "net.bindIp", str,
            "Comma-separated addresses to listen on, and files of sockets [127.0.0.1].", "ADDRESSES"),
    Setting("--bind_ip_all", "net.bindIpAll", None, "Listen on every address."),
    Setting("--allowUnauthenticated", "security.allowUnauthenticated", None,
            "Without access control, listen on public addresses all the same."),
    Setting("--ipv6", "net.ipv6", None, "Listen on IPv6 addresses too."),
    Setting("--nounixsocket", NO_UNIX_SOCKETS, None, "Have no sockets in the file system."),
    Setting("--unixSocketPrefix", "net.unixDomainSocket.pathPrefix", _DIRECTORY,
            "Directory of the socket mongodb-PORT.sock [/tmp]."),
    Setting("--filePermissions", "net.unixDomainSocket.filePermissions", _Permissions(),
            "Permissions of sockets in the file system, octal where they begin with 0 [0700]."),
    Setting("--maxConns", "net.maxIncomingConnections", click.IntRange(5, 1_000_000),
            "Most connections at once [65536]."),
    Setting("--networkMessageCompressors", "net.compression.compressors", str,
            "Compressors to agree on with clients, or disabled [snappy,zstd,zlib].", "LIST"),
))  # fmt: skip
LOGGING = Group((
    Setting("--logpath", "systemLog.path", _FILE, "Write the log to this file instead of standard output."),
    Setting("--logappend", "systemLog.logAppend", None, "Append to the log file; else an old one is renamed."),
    Setting("--logRotate", "systemLog.logRotate", click.Choice(["rename", "reopen"]),
            "What a rotation does with the log file [rename]."),
    Setting("--verbose", "systemLog.verbosity", _Verbosity(),
            "Also log what is for debugging: -v to -vvvvv, 0 to 5 [0].", "LEVEL"),
    Setting("--quiet", "systemLog.quiet", None, "Leave out the log lines of connections that come and go."),
    Setting("--redactClientLogData", "security.redactClientLogData", None,
            "Leave values that clients have sent out of the log."),
    Setting("--slowms", "operationProfiling.slowOpThresholdMs", click.IntRange(0),
            "Log operations that take as long as this [100].", "MS"),
))  # fmt: skip
PROCESS = Group(
    (
        Setting("--fork", "processManagement.fork", None, "Go to the background; return when the server is ready."),
        Setting("--pidfilepath", "processManagement.pidFilePath", _FILE, "Write the process id to this file."),
    )
)
SHUTDOWN = Group((
    Setting("--shutdown", "shutdown", None, "Stop the server that has the data directory open, and wait for its end."),
))  # fmt: skip
STORAGE = Group((
    Setting("--dbpath", "storage.dbPath", _DIRECTORY,
            "Directory of the data, which must be there [/data/db; of a config server /data/configdb]."),
    Setting("--directoryperdb", "storage.directoryPerDB", None,
            "Taken for compatibility: a node keeps all databases in one engine directory, and the log says so."),
    Setting("--journal", "storage.journal.enabled", None,
            "Taken for compatibility: every write is in the write-ahead log before it is acknowledged, always."),
    Setting("--storageEngine", "storage.engine", click.Choice(["rocksdb", "inMemory", *ENGINES]),
            "How data is kept; wiredTiger is taken for rocksdb, ephemeralForTest for inMemory [rocksdb]."),
    Setting("--rocksdbCacheSizeGB", "storage.rocksdb.engineConfig.cacheSizeGB", click.FloatRange(0.001, 10_000),
            "Most that the cache of blocks read from disk takes [0.0625]; documents that were read by key take a third "
            "of that beside it.", "GB"),
    Setting("--repair", "storage.repair", None,
            "Save what can be read of a damaged database, rebuild indexes and counters from the documents, say what is "
            "lost (exit code 65), and end."),
))  # fmt: skip
AUTHORIZATION = Group((
    Setting("--auth", "security.authorization", None, "Clients must authenticate, and may do what their users may."),
    Setting("--noauth", "security.noauth", None, "Clients need not authenticate, as without --auth."),
))  # fmt: skip
CLUSTER_KEYS = Group((
    Setting("--keyFile", "security.keyFile", _FILE,
            "Authenticate to the other processes of the cluster by the key in this file; clients must authenticate."),
    Setting("--clusterAuthMode", "security.clusterAuthMode", str,
            "How processes authenticate to each other: keyFile, x509, or while both are taken sendKeyFile or sendX509 "
            "[keyFile].", "MODE"),
    Setting("--transitionToAuth", "security.transitionToAuth", None,
            "With --keyFile or certificates: also take processes and clients that do not authenticate."),
))  # fmt: skip
TLS = Group((
    Setting("--tlsMode", "net.tls.mode", str,
            "Encryption of connections: allowTLS to clients, preferTLS between processes too, requireTLS [disabled].",
            "MODE"),
    Setting("--tlsCertificateKeyFile", "net.tls.certificateKeyFile", _FILE,
            "The certificate of this process and its key, in PEM."),
    Setting("--tlsCertificateKeyFilePassword", "net.tls.certificateKeyFilePassword", str,
            "What the key in that file is encrypted with.", "PASSWORD"),
    Setting("--tlsClusterFile", "net.tls.clusterFile", _FILE,
            "The certificate and key that are shown to other processes of the cluster [tlsCertificateKeyFile]."),
    Setting("--tlsClusterPassword", "net.tls.clusterPassword", str,
            "What the key in that file is encrypted with.", "PASSWORD"),
    Setting("--tlsCAFile", "net.tls.CAFile", _FILE, "Certificates of the authorities that are trusted, in PEM."),
    Setting("--tlsClusterCAFile", "net.tls.clusterCAFile", _FILE,
            "Those of the authorities that are trusted to sign certificates of clients [tlsCAFile]."),
    Setting("--tlsCRLFile", "net.tls.CRLFile", _FILE, "The list of certificates that were revoked, in PEM."),
    Setting("--tlsDisabledProtocols", "net.tls.disabledProtocols", str,
            "Protocols that are not spoken, of TLS1_2 and TLS1_3; older ones never are [none].", "LIST"),
    Setting("--tlsLogVersions", "net.tls.logVersions", str,
            "Protocols of which every connection is logged, of TLS1_0 to TLS1_3 [none].", "LIST"),
    Setting("--tlsFIPSMode", "net.tls.FIPSMode", None,
            "Start only where OpenSSL computes with its FIPS module alone."),
    Setting("--tlsAllowConnectionsWithoutCertificates", "net.tls.allowConnectionsWithoutCertificates", None,
            "Take clients that show no certificate."),
    Setting("--tlsAllowInvalidCertificates", "net.tls.allowInvalidCertificates", None,
            "Do not look at the certificates of others: encryption without knowing with whom."),
    Setting("--tlsAllowInvalidHostnames", "net.tls.allowInvalidHostnames", None,
            "Take the certificates of servers that were made for other hosts."),
))  # fmt: skip
AUDIT = Group((
    Setting("--auditDestination", "auditLog.destination", click.Choice(["file", "console", "syslog"]),
            "Where to write who did what to users, roles, collections and the configuration [nowhere]."),
    Setting("--auditFormat", "auditLog.format", click.Choice(["JSON", "BSON"]), "What the audit file consists of."),
    Setting("--auditPath", "auditLog.path", _FILE, "The audit file, which is appended to."),
    Setting("--auditFilter", "auditLog.filter", str, "Write only what matches this filter [all].", "FILTER"),
))  # fmt: skip
CONSOLE = Group((
    Setting("--httpPort", "net.http.port", _PORT,
            "Serve a console for browsers, and metrics, on this port; 0 takes a free one, which the log names [none]."),
    Setting("--httpBindIp", "net.http.bindIp", str,
            "Comma-separated addresses of the console; others than this machine's own need access control and TLS "
            "[127.0.0.1].", "ADDRESSES"),
    Setting("--httpHosts", "net.http.hosts", str,
            "Comma-separated names, besides those of this machine, by which browsers may call the console.", "NAMES"),
))  # fmt: skip
NATIVE_PROTOCOL = Group((
    Setting("--cqlPort", "wideColumn.cqlPort", _PORT,
            "Serve Cassandra's native protocol on this port of the same addresses; 0 takes a free one, which the log "
            "names [none]."),
))  # fmt: skip
SCRIPTING = Group((
    Setting("--noscripting", "security.noscripting", None, "Refuse what would run JavaScript."),
))  # fmt: skip
REPLICATION = Group((
    Setting("--replSet", "replication.replSetName", str, "Be a member of this replica set [of none].", "NAME"),
    Setting("--oplogSize", "replication.oplogSizeMB", click.IntRange(1, 1 << 20), "Size of the oplog [990].", "MB"),
))  # fmt: skip
ROLE = Group((
    Setting("--shardsvr", "sharding.shardsvr", None, "Be a shard's member; default port 27018."),
    Setting("--configsvr", "sharding.configsvr", None, "Be a config server; default port 27019."),
))  # fmt: skip
ROUTER = Group((
    Setting("--configdb", "sharding.configDB", str, "The config servers: set/host:port,... or host:port,...",
    "SERVERS"),
    Setting("--wideColumnHintsPath", "wideColumn.hintsPath", str,
            "Keep writes at consistency level ANY in this directory while they have no primary.", "DIR"),
))  # fmt: skip
PARAMETERS = Group((
    Setting("--emulate", "emulate", click.Choice(list(VERSIONS)),
            f"The version of MongoDB to pass for: what clients are told and go by [{EMULATED}]."),
    Setting("--setParameter", "setParameter", str, "Set a server parameter; may be repeated.", "NAME=VALUE", True),
))  # fmt: skip
