"""The grammar: words are names where they may be, errors say where they are."""

from __future__ import annotations

import contextlib

import pytest

from docstore.bson import allowance
from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.grammar.scanner import MAX_WORD_CHARS
from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.roles.grammar import is_about_roles
from docstore.widecolumn.cql.statements import (
    Constant,
    ConstantKind,
    Insert,
    Marker,
    Operator,
    Relation,
    Select,
    Star,
    TableName,
    Use,
)


def test_names_fold_unless_they_are_quoted() -> None:
    assert parse("USE Foo") == Use("foo")
    assert parse('USE "Foo"') == Use("Foo")
    assert parse('use "a""b";') == Use('a"b')


def test_words_are_names_where_no_keyword_can_stand() -> None:
    found = parse("SELECT key, type, ttl, timestamp, count, values FROM clustering WHERE json = 1")
    assert isinstance(found, Select)
    assert found.table == TableName(None, "clustering")
    assert len(found.selected) == 6


def test_constants_are_told_apart() -> None:
    text = "SELECT * FROM t WHERE a = {} AND b = 1"
    for written, kind, shown in (
        ("'it''s'", ConstantKind.STRING, "it's"),
        ("$$it's$$", ConstantKind.STRING, "it's"),
        ("-12", ConstantKind.INTEGER, "-12"),
        ("-1.5e3", ConstantKind.FLOAT, "-1.5e3"),
        ("1e3", ConstantKind.FLOAT, "1e3"),
        ("NaN", ConstantKind.FLOAT, "NaN"),
        ("-Infinity", ConstantKind.FLOAT, "-Infinity"),
        ("TRUE", ConstantKind.BOOLEAN, "TRUE"),
        ("0xCAFE", ConstantKind.HEX, "0xCAFE"),
        ("123e4567-e89b-12d3-a456-426614174000", ConstantKind.UUID, "123e4567-e89b-12d3-a456-426614174000"),
        ("1h30m", ConstantKind.DURATION, "1h30m"),
        ("P1Y2M", ConstantKind.DURATION, "P1Y2M"),
    ):
        found = parse(text.format(written))
        assert isinstance(found, Select)
        assert found.where[0] == Relation("a", Operator.EQ, Constant(kind, shown))


def test_markers_know_where_they_stand() -> None:
    found = parse("SELECT * FROM t WHERE a = ? AND b = :x")
    assert isinstance(found, Select)
    markers = [relation.value for relation in found.where]
    assert markers == [Marker(26), Marker(36, "x")]


def test_comments_and_white_space_are_skipped() -> None:
    assert parse("-- one\n/* two\n*/ USE // three\n k ;") == Use("k")
    assert isinstance(parse("SELECT count(*) FROM t"), Select)
    assert parse("SELECT count(*) FROM t").selected[0].expression.arguments == (Star(),)  # type: ignore[union-attr]


MISTAKES = [
    ("SELEC * FROM t", "line 1:0 no viable alternative at input 'SELEC'"),
    ("SELECT * FROM", "line 1:13 no viable alternative at input '<EOF>'"),
    ("SELECT *\nFROM t WHERE select = 1", "line 2:13 no viable alternative at input 'select'"),
    ("SELECT * FROM t WHERE a = 'x", "line 1:26 no viable alternative at character '''"),
    ("USE k; USE l", "line 1:7 no viable alternative at input 'USE'"),
    ("", "line 1:0 no viable alternative at input '<EOF>'"),
    ("USEk", "line 1:0 no viable alternative at input 'USEk'"),
    ("INSERT INTO t (a, b) VALUES (1, c, 2)", "line 1:33 no viable alternative at input ','"),
    ("SELECT FROM t", "line 1:7 no viable alternative at input 'FROM'"),
    ("SELECT * FROM t WHERE a = " + "[" * 200, "line 1:126 terms are nested too deeply"),
    ("UPDATE t SET a = b + 1 WHERE k = 1", "line 1:19 Only expressions of the form X = X +<value>"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(CqlError) as caught:
        parse(text)
    assert caught.value.message.startswith(message)


KNOWN = [
    ("CREATE INDEX i ON t (a)", "Secondary indexes are not supported"),
    ("  create custom  index on t (a) using 'x'", "Secondary indexes are not supported"),
    ("CREATE MATERIALIZED VIEW v AS SELECT a FROM t", "Materialized views are not supported"),
    ("CREATE OR REPLACE FUNCTION f()", "User-defined functions are not supported"),
    ("DROP TYPE x", "User-defined types are not supported"),
    ("INSERT INTO t JSON '{}'", "INSERT JSON is not supported"),
]


@pytest.mark.parametrize(("text", "message"), KNOWN)
def test_what_is_known_and_not_served_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(CqlError) as caught:
        parse(text)
    assert caught.value.message == message


def test_a_statement_of_too_many_tokens_is_refused() -> None:
    numbers = ", ".join(map(str, range(70_000)))
    with pytest.raises(CqlError, match="more than 131072 tokens"):
        parse(f"SELECT * FROM t WHERE k IN ({numbers})")


@pytest.mark.parametrize("blanks", [" " * 5000, "\n\t" * 5000, "-- a\n" * 5000, "/* a */ " * 5000])
def test_many_blanks_before_a_statement_are_skipped_once(blanks: str) -> None:
    assert not is_about_roles(f"{blanks}SELECT * FROM t")
    assert is_about_roles(f"{blanks}GRANT a TO b")
    assert parse(f"{blanks}SELECT * FROM t") == parse("SELECT * FROM t")


LONG = 1_000_000
BOMBS = {
    "quoted name of quotes": 'SELECT "' + '""' * LONG,
    "unended quoted name": 'SELECT ""' + '""' * LONG,
    "string of quotes": "INSERT INTO t (k) VALUES ('" + "''" * LONG,
    "unended string": "INSERT INTO t (k) VALUES (''" + "''" * LONG,
    "string with quotes": "INSERT INTO t (k) VALUES ('" + "a''" * LONG + "')",
    "comments": "/**/" * LONG,
    "line comments": "--\n" * LONG,
    "word": "SELECT " + "a" * LONG,
    "number": "SELECT * FROM t WHERE k = " + "1" * LONG,
    "duration": "SELECT * FROM t WHERE k = " + "1y" * LONG,
    "json of a long table": "INSERT INTO " + "x " * LONG,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_long_token_is_read_in_metered_steps(name: str) -> None:
    text = BOMBS[name]
    places: list[int] = []
    allowance.install(places.append)
    try:
        with contextlib.suppress(CqlError):
            parse(text)
    finally:
        allowance.install(None)
    # It ends early, or is charged for in steps that are small each.
    assert max(places, default=0) <= 8 * allowance.QUANTUM
    assert sum(places) <= 40 * len(text)


def test_a_word_or_a_number_of_any_length_is_refused() -> None:
    for text in ("SELECT " + "a" * MAX_WORD_CHARS, "SELECT * FROM t WHERE k = " + "1" * MAX_WORD_CHARS):
        with pytest.raises(CqlError, match="has more than 65536 characters"):
            parse(text)
    parse("INSERT INTO t (k) VALUES (0x" + "ab" * MAX_WORD_CHARS + ")")
    parse("INSERT INTO t (k) VALUES ('" + "ab''" * MAX_WORD_CHARS + "')")
    parse('SELECT "' + 'a""' * MAX_WORD_CHARS + '" FROM t')


def test_quotes_are_doubled_in_quoted_texts() -> None:
    for text, expected in (("''", ""), ("''''", "'"), ("'a''b'", "a'b"), ("$$a'$b$$", "a'$b"), ("''''''", "''")):
        statement = parse(f"INSERT INTO t (k) VALUES ({text})")
        assert isinstance(statement, Insert)
        assert statement.values == (Constant(ConstantKind.STRING, expected),)
    for text in ("'", "'''", "'a''", '"', '""', '"""', "$$", "$$a$"):
        with pytest.raises(CqlError):
            parse(f"INSERT INTO t (k) VALUES ({text})")


def test_a_comment_ends_at_its_first_end() -> None:
    for comment in ("/**/", "/***/", "/*/*/", "/* ** / * **/", "/**/ -- */\n// /*\n/*'*/"):
        assert parse(f"{comment}SELECT * FROM t{comment}") == parse("SELECT * FROM t")
    for comment in ("/*/", "/*", "/* *", "/"):
        with pytest.raises(CqlError):
            parse(f"{comment}SELECT * FROM t")
