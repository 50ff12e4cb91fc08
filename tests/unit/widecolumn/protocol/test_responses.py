"""Bodies of responses: rows and types as examples have them, errors with the fields that clients read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.widecolumn.cql.errors import table_exists
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.run.prepare import Prepared
from docstore.widecolumn.cql.statements import Use
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import DECIMAL, INT, NATIVE_TYPES, TEXT
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import read_timed_out, unavailable, write_timed_out
from docstore.widecolumn.protocol.failures import failure_of, unprepared
from docstore.widecolumn.protocol.notation import NULL, inet, string
from docstore.widecolumn.protocol.opcodes import V4, V5, ErrorCode
from docstore.widecolumn.protocol.prepared import StatementIds
from docstore.widecolumn.protocol.responses import Failure, RowsMetadata, encode_rows, error_body, rows_body
from docstore.widecolumn.protocol.type_options import type_option
from tests.unit.widecolumn.protocol.client_frames import read_rows


def test_types_have_the_options_of_the_protocol() -> None:
    assert type_option(TEXT) == b"\0\x0d"
    assert type_option(SetType(TEXT)) == b"\0\x22\0\x0d"
    assert type_option(MapType(TEXT, ListType(INT))) == b"\0\x21\0\x0d\0\x20\0\x09"
    assert type_option(TupleType((INT, TEXT))) == b"\0\x31\0\2\0\x09\0\x0d"
    assert DECIMAL.serialise(Decimal("1.50")) == bytes.fromhex("000000020096")
    assert len({type_option(kind) for kind in NATIVE_TYPES.values()}) == len(NATIVE_TYPES) - 1


def test_rows_of_one_and_of_several_tables() -> None:
    columns = [ResultColumn("k", "t", "a", INT), ResultColumn("k", "t", "b", TEXT)]
    rows = [(b"\0\0\0\1", None), (None, b"")]
    found = read_rows(rows_body(RowsMetadata(columns, b"state"), 2, [encode_rows(rows)]))
    assert (found.flags, found.rows, found.paging_state) == (3, rows, b"state")
    mixed = [columns[0], ResultColumn("k", "u", "b", TEXT)]
    found = read_rows(rows_body(RowsMetadata(mixed, changed_id=b"id"), 2, [encode_rows(rows)]))
    assert (found.flags, found.columns, found.changed_id) == (8, [("k", "t", "a", 9), ("k", "u", "b", 13)], b"id")
    found = read_rows(rows_body(RowsMetadata(columns, with_columns=False), 1, [encode_rows(rows[:1])]))
    assert (found.flags, found.columns, found.rows) == (4, [], rows[:1])
    assert encode_rows([(None,)]) == NULL


def test_a_long_text_is_cut_where_a_character_ends() -> None:
    data = string("é" * 40_000)
    assert len(data) == 2 + 65_534
    assert data[2:].decode() == "é" * 32_767
    assert string("\ud800") == b"\0\1?"


def test_addresses() -> None:
    assert inet("127.0.0.1", 9042) == b"\4\x7f\0\0\1\0\0\x23\x52"
    assert inet("::1", 1) == b"\x10" + bytes(15) + b"\1\0\0\0\1"


@pytest.mark.parametrize(
    ("error", "write_type", "body"),
    [
        (unavailable("QUORUM", 2, 1, write=True), "SIMPLE", b"\0\4\0\0\0\2\0\0\0\1"),
        (write_timed_out("ALL", 3, 1, ""), "BATCH", b"\0\5\0\0\0\1\0\0\0\3\0\5BATCH"),
        (read_timed_out("TWO", 2, 1), None, b"\0\2\0\0\0\1\0\0\0\2\0"),
        (table_exists("k", "t"), "SIMPLE", b"\0\1k\0\1t"),
    ],
)
def test_errors_carry_their_fields(error: CommandError, write_type: str | None, body: bytes) -> None:
    failure = failure_of(error, level=Level.ONE, write_type=write_type)
    encoded = error_body(failure, V4)
    assert encoded.endswith(body)
    assert len(encoded) == 4 + 2 + len(failure.message.encode()) + len(body)


def test_a_conditional_write_that_timed_out_counts_contentions_in_version_5() -> None:
    failure = failure_of(write_timed_out("QUORUM", 2, 1, ""), level=Level.ONE, write_type="CAS")
    assert error_body(failure, V5) == error_body(failure, V4) + b"\0\0"


@pytest.mark.parametrize("write_type", [None, "SIMPLE"])
def test_what_a_failover_does_is_no_server_error(write_type: str | None) -> None:
    codes = {*STATE_CHANGE_CODES, Code.HostUnreachable, Code.NetworkTimeout, Code.MaxTimeMSExpired, Code.StaleConfig}
    for code in codes:
        failure = failure_of(CommandError(code, "x"), level=Level.QUORUM, write_type=write_type)
        assert failure.code != ErrorCode.SERVER_ERROR
        assert failure.level is Level.QUORUM
        # A write that may have been done is no Unavailable, which says that nothing was.
        if code in (Code.InterruptedDueToReplStateChange, Code.NetworkTimeout):
            expected = ErrorCode.READ_TIMEOUT if write_type is None else ErrorCode.WRITE_TIMEOUT
            assert failure.code == expected
    assert failure_of(CommandError(Code.InternalError, "x"), level=Level.ONE, write_type=None).code == 0


def test_an_unknown_id_comes_back() -> None:
    assert error_body(unprepared(b"abc"), V4).endswith(b"\0\3abc")
    assert error_body(Failure(code=ErrorCode.INVALID, message="x"), V4) == b"\0\0\x22\0\0\1x"


def test_ids_are_evicted_by_number_and_by_size() -> None:
    def statement(number: int, size: int = 0) -> Prepared:
        return Prepared(f"USE k{number}" + " " * size, None, Use(f"k{number}"))

    ids = StatementIds(limit=3)
    prepared = [statement(number) for number in range(4)]
    for one in prepared[:3]:
        ids.add(one, Use("k"))
    assert ids.get(prepared[0].id) is not None
    ids.add(prepared[3], Use("k"))
    assert [ids.get(one.id) is not None for one in prepared] == [True, False, True, True]
    heavy = StatementIds(max_text_bytes=250)
    large = [statement(number, 100) for number in range(3)]
    for one in large * 2:
        heavy.add(one, Use("k"))
    assert [heavy.get(one.id) is not None for one in large] == [False, True, True]
    assert len(heavy) == 2
