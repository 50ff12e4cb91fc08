"""What the options of a connection mean."""

from __future__ import annotations

from typing import Any

import click
import pytest

from docstore.tools.connection import connect, read_preference_options, write_concern_options

NOTHING: dict[str, Any] = dict.fromkeys(("uri", "host", "port", "username", "password", "source", "mechanism"))


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "mongodb://127.0.0.1/"),
        ({"port": 1}, "mongodb://127.0.0.1:1/"),
        ({"host": "a:5", "port": 1}, "mongodb://a:5/"),
        ({"host": "rs0/a,b:5", "port": 1}, "mongodb://a:1,b:5/?replicaSet=rs0"),
        ({"host": "[::1]", "port": 1}, "mongodb://[::1]:1/"),
        ({"uri": "mongodb://ann:secret@a:5/shop?w=1"}, "mongodb://a:5/shop?w=1"),
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
