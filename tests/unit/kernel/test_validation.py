from __future__ import annotations

import struct
from random import Random

import pytest

from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import binary, document, int32, scoped, string, value


def nested(kernel: Kernel, depth: int) -> bytes:
    raw: bytes = kernel.EMPTY_DOCUMENT
    for _ in range(depth - 1):
        raw = kernel.document_from([("a", 0x03, raw)])
    return raw


def test_sound_documents_pass(kernel: Kernel) -> None:
    rnd = Random(7)
    for _ in range(300):
        kernel.validate(document(rnd, 4))


def test_depth_is_bounded(kernel: Kernel) -> None:
    kernel.validate(nested(kernel, 180))
    kernel.validate(nested(kernel, 5), max_depth=5)
    for raw, depth in ((nested(kernel, 181), 180), (nested(kernel, 6), 5), (nested(kernel, 20000), 180)):
        with pytest.raises(CommandError) as refused:
            kernel.validate(raw, max_depth=depth)
        assert refused.value.code == Code.Overflow


def field(code: int, value: bytes) -> bytes:
    body = bytes([code]) + b"a\0" + value
    return struct.pack("<i", len(body) + 5) + body + b"\0"


UNSOUND = {
    "empty": b"",
    "too short": b"\5\0\0\0",
    "length beyond the end": b"\6\0\0\0\0",
    "length before the end": b"\5\0\0\0\0\0",
    "no NUL at the end": b"\5\0\0\0\1",
    "negative length": b"\xff\xff\xff\xff\0",
    "unknown type": field(0x14, b""),
    "string without NUL": field(0x02, b"\2\0\0\0ab"),
    "string of length 0": field(0x02, b"\0\0\0\0"),
    "string that is too long": field(0x02, b"\x09\0\0\0a\0"),
    "string of negative length": field(0x02, b"\xf0\xff\xff\xffa\0"),
    "string that is not UTF-8": field(0x02, b"\3\0\0\0\xc3\x28\0"),
    "surrogate in UTF-8": field(0x02, b"\4\0\0\0\xed\xa0\x80\0"),
    "boolean of 2": field(0x08, b"\2"),
    "int32 that is cut off": field(0x10, b"\1\0"),
    "nested document that is too long": field(0x03, b"\x10\0\0\0\0"),
    "nested document that is too short": field(0x03, b"\4\0\0\0"),
    "bytes behind a nested document": field(0x03, b"\6\0\0\0\0\0"),
    "old binary with a wrong inner length": field(0x05, b"\5\0\0\0\2\2\0\0\0a"),
    "old binary without an inner length": field(0x05, b"\1\0\0\0\2a"),
    "regex without options": field(0x0B, b"a\0"),
    "DBPointer that is too short": field(0x0C, b"\2\0\0\0a\0" + bytes(11)),
    "code with scope that is too short": field(0x0F, b"\x08\0\0\0\1\0\0\0"),
    "code with scope whose parts do not fill it": field(0x0F, scoped("f", field(0x0A, b""))[1][:-1] + b"\0\0"),
    "name that is not UTF-8": b"\x08\0\0\0\x0a\xff\0\0",
    "name that does not end": b"\x07\0\0\0\x0aa\0"[:6] + b"\0",
}


@pytest.mark.parametrize("name", sorted(UNSOUND))
def test_unsound_documents_are_refused(kernel: Kernel, name: str) -> None:
    with pytest.raises(CommandError) as refused:
        kernel.validate(UNSOUND[name])
    assert refused.value.code == Code.InvalidBSON


def test_rare_types_pass(kernel: Kernel) -> None:
    kernel.validate(
        kernel.document_from(
            [
                ("", *int32(1)),
                ("old", *binary(b"abc", 2)),
                ("scope", *scoped("f", kernel.document_from([("x", *string("é"))]))),
                ("pointer", 0x0C, string("db.c")[1] + bytes(12)),
                ("symbol", *string("a\0b", 0x0E)),
            ]
        )
    )


def test_a_document_is_storable_when_nothing_about_it_needs_care(kernel: Kernel) -> None:
    rnd = Random(8)
    storable = 0
    for _ in range(2000):
        names = [rnd.choice(["_id", "_ie", "a", "_id2"]) for _ in range(rnd.randint(0, 4))]
        fields = [(name, *value(rnd, 1)) for name in (["_id", *names] if rnd.random() < 0.7 else names)]
        fields = [(name, code, bytes(8)) if code == 0x11 and rnd.random() < 0.5 else (name, code, data)
                  for name, code, data in fields]  # fmt: skip
        plain = (
            [name for name, _, _ in fields][:1] == ["_id"]
            and [name for name, _, _ in fields].count("_id") == 1
            and fields[0][1] not in (0x03, 0x04, 0x06, 0x0B)
            and all((code, data) != (0x11, bytes(8)) for _, code, data in fields[1:])
        )
        assert kernel.is_storable(kernel.document_from(fields)) == plain
        storable += plain
    assert storable > 200
    with pytest.raises(CommandError):
        kernel.is_storable(kernel.document_from([("_id", *int32(1)), ("b", 0x08, b"\2")]))
