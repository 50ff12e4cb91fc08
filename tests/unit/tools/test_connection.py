"""What the options of a connection mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from docstore.tools import dump
from docstore.tools.connection import client_options, connect, read_preference_options, write_concern_options

OF_CONNECTIONS = {
    "uri", "host", "port", "username", "password", "source", "mechanism", "config", "tls", "tls_ca_file",
    "tls_certificate_file", "tls_password", "tls_revoked_file", "tls_insecure", "tls_any_certificate", "tls_any_host",
}  # fmt: skip
NOTHING: dict[str, Any] = {param.name: None for param in dump.main.params if param.name in OF_CONNECTIONS} | {
    "verbose": 0
}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "mongodb://127.0.0.1/"),
        ({"port": 1}, "mongodb://127.0.0.1:1/"),
        ({"host": "a:5", "port": 1}, "mongodb://a:5/"),
        ({"host": "rs0/a,b:5", "port": 1}, "mongodb://a:1,b:5/?replicaSet=rs0"),
        ({"host": "[::1]", "port": 1}, "mongodb://[::1]:1/"),
        ({"uri": "mongodb://ann:secret@a:5/shop?w=1"}, "mongodb://a:5/shop?w=1"),
        ({"uri": "mongodb://ann@a:5/", "password": "s/e:c@t"}, "mongodb://a:5/"),
    ],
)
def test_where_a_tool_connects_to(given: dict[str, Any], place: str, capsys: pytest.CaptureFixture[str]) -> None:
    connect(**(NOTHING | given), quiet=False, connect=False).close()
    assert capsys.readouterr().err.rstrip().endswith(f"\tconnected to: {place}")


@pytest.mark.parametrize(
    "given",
    [
        {"uri": "mongodb://a/", "host": "b"},
        {"uri": "mongodb://a/", "port": 1},
        {"uri": "http://a/"},
        {"uri": "mongodb://ann:secret@:x/@@"},
        {"password": "x"},
        {"source": "admin"},
        {"mechanism": "SCRAM-SHA-256"},
        {"mechanism": "MONGODB-X509", "password": "x"},
        {"uri": "mongodb://ann:secret@a/", "password": "x"},
    ],
)
def test_options_that_do_not_go_together(given: dict[str, Any]) -> None:
    with pytest.raises(click.UsageError):
        connect(**(NOTHING | given), quiet=True, connect=False)


def test_where_is_read() -> None:
    assert read_preference_options(None) == {}
    assert read_preference_options("nearest") == {"readPreference": "nearest"}
    document = '{"mode": "secondary", "tagSets": [{"dc": "ny", "rack": "1"}, {}], "maxStalenessSeconds": 120}'
    assert read_preference_options(document) == {
        "readPreference": "secondary",
        "readPreferenceTags": ["dc:ny,rack:1", ""],
        "maxStalenessSeconds": 120,
    }
    for wrong in ("any", "{", '{"tagSets": []}', '{"mode": "nearest", "hedge": {}}'):
        with pytest.raises(click.UsageError):
            read_preference_options(wrong)


def test_what_a_write_waits_for() -> None:
    assert write_concern_options(None) == {"w": "majority"}
    assert write_concern_options("2") == {"w": 2}
    assert write_concern_options("all_sites") == {"w": "all_sites"}
    assert write_concern_options('{"w": 1, "j": true, "wtimeout": 5}') == {"w": 1, "journal": True, "wTimeoutMS": 5}
    for wrong in ("0", "{}", '{"fsync": true}', "{"):
        with pytest.raises(click.UsageError):
            write_concern_options(wrong)


def test_encryption() -> None:
    files = {"tls_ca_file": "ca.pem", "tls_certificate_file": "me.pem", "tls_any_host": True}
    options = client_options(NOTHING | files)[1]
    assert {name: value for name, value in options.items() if name.startswith("tls")} == {
        "tls": True, "tlsCAFile": "ca.pem", "tlsCertificateKeyFile": "me.pem", "tlsAllowInvalidHostnames": True,
    }  # fmt: skip
    assert "tls" not in client_options(NOTHING)[1]
    by_certificate = client_options(NOTHING | files | {"mechanism": "MONGODB-X509"})[1]
    assert by_certificate["authMechanism"] == "MONGODB-X509"
    assert "password" not in by_certificate


def test_a_file_with_the_password(tmp_path: Path) -> None:
    file = tmp_path / "tools.yaml"
    file.write_text("uri: mongodb://ann@a/\npassword: secret\nsslPEMKeyPassword: 5\n")
    uri, options = client_options(NOTHING | {"config": file})
    assert uri == "mongodb://ann:secret@a/"
    assert options["tlsCertificateKeyFilePassword"] == "5"
    with pytest.raises(click.UsageError, match="given twice"):
        client_options(NOTHING | {"config": file, "uri": "mongodb://b/"})
    for wrong in ("host: a", "- 1", "{"):
        file.write_text(wrong)
        with pytest.raises(click.UsageError):
            client_options(NOTHING | {"config": file})


def test_a_connection_string_alone_is_the_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str | None] = []

    def noted(**options: Any) -> None:
        given.append(options["uri"])
        raise click.UsageError("noted")

    monkeypatch.setattr(dump, "Deployment", noted)
    for arguments in (["mongodb://a/"], ["-d", "x", "mongodb://a/"], ["--uri", "mongodb://a/"], ["--uri=mongodb://a/"]):
        CliRunner().invoke(dump.main, arguments)
    assert given == ["mongodb://a/"] * 4
