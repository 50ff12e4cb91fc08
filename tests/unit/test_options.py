"""The command lines of the executables: what is taken, with which meaning, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from docstore.options import (
    AUDIT,
    AUTHORIZATION,
    CLUSTER_KEYS,
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
    Options,
    program,
)
from docstore.options.groups import Group
from docstore.options.unsupported import UNSUPPORTED
from docstore.options.values import EMULATED, ClusterAuthMode, TlsMode

GROUPS = (
    NETWORK, LOGGING, PROCESS, STORAGE, REPLICATION, ROLE, ROUTER, PARAMETERS, SCRIPTING, SHUTDOWN, CLUSTER_KEYS, TLS,
    AUDIT, NATIVE_PROTOCOL,
)  # fmt: skip


def invoke(*arguments: str, groups: tuple[Group, ...] = GROUPS) -> tuple[Result, list[Options]]:
    seen: list[Options] = []
    result = CliRunner().invoke(program("thing", *groups)(seen.append), list(arguments))
    return result, seen


def parse(*arguments: str, groups: tuple[Group, ...] = GROUPS) -> Options:
    result, seen = invoke(*arguments, groups=groups)
    assert result.exit_code == 0, result.output
    return seen[0]


def refusal(*arguments: str, groups: tuple[Group, ...] = GROUPS) -> str:
    result, seen = invoke(*arguments, groups=groups)
    assert result.exit_code == 2
    assert not seen
    return result.output


def test_a_version_to_pass_for_is_one_that_is_known() -> None:
    assert parse().emulate == EMULATED
    assert parse("--emulate", "6.0").emulate == "6.0"
    assert "6.0" in refusal("--emulate", "5.0")


def test_nothing_given_is_a_loopback_listener_on_the_standard_port() -> None:
    options = parse()
    assert (options.network.addresses, options.port, options.dbpath) == (("127.0.0.1",), 27017, Path("/data/db"))
    assert options.parsed == {}


def test_the_walk_throughs_command_lines_are_taken() -> None:
    options = parse(
        "--shardsvr", "--replSet", "set_a", "--logpath", "/tmp/a.log", "--logappend", "--pidfilepath", "/tmp/a.pid",
        "--fork", "--dbpath", "/tmp/data", "--directoryperdb", "--bind_ip", "10.0.0.1,127.0.0.1",
    )  # fmt: skip
    assert (options.role.shardsvr, options.replication.set_name, options.port) == (True, "set_a", 27018)
    assert options.logging.path == Path("/tmp/a.log")
    assert options.logging.append
    assert options.process.fork
    assert options.process.pid_file == Path("/tmp/a.pid")
    assert options.dbpath == Path("/tmp/data")
    assert options.network.addresses == ("10.0.0.1", "127.0.0.1")
    assert "one engine directory" in options.notices[0]
    assert options.parsed["replication"] == {"replSetName": "set_a"}
    assert parse("--configdb", "a:1,b:2").router.config_db == "a:1,b:2"


def test_sockets_are_files_below_tmp_that_are_their_owners() -> None:
    sockets = parse().network.unix_sockets
    assert (sockets.of(5), sockets.permissions) == ([Path("/tmp/mongodb-5.sock")], 0o700)
    options = parse("--unixSocketPrefix", "/run", "--filePermissions", "0770", "--bind_ip", "127.0.0.1,/a.sock")
    assert options.network.addresses == ("127.0.0.1",)
    sockets = options.network.unix_sockets
    assert (sockets.of(5), sockets.permissions) == ([Path("/run/mongodb-5.sock"), Path("/a.sock")], 0o770)
    assert options.parsed["net"]["unixDomainSocket"] == {"pathPrefix": "/run", "filePermissions": 0o770}


@pytest.mark.parametrize("way", ["--nounixsocket", "enabled: false"])
def test_there_may_be_no_sockets_in_the_file_system(way: str, tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text("net:\n  unixDomainSocket:\n    enabled: false\n")
    options = parse(way) if way.startswith("--") else parse("--config", str(path))
    assert options.network.unix_sockets.of(5) == []
    assert options.parsed["net"]["unixDomainSocket"] == {"enabled": False}


def test_a_config_server_has_a_port_and_a_directory_of_its_own() -> None:
    options = parse("--configsvr")
    assert (options.port, options.dbpath) == (27019, Path("/data/configdb"))
    assert parse("--configsvr", "--port", "0").port == 0


def test_server_parameters_are_given_by_name() -> None:
    assert parse("--setParameter", "a=1", "--setParameter", "b=x=y").parameters == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nosuch"], "No such option"),
        (["extra"], "unexpected extra argument"),
        (["--port", "70000"], "70000"),
        (["--storageEngine", "mmapv1"], "rocksdb"),
        (["--shardsvr", "--configsvr"], "exclude each other"),
        (["--shardsvr", "--cqlPort", "9042"], "servers that are no shard"),
        (["--cqlPort", "70000"], "70000"),
        (["--bind_ip", "a,,b"], "empty address"),
        (["--bind_ip", "a", "--bind_ip_all"], "exclude each other"),
        (["--replSet", "set/host"], "name only"),
        (["--fork"], "--logpath"),
        (["--logappend"], "--logpath"),
        (["--setParameter", "x"], "NAME=VALUE"),
        (["--bind_ip", "::1"], "needs --ipv6"),
        (["--bind_ip", "/tmp/a.sock"], "no address"),
        (["--nounixsocket", "--unixSocketPrefix", "/run"], "--nounixsocket excludes"),
        (["--nounixsocket", "--bind_ip", "127.0.0.1,/tmp/a.sock"], "--nounixsocket excludes"),
        (["--filePermissions", "0999"], "no permissions"),
        (["--logRotate", "reopen"], "--logappend"),
        (["--verbose=7"], "no level"),
        (["--networkMessageCompressors", "lzma"], "no compressor"),
        (["--auth"], "--auth is not supported: a router checks"),
        (["--nojournal"], "--nojournal is not supported"),
        (["--transitionToAuth"], "--transitionToAuth needs --keyFile"),
        (["--clusterAuthMode", "keyFile"], "--clusterAuthMode needs --keyFile"),
    ],
)
def test_what_is_not_supported_is_refused_with_a_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in refusal(*arguments)


OF_A_NODE = (*GROUPS, AUTHORIZATION)


@pytest.mark.parametrize(
    ("arguments", "auth"),
    [
        ("", False),
        ("--noauth", False),
        ("--auth", True),
        ("--keyFile k", True),
        ("--keyFile k --auth --replSet rs --clusterAuthMode keyFile", True),
        ("--keyFile k --transitionToAuth --shardsvr", False),
        ("--keyFile k --transitionToAuth --auth", False),
    ],
)
def test_a_key_file_implies_auth_but_for_a_transition(arguments: str, auth: bool) -> None:
    security = parse(*arguments.split(), groups=OF_A_NODE).security
    assert (security.auth, security.key_file) == (auth, Path("k") if "keyFile k" in arguments else None)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--auth --noauth", "exclude each other"),
        ("--keyFile k --noauth", "not allowed where --noauth is specified"),
        *(
            (f"--auth {member}", "--auth needs --keyFile or --clusterAuthMode x509 on a member")
            for member in ("--replSet rs", "--shardsvr")
        ),
    ],
)
def test_what_does_not_go_together_with_auth(arguments: str, sentence: str) -> None:
    assert sentence in refusal(*arguments.split(), groups=OF_A_NODE)


def test_a_key_file_may_stand_in_a_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "thing.conf"
    path.write_text("security: {keyFile: /etc/key, clusterAuthMode: keyFile, transitionToAuth: true}")
    options = parse("--config", str(path))
    assert (options.security.key_file, options.security.transition) == (Path("/etc/key"), True)
    assert options.parsed["security"]["keyFile"] == "/etc/key"


WITH_TLS = "--tlsMode requireTLS --tlsCertificateKeyFile c --tlsCAFile a"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--tlsMode maybe", "unsupported value for tlsMode maybe"),
        ("--tlsMode requireTLS", "need tlsCertificateKeyFile when TLS is enabled"),
        ("--tlsCAFile a", "need to enable TLS via the tlsMode flag"),
        ("--tlsMode disabled --tlsAllowInvalidHostnames", "need to enable TLS via the tlsMode flag"),
        ("--tlsMode allowTLS --tlsCertificateKeyFile c --tlsCRLFile a", "need tlsCAFile with tlsCRLFile"),
        (f"{WITH_TLS} --tlsDisabledProtocols TLS1_4", "Unrecognized disabledProtocols 'TLS1_4'"),
        (f"{WITH_TLS} --tlsDisabledProtocols TLS1_2,TLS1_3", "leaves no protocol"),
        ("--sslMode requireSSL", "it is an old name"),
        ("--clusterAuthMode certificates", "expects one of 'keyFile', 'sendKeyFile', 'sendX509', or 'x509'"),
        ("--clusterAuthMode x509", "need to enable TLS via the tlsMode flag"),
        ("--clusterAuthMode sendX509 --tlsMode allowTLS --tlsCertificateKeyFile c", "in allowTLS mode"),
        ("--clusterAuthMode x509 --tlsMode requireTLS --tlsCertificateKeyFile c", "it needs --tlsCAFile"),
        (f"{WITH_TLS} --clusterAuthMode x509 --tlsAllowInvalidCertificates", "goes without --tlsAllowInvalidCert"),
        (f"{WITH_TLS} --clusterAuthMode x509 --keyFile k", "leave it out"),
        (f"{WITH_TLS} --clusterAuthMode sendX509", "--clusterAuthMode needs --keyFile"),
    ],
)
def test_what_does_not_go_together_with_encryption(arguments: str, sentence: str) -> None:
    assert sentence in refusal(*arguments.split())


@pytest.mark.parametrize(
    ("arguments", "mode", "auth"),
    [
        ("--clusterAuthMode x509", ClusterAuthMode.X509, True),
        ("--clusterAuthMode x509 --transitionToAuth", ClusterAuthMode.X509, False),
        ("--clusterAuthMode x509 --auth --replSet rs", ClusterAuthMode.X509, True),
        ("--clusterAuthMode sendX509 --keyFile k", ClusterAuthMode.SEND_X509, True),
        ("--clusterAuthMode sendKeyFile --keyFile k --shardsvr", ClusterAuthMode.SEND_KEY_FILE, True),
    ],
)
def test_processes_may_know_each_other_by_certificates(arguments: str, mode: ClusterAuthMode, auth: bool) -> None:
    security = parse(*WITH_TLS.split(), *arguments.split(), groups=(*GROUPS, AUTHORIZATION)).security
    assert (security.cluster_mode, security.auth) == (mode, auth)


def test_encryption_may_stand_in_a_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "thing.conf"
    path.write_text("""
net:
  tls:
    mode: preferTLS
    certificateKeyFile: /c
    certificateKeyFilePassword: secret
    CAFile: /a
    clusterFile: /m
    disabledProtocols: TLS1_0,TLS1_2
    allowConnectionsWithoutCertificates: true
""")
    tls = parse("--config", str(path)).tls
    assert (tls.mode, tls.password, tls.disabled_protocols) == (TlsMode.PREFER, "secret", ("TLS1_2",))
    assert (tls.certificate_key_file, tls.cluster_file, tls.ca_file) == (Path("/c"), Path("/m"), Path("/a"))
    assert (tls.without_certificates, tls.invalid_certificates) == (True, False)


def test_passwords_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["--tlsCertificateKeyFilePassword", "one", "--tlsClusterPassword=two"]
    arguments = [*WITH_TLS.split(), *secrets]
    monkeypatch.setattr(sys, "argv", ["thing", *arguments])
    options = parse(*arguments)
    assert (options.tls.password, options.tls.cluster_password) == ("one", "two")
    assert options.argv[-3:] == ("--tlsCertificateKeyFilePassword", "<password>", "--tlsClusterPassword=<password>")
    assert options.parsed["net"]["tls"]["certificateKeyFilePassword"] == "<password>"
    assert not any(secret in repr(options) for secret in ("one'", "two'"))


def test_no_option_is_both_offered_and_unsupported() -> None:
    offered = {setting.flag.lstrip("-") for group in GROUPS for setting in group.settings}
    assert not offered & UNSUPPORTED.keys()


def test_a_configuration_file_gives_options_and_the_command_line_wins(tmp_path: Path) -> None:
    path = tmp_path / "thing.conf"
    path.write_text("""
net: {port: 4000, bindIp: "127.0.0.1"}
systemLog: {destination: file, path: /tmp/x.log, logAppend: true}
storage: {dbPath: /tmp/data}
replication: {replSetName: rs, oplogSizeMB: 5}
sharding: {clusterRole: shardsvr}
setParameter: {a: 1}
""")
    options = parse("--config", str(path), "--port", "5000")
    assert (options.port, options.dbpath, options.logging.append) == (5000, Path("/tmp/data"), True)
    assert (options.replication.set_name, options.replication.oplog_bytes) == ("rs", 5 * 1024 * 1024)
    assert options.role.shardsvr
    assert options.parameters == {"a": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "net: {nosuch: true}",
        "storage: {journal: {enabled: false}}",
        "- a",
        "net: [",
        "security: {authorization: enabled}",
    ],
)
def test_a_configuration_file_with_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "thing.conf"
    path.write_text(text)
    assert "thing" in refusal("--config", str(path))
    assert "cannot read" in refusal("--config", str(tmp_path / "none"))


def test_help_names_every_option() -> None:
    result, _ = invoke("--help")
    assert result.exit_code == 0
    for group in GROUPS:
        for setting in group.settings:
            assert setting.flag in result.output


@pytest.mark.parametrize(("argument", "level"), [("-v", 1), ("-vvv", 3), ("--verbose", 1), ("--verbose=4", 4)])
def test_verbosity_is_counted_or_named(argument: str, level: int) -> None:
    assert parse(argument).logging.verbosity == level


def test_what_a_configuration_file_says_truly_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "thing.conf"
    path.write_text(f"""
storage: {{journal: {{enabled: true}}}}
security: {{authorization: disabled, javascriptEnabled: false}}
net: {{ipv6: true, compression: {{compressors: "zstd,zlib"}}}}
systemLog: {{quiet: true, verbosity: 2, path: {tmp_path / "log"}, logAppend: true, logRotate: reopen}}
operationProfiling: {{slowOpThresholdMs: 20}}
sharding: {{clusterRole: shardsvr}}
setParameter: {{a: 1, b: true}}
""")
    options = parse("--config", str(path))
    assert not options.storage.scripting
    assert options.network.addresses == ("127.0.0.1", "::1")
    assert options.network.compressors == ("zstd", "zlib")
    assert (options.logging.quiet, options.logging.rotate, options.logging.slow_ms) == (True, "reopen", 20)
    assert options.parsed["sharding"] == {"clusterRole": "shardsvr"}
    assert options.parsed["setParameter"] == {"a": "1", "b": "true"}


def test_the_version_is_told() -> None:
    result, seen = invoke("--version")
    assert (result.exit_code, seen) == (0, [])
    assert re.match(r"(db|mongos) version v8\.0\.0\nBuild Info: \{\n", result.output)


def test_engines_of_the_real_server_are_taken_for_ours() -> None:
    for name, engine in (("wiredTiger", "rocksdb"), ("ephemeralForTest", "inMemory"), ("inMemory", "inMemory")):
        assert parse("--storageEngine", name).storage.engine == engine


def test_an_audit_log_in_a_file_needs_its_path_and_format(tmp_path: Path) -> None:
    assert parse().audit.destination is None
    audit = parse(
        "--auditDestination", "file", "--auditFormat", "BSON", "--auditPath", "a", "--logRotate", "rename"
    ).audit
    assert (audit.destination, audit.format, audit.path, audit.rename) == ("file", "BSON", Path("a"), True)
    assert parse("--auditDestination", "syslog", "--auditFilter", "{}").audit.filter == "{}"
    assert "--auditFormat" in refusal("--auditDestination", "file", "--auditPath", "a")
    assert "--auditDestination" in refusal("--auditFilter", "{}")
    assert "--auditDestination file" in refusal("--auditDestination", "console", "--auditPath", "a")
    path = tmp_path / "thing.conf"
    path.write_text("auditLog: {destination: file, format: JSON, path: a, filter: '{ atype: x }'}")
    assert parse("--config", str(path)).audit.filter == "{ atype: x }"


def test_versions_of_encryption_that_are_logged_are_named() -> None:
    encryption = ("--tlsMode", "allowTLS", "--tlsCertificateKeyFile", "a")
    assert parse(*encryption, "--tlsLogVersions", "TLS1_0,TLS1_3", "--tlsFIPSMode").tls.log_versions == ("1.0", "1.3")
    assert "Unrecognized tlsLogVersions" in refusal(*encryption, "--tlsLogVersions", "TLS1_9")


def test_the_native_protocol_has_a_port_if_it_is_given_one(tmp_path: Path) -> None:
    assert parse().cql_port is None
    assert parse("--cqlPort", "0").cql_port == 0
    file = tmp_path / "mongos.conf"
    file.write_text("wideColumn: {cqlPort: 9042}")
    assert parse("--config", str(file)).cql_port == 9042
