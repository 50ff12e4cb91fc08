from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import bson
import pytest

from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import document, double, int32, string, value


def test_elements_and_document_from_are_inverse(kernel: Kernel) -> None:
    rnd = Random(2)
    for _ in range(200):
        raw = document(rnd, 3)
        assert kernel.document_from(kernel.elements(raw)) == raw


def test_get_field_takes_the_first_of_equal_names(kernel: Kernel) -> None:
    raw = kernel.document_from([("a", *int32(1)), ("a", *int32(2))])
    assert kernel.get_field(raw, "a") == int32(1)
    assert kernel.get_field(raw, "") is None


def test_get_field_tells_names_from_their_beginnings(kernel: Kernel) -> None:
    raw = kernel.document_from([("ab", *int32(1)), ("abcd", *int32(2)), ("abc", *int32(3))])
    assert kernel.get_field(raw, "abc") == int32(3)
    assert kernel.get_field(raw, "a") is None
    assert kernel.get_field(raw, "abcde") is None


def test_get_path_does_not_look_into_arrays(kernel: Kernel) -> None:
    raw = bson.encode({"a": {"b": {"c": 1}}, "d": [{"e": 1}]})
    assert kernel.get_path(raw, "a.b.c") == int32(1)
    assert kernel.get_path(raw, "d.e") is None
    assert kernel.get_path(raw, "d.0") is None
    assert kernel.get_path(raw, "a.b.c.d") is None


def test_values_are_the_members_of_an_array_in_order(kernel: Kernel) -> None:
    members = [int32(1), double(2.5), string("x")]
    assert kernel.values(kernel.array_from(members)) == members


def test_a_name_with_a_null_byte_is_refused(kernel: Kernel) -> None:
    for act in (
        lambda: kernel.get_field(kernel.EMPTY_DOCUMENT, "a\0b"),
        lambda: kernel.document_from([("a\0b", *int32(1))]),
        lambda: kernel.KeyPattern([("a\0b", 1)]),
        lambda: kernel.Exists("a\0b", True),
    ):
        with pytest.raises(CommandError) as refused:
            act()
        assert refused.value.code == Code.BadValue


@pytest.mark.parametrize("name", ["elements", "values", "array_documents", "validate"])
def test_damaged_documents_are_refused_and_never_read_beyond(kernel: Kernel, name: str) -> None:
    read = getattr(kernel, name)
    rnd = Random(3)
    for _ in range(400):
        raw = bytearray(kernel.document_from([("x", *value(rnd, 3)), ("y", *value(rnd, 2))]))
        for _ in range(rnd.randrange(1, 4)):
            raw[rnd.randrange(len(raw))] = rnd.choice((0, 1, 2, 4, 0x7F, 0x80, 0xFF, rnd.randrange(256)))
        _read_or_refuse(read, bytes(raw))
        _read_or_refuse(read, bytes(raw[: rnd.randrange(len(raw))]))


def test_damaged_documents_do_not_upset_predicates_and_keys(kernel: Kernel) -> None:
    rnd = Random(4)
    predicate = kernel.Or(
        [
            kernel.Compare("x.a", "gt", int32(1)),
            kernel.ElemMatch("x", kernel.Exists("a", True)),
            kernel.Compare("x", "eq", (0x04, kernel.array_from([int32(1)]))),
            kernel.Size("y", 2),
        ]
    )
    pattern = kernel.KeyPattern([("x", 1), ("y.a", -1)])
    for _ in range(400):
        raw = bytearray(kernel.document_from([("x", *value(rnd, 3)), ("y", *value(rnd, 2))]))
        for _ in range(rnd.randrange(1, 4)):
            raw[rnd.randrange(len(raw))] = rnd.choice((0, 1, 4, 0x7F, 0xFF, rnd.randrange(256)))
        _read_or_refuse(predicate.matches, bytes(raw))
        _read_or_refuse(pattern.keys, bytes(raw))


def _read_or_refuse(read: Callable[[bytes], object], raw: bytes) -> None:
    with contextlib.suppress(CommandError):
        read(raw)


def test_changed_fields_are_those_whose_values_differ(kernel: Kernel) -> None:
    rnd = Random(5)
    for _ in range(500):
        fields = kernel.elements(document(rnd, 2))
        others = [value(rnd, 1) if rnd.random() < 0.3 else (code, data) for _, code, data in fields]
        new = [(name, *other) for (name, _, _), other in zip(fields, others, strict=True)]
        found = kernel.changed_fields(kernel.document_from(fields), kernel.document_from(new))
        if any(mine[1] != theirs[1] for mine, theirs in zip(fields, new, strict=True)):
            assert found is None
        else:
            wanted = [(at, *item[1:]) for at, item in enumerate(new) if item != fields[at]]
            assert found == wanted


def test_documents_of_other_names_or_numbers_of_fields_have_no_changed_fields(kernel: Kernel) -> None:
    one = kernel.document_from([("a", *int32(1)), ("b", *int32(1))])
    for other in ([("a", *int32(1))], [("a", *int32(1)), ("bb", *int32(1))], [("b", *int32(1)), ("a", *int32(1))], []):
        raw = kernel.document_from(other)
        assert kernel.changed_fields(one, raw) is None
        assert kernel.changed_fields(raw, one) is None
