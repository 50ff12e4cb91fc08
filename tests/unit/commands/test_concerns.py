"""Concerns and read preferences as commands carry them: values, defaults, refusals."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.bson.walk import INT32, OBJECT
from docstore.commands.concerns import (
    ReadConcern,
    ReadLevel,
    ReadMode,
    ReadPreference,
    WriteConcern,
    parse_read_concern,
    parse_read_preference,
    parse_write_concern,
)
from docstore.errors import CommandError


def code_of(parse: Any, document: Any) -> int:
    with pytest.raises(CommandError) as caught:
        parse(*((OBJECT, bson.encode(document)) if isinstance(document, dict) else (INT32, b"\1\0\0\0")))
    return caught.value.code


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ({}, WriteConcern()),
        ({"w": 0}, WriteConcern(0)),
        ({"w": 1.5}, WriteConcern(1)),
        ({"w": {"dc": 2, "rack": 1.5}}, WriteConcern((("dc", 2), ("rack", 1)))),
        ({"w": "majority", "wtimeout": 500}, WriteConcern("majority", None, 500)),
        ({"j": 1}, WriteConcern(1, True)),
        ({"j": False}, WriteConcern(1, False)),
        ({"fsync": True}, WriteConcern(1, True)),
        ({"wtimeout": "x"}, WriteConcern()),
        ({"wtimeout": -1}, WriteConcern()),
        ({"w": 2, "provenance": "clientSupplied"}, WriteConcern(2)),
    ],
)
def test_a_write_concern_is_read(document: dict[str, Any], value: WriteConcern) -> None:
    assert parse_write_concern(OBJECT, bson.encode(document)) == value


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (1, 14), ({"w": -1}, 9), ({"w": 51}, 9), ({"w": True}, 9), ({"w": {}}, 9),
        ({"w": {"dc": "x"}}, 9), ({"w": {"dc": True}}, 9), ({"j": "x"}, 14),
        ({"fsync": "x"}, 14), ({"wtimeout": 1 << 40}, 9), ({"foo": 1}, 40415), ({"fsync": True, "j": True}, 9),
        ({"provenance": "x"}, 2),
    ],
)  # fmt: skip
def test_a_malformed_write_concern_is_refused(document: Any, code: int) -> None:
    assert code_of(parse_write_concern, document) == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (1, 9), ({"level": "x"}, 9), ({"level": 1}, 14), ({"foo": 1}, 72), ({"afterClusterTime": 1}, 14),
        ({"level": "local", "atClusterTime": bson.Timestamp(1, 1)}, 72), ({"afterOpTime": {}}, 238),
    ],
)  # fmt: skip
def test_a_malformed_read_concern_is_refused(document: Any, code: int) -> None:
    assert code_of(parse_read_concern, document) == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (1, 14), ({}, 4), ({"mode": "x"}, 2), ({"mode": 1}, 14), ({"mode": "primary", "tags": [{"a": "b"}]}, 2),
        ({"mode": "secondary", "tags": 1}, 14), ({"mode": "secondary", "maxStalenessSeconds": 1}, 160),
        ({"mode": "secondary", "maxStalenessSeconds": -5}, 2), ({"mode": "primary", "maxStalenessSeconds": 90}, 2),
        ({"mode": "secondary", "maxStalenessSeconds": "a"}, 14), ({"mode": "primary", "hedge": {"enabled": True}}, 72),
        ({"mode": "secondary", "hedge": 1}, 14),
    ],
)  # fmt: skip
def test_a_malformed_read_preference_is_refused(document: Any, code: int) -> None:
    assert code_of(parse_read_preference, document) == code


@pytest.mark.parametrize(
    "value",
    [
        ReadPreference(),
        ReadPreference(ReadMode.NEAREST, ((("dc", "a"), ("rack", "1")), ()), 120),
    ],
)
def test_a_read_preference_survives_being_sent_on(value: ReadPreference) -> None:
    assert parse_read_preference(OBJECT, bson.encode(value.document())) == value


@pytest.mark.parametrize(
    "value", [ReadConcern(), ReadConcern(ReadLevel.MAJORITY, 5 << 32 | 1), ReadConcern(ReadLevel.SNAPSHOT, None, 7)]
)
def test_a_read_concern_survives_being_sent_on(value: ReadConcern) -> None:
    assert parse_read_concern(OBJECT, bson.encode(value.document())) == value


@pytest.mark.parametrize("value", [WriteConcern(), WriteConcern("majority", False, 10), WriteConcern(3, True)])
def test_a_write_concern_survives_being_sent_on(value: WriteConcern) -> None:
    assert parse_write_concern(OBJECT, bson.encode(value.document())) == value
