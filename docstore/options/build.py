"""Construction of typed options from the given ones, by their names in a configuration file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstore.options.groups import NO_UNIX_SOCKETS
from docstore.options.tls import PASSWORDS, tls_options
from docstore.options.values import (
    COMPRESSORS,
    EMULATED,
    ENGINES,
    LOOPBACK,
    AuditOptions,
    ClusterAuthMode,
    ConsoleOptions,
    LoggingOptions,
    NetworkOptions,
    Options,
    ProcessOptions,
    ReplicationOptions,
    RoleOptions,
    RouterOptions,
    SecurityOptions,
    StorageOptions,
    UnixSocketOptions,
)

DIRECTORY_PER_DB_NOTICE = (
    "--directoryperdb has nothing to separate: each node keeps all its databases in one engine directory below --dbpath"
)

KEY_FILE_REQUIRED = (
    "--auth needs --keyFile or --clusterAuthMode x509 on a member of a set or a cluster: by it members authenticate to"
    " each other"
)


def build_options(options: Mapping[str, Any]) -> Options:
    """Return the typed options. Errors: ValueError with a sentence for an invalid combination."""
    role = RoleOptions(bool(options.get("sharding.shardsvr")), bool(options.get("sharding.configsvr")))
    if role.shardsvr and role.configsvr:
        raise ValueError("--shardsvr and --configsvr exclude each other")
    if role.shardsvr and "wideColumn.cqlPort" in options:
        raise ValueError(
            "--cqlPort is for routers and for servers that are no shard: clients of a cluster connect to mongos"
        )
    logging = LoggingOptions(
        options.get("systemLog.path"),
        bool(options.get("systemLog.logAppend")),
        options.get("systemLog.verbosity", 0),
        bool(options.get("systemLog.quiet")),
        options.get("systemLog.logRotate", "rename"),
        options.get("operationProfiling.slowOpThresholdMs", 100),
        bool(options.get("security.redactClientLogData")),
    )
    process = ProcessOptions(
        bool(options.get("processManagement.fork")),
        options.get("processManagement.pidFilePath"),
        bool(options.get("shutdown")),
    )
    if process.fork and logging.path is None:
        raise ValueError("--fork needs --logpath: the background process has nowhere else to write its log")
    if logging.rotate == "reopen" and not logging.append:
        raise ValueError("--logRotate reopen needs --logappend: else what was logged would be lost")
    if logging.append and logging.path is None:
        raise ValueError("--logappend needs --logpath")
    oplog_mb = options.get("replication.oplogSizeMB")
    return Options(
        network=_network(options),
        console=_console(options),
        cql_port=options.get("wideColumn.cqlPort"),
        logging=logging,
        process=process,
        storage=StorageOptions(
            options.get("storage.dbPath"),
            ENGINES.get(engine := options.get("storage.engine", "rocksdb"), engine),
            not options.get("security.noscripting"),
            bool(options.get("storage.repair")),
            int(options.get("storage.rocksdb.engineConfig.cacheSizeGB", 1 / 16) * (1 << 30)),
        ),
        replication=ReplicationOptions(
            _set_name(options.get("replication.replSetName")), None if oplog_mb is None else oplog_mb * 1024 * 1024
        ),
        role=role,
        security=_security(options),
        tls=tls_options(options),
        audit=_audit(options),
        router=RouterOptions(options.get("sharding.configDB", ""), options.get("wideColumn.hintsPath")),
        emulate=options.get("emulate", EMULATED),
        parameters=_parameters(options.get("setParameter", ())),
        parsed=_nest(options),
        argv=_argv(sys.argv),
        notices=(DIRECTORY_PER_DB_NOTICE,) if options.get("storage.directoryPerDB") else (),
    )


def _security(options: Mapping[str, Any]) -> SecurityOptions:
    auth, key_file = bool(options.get("security.authorization")), options.get("security.keyFile")
    transition, named = bool(options.get("security.transitionToAuth")), options.get("security.clusterAuthMode")
    mode = _cluster_mode(named, options)
    if auth and options.get("security.noauth"):
        raise ValueError("--auth and --noauth exclude each other")
    security = SecurityOptions(False, key_file, transition, mode)
    if not security.knows_processes:
        if named or transition:
            raise ValueError(f"{'--clusterAuthMode' if named else '--transitionToAuth'} needs --keyFile")
        member = any(options.get(key) for key in ("replication.replSetName", "sharding.shardsvr", "sharding.configsvr"))
        if auth and member:
            raise ValueError(KEY_FILE_REQUIRED)
    elif options.get("security.noauth"):
        conflicting_option = "--clusterAuthMode x509" if key_file is None else "--keyFile"
        raise ValueError(f"{conflicting_option} is not allowed where --noauth is specified")
    return replace(security, auth=(auth or security.knows_processes) and not transition)


def _audit(options: Mapping[str, Any]) -> AuditOptions:
    settings = {key.removeprefix("auditLog."): value for key, value in options.items() if key.startswith("auditLog.")}
    if not settings:
        return AuditOptions()
    if "destination" not in settings:
        raise ValueError("--auditFormat, --auditPath and --auditFilter need --auditDestination")
    of_file = {"format", "path"}
    if settings["destination"] != "file":
        if of_file & settings.keys():
            raise ValueError("--auditFormat and --auditPath are those of --auditDestination file")
    elif not of_file <= settings.keys():
        raise ValueError("--auditDestination file needs --auditFormat and --auditPath")
    return AuditOptions(**settings, rename=options.get("systemLog.logRotate", "rename") == "rename")


def _cluster_mode(named: str | None, options: Mapping[str, Any]) -> ClusterAuthMode:
    """Return the mode. Errors: ValueError for an unknown one, or one that the other options do not allow."""
    try:
        mode = ClusterAuthMode(named or "keyFile")
    except ValueError:
        raise ValueError(
            "security.clusterAuthMode expects one of 'keyFile', 'sendKeyFile', 'sendX509', or 'x509'"
        ) from None
    if not mode.takes_certificates:
        return mode
    if options.get("net.tls.mode", "disabled") == "disabled":
        raise ValueError("need to enable TLS via the tlsMode flag")
    if mode.sends_certificates and options["net.tls.mode"] == "allowTLS":
        raise ValueError("cannot have x.509 cluster authentication in allowTLS mode")
    if options.get("net.tls.allowInvalidCertificates") or "net.tls.CAFile" not in options:
        raise ValueError(
            f"--clusterAuthMode {mode.value} knows processes by their certificates: it needs --tlsCAFile, and goes"
            " without --tlsAllowInvalidCertificates"
        )
    if not mode.takes_keys and "security.keyFile" in options:
        raise ValueError("--keyFile means nothing with --clusterAuthMode x509: leave it out")
    return mode


def _network(options: Mapping[str, Any]) -> NetworkOptions:
    ipv6 = bool(options.get("net.ipv6"))
    addresses: tuple[str, ...] = (LOOPBACK, "::1") if ipv6 else (LOOPBACK,)
    if "net.bindIp" in options:
        if "net.bindIpAll" in options:
            raise ValueError("--bind_ip and --bind_ip_all exclude each other")
        addresses = tuple(address.strip() for address in options["net.bindIp"].split(","))
        if not all(addresses):
            raise ValueError(f"--bind_ip {options['net.bindIp']} holds an empty address")
    elif "net.bindIpAll" in options:
        addresses = ("0.0.0.0", "::") if ipv6 else ("0.0.0.0",)
    paths = tuple(Path(address) for address in addresses if address.startswith("/"))
    addresses = tuple(address for address in addresses if not address.startswith("/"))
    if not addresses:
        raise ValueError("--bind_ip names files of sockets alone, and no address")
    if not ipv6 and any(":" in address for address in addresses):
        raise ValueError("an IPv6 address in --bind_ip needs --ipv6")
    return NetworkOptions(
        addresses,
        options.get("net.port"),
        options.get("net.maxIncomingConnections", 65_536),
        _compressors(options),
        bool(options.get("security.allowUnauthenticated")),
        _unix_sockets(options, paths),
    )


def _unix_sockets(options: Mapping[str, Any], paths: tuple[Path, ...]) -> UnixSocketOptions:
    settings = {
        name: options[key]
        for name, key in (
            ("prefix", "net.unixDomainSocket.pathPrefix"),
            ("permissions", "net.unixDomainSocket.filePermissions"),
        )
        if key in options
    }
    if NO_UNIX_SOCKETS in options:
        if paths or settings:
            raise ValueError(
                "--nounixsocket excludes --unixSocketPrefix, --filePermissions and files of sockets in --bind_ip"
            )
        return UnixSocketOptions(None)
    return UnixSocketOptions(**settings, paths=paths)


def _console(options: Mapping[str, Any]) -> ConsoleOptions:
    port = options.get("net.http.port")
    settings = {name: options[f"net.http.{name}"] for name in ("bindIp", "hosts") if f"net.http.{name}" in options}
    if port is None and settings:
        raise ValueError(f"{'--httpBindIp' if 'bindIp' in settings else '--httpHosts'} needs --httpPort")
    lists = {name: tuple(entry.strip() for entry in text.split(",")) for name, text in settings.items()}
    for name, texts in lists.items():
        if not all(texts):
            raise ValueError(f"net.http.{name} {settings[name]} holds an empty name")
    return ConsoleOptions(port, lists.get("bindIp", (LOOPBACK,)), lists.get("hosts", ()))


def _compressors(options: Mapping[str, Any]) -> tuple[str, ...]:
    text = options.get("net.compression.compressors")
    if text is None:
        return COMPRESSORS
    names = () if text == "disabled" else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COMPRESSORS:
            raise ValueError(f"--networkMessageCompressors: there is no compressor {name}")
    return names


def _set_name(name: str | None) -> str | None:
    if name is not None and ("/" in name or "," in name):
        raise ValueError(f"--replSet takes a set's name only, not {name}")
    return name


def _parameters(pairs: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--setParameter {pair} is not NAME=VALUE")
        parameters[name] = value
    return parameters


_SECRETS = tuple(f"net.tls.{name}" for name in PASSWORDS)
_SECRET_FLAGS = ("--tlsCertificateKeyFilePassword", "--tlsClusterPassword")
_HIDDEN = "<password>"


def _argv(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command line without secrets."""
    redacted_words: list[str] = []
    for word in words:
        flag, equals, _ = word.partition("=")
        if redacted_words and redacted_words[-1] in _SECRET_FLAGS:
            word = _HIDDEN
        elif equals and flag in _SECRET_FLAGS:
            word = f"{flag}={_HIDDEN}"
        redacted_words.append(word)
    return tuple(redacted_words)


_ROLES = {"sharding.shardsvr": "shardsvr", "sharding.configsvr": "configsvr"}


def _nest(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options nested as the real server shows them: roles as one name, parameters as a document of texts."""
    tree: dict[str, Any] = {}
    for key, value in options.items():
        if key in _ROLES:
            key, value = "sharding.clusterRole", _ROLES[key]
        elif key == NO_UNIX_SOCKETS:
            key, value = "net.unixDomainSocket.enabled", False
        elif key == "security.authorization":
            value = "enabled"
        elif key in _SECRETS:
            value = _HIDDEN
        elif key == "setParameter":
            tree[key] = _parameters(value)
            continue
        *path, last = key.split(".")
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    return tree
