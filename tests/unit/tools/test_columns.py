"""What texts in columns of CSV and TSV become."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.tools.text.columns import guess, typed_column
from docstore.tools.text.dates import date_reader
from docstore.tools.text.reading import InputFormat, UnreadableText, field_specifications, read_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-07", -7),
        ("9223372036854775807", (1 << 63) - 1),
        ("9223372036854775808", float(1 << 63)),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("-Inf", float("-inf")),
        ("1_000", "1_000"),
        (" 1", " 1"),
        ("true", "true"),
        ("", ""),
    ],
)
def test_what_a_text_looks_like(text: str, value: Any) -> None:
    assert guess(text) == value
    assert type(guess(text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("a.int32()", "2147483647", 2147483647),
        ("a.int64()", "5", Int64(5)),
        ("a.double()", "5", 5.0),
        ("a.decimal()", "1.50", Decimal128("1.50")),
        ("a.string()", "5", "5"),
        ("a.boolean()", "T", True),
        ("a.boolean()", "0", False),
        ("a.binary(hex)", "00ff", b"\0\xff"),
        ("a.binary(base64)", "AP8=", b"\0\xff"),
        ("a.binary(base32)", "AD7Q====", b"\0\xff"),
        ("a.auto()", "5", 5),
        ("a.date(2006-01-02)", "2026-11-25", datetime(2026, 11, 25, tzinfo=UTC)),
    ],
)
def test_a_value_of_a_type(name: str, text: str, value: Any) -> None:
    column = typed_column(name)
    assert column.path == ("a",)
    assert column.read(text) == value
    assert type(column.read(text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.int32()", "2147483648"),
        ("a.int64()", "1.5"),
        ("a.double()", "one"),
        ("a.decimal()", "one"),
        ("a.boolean()", "yes"),
        ("a.binary(hex)", "0"),
        ("a.date(2006-01-02)", "2026-13-01"),
        ("a.date(2006-01-02)", "25.11.2026"),
    ],
)
def test_a_value_that_is_none_of_its_type(name: str, text: str) -> None:
    column = typed_column(name)
    with pytest.raises(ValueError, match=r"."):
        column.read(text)


@pytest.mark.parametrize("name", ["a", "a.b", "a.number()", "a.int32(5)", "a.binary(octal)", "a.date(2006 2006)"])
def test_a_type_that_is_none(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        typed_column(name)


@pytest.mark.parametrize(
    ("kind", "layout", "text", "moment"),
    [
        ("date", "Mon Jan _2 15:04:05 MST 2006", "Wed Nov  5 23:46:10 UTC 2026", datetime(2026, 11, 5, 23, 46, 10)),
        ("date", "2006-01-02T15:04:05Z0700", "2026-01-02T01:02:03.5+0200", datetime(2026, 1, 1, 23, 2, 3, 500000)),
        ("date_go", "1/2/06 3:04PM", "11/25/26 12:30am", datetime(2026, 11, 25, 0, 30)),
        ("date_go", "2 January 06 15:04:05.000", "25 May 26 01:02:03.125", datetime(2026, 5, 25, 1, 2, 3, 125000)),
        ("date_ms", "yyyy-MM-dd HH:mm:ss", "2026-11-25 01:02:03", datetime(2026, 11, 25, 1, 2, 3)),
        ("date_ms", "d MMMM yy h:mm tt", "5 May 26 1:02 PM", datetime(2026, 5, 5, 13, 2)),
        ("date_oracle", "YYYY-MM-DD HH24:MI:SS", "2026-11-25 01:02:03", datetime(2026, 11, 25, 1, 2, 3)),
        ("date_oracle", "DD-Mon-YY", "25-NOV-99", datetime(1999, 11, 25)),
    ],
)  # fmt: skip
def test_layouts_of_dates(kind: str, layout: str, text: str, moment: datetime) -> None:
    assert date_reader(kind, layout)(text) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "layout"), [("date_ms", "yyyy-QQ"), ("date_oracle", "YYYY-Q"), ("date_ms", "yyyy yyyy")]
)
def test_layouts_that_are_none(kind: str, layout: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        date_reader(kind, layout)


def documents(text: str, kind: str = "csv", fields: str | None = None, **options: Any) -> list[dict[str, Any]]:
    given = {"is_array": False, "has_types": False, "grace": "stop", "ignores_blanks": False, "has_indexes": False}
    form = InputFormat(kind=kind, fields=field_specifications(fields, None), **(given | options))
    return list(read_documents(io.StringIO(text, newline=""), form, lambda _: None))


def test_rows_become_documents() -> None:
    assert documents('a,b.c\n1,"x,""y"\n2,\n', ignores_blanks=True) == [{"a": 1, "b": {"c": 'x,"y'}}, {"a": 2}]
    assert documents("1\tx y\n\n2\n", "tsv", "a,b") == [{"a": 1, "b": "x y"}, {"a": 2}]
    assert documents("1,2,3\n", fields="a") == [{"a": 1, "field1": 2, "field2": 3}]
    assert documents("1,x,y\n", fields="n,t.0,t.1", has_indexes=True) == [{"n": 1, "t": ["x", "y"]}]
    assert documents("1,x\n", fields="n,t.0") == [{"n": 1, "t": {"0": "x"}}]


def test_fields_with_types() -> None:
    fields = "a.int32(),b.date(Jan 2, 2006)"
    assert field_specifications(fields, None) == ("a.int32()", "b.date(Jan 2, 2006)")
    text = '1,"Nov 25, 2026"\nx,"Nov 25, 2026"\n'
    moment = datetime(2026, 11, 25, tzinfo=UTC)
    with pytest.raises(UnreadableText, match="row 2, field a"):
        documents(text, fields=fields, has_types=True)
    for grace, second in (("skipRow", []), ("skipField", [{"b": moment}]), ("autoCast", [{"a": "x", "b": moment}])):
        assert documents(text, fields=fields, has_types=True, grace=grace) == [{"a": 1, "b": moment}, *second]


@pytest.mark.parametrize("header", ["a,a", "a,a.b", "a.b,a", "a..b", "field1"])
def test_columns_that_do_not_go_together(header: str) -> None:
    with pytest.raises(UnreadableText):
        documents(f"{header}\n1,2\n")


def test_unreadable_rows() -> None:
    with pytest.raises(UnreadableText, match="document #2"):
        documents('a\n1\n"x\n')
    with pytest.raises(UnreadableText, match="no header line"):
        documents("")
    with pytest.raises(UnreadableText, match="leaves out"):
        documents("x\n", fields="t.1", has_indexes=True)
