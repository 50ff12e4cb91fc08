from __future__ import annotations

from random import Random

import bson
import pytest

from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import document, int32


def test_documents_array_and_array_documents_are_inverse(kernel: Kernel) -> None:
    rnd = Random(6)
    for count in (0, 1, 11, 120):
        documents = [document(rnd) for _ in range(count)]
        raw = kernel.documents_array(documents)
        assert kernel.array_documents(raw) == documents
        assert [name for name, _, _ in kernel.elements(raw)] == [str(i) for i in range(count)]


def test_array_documents_refuses_other_values(kernel: Kernel) -> None:
    with pytest.raises(CommandError) as refused:
        kernel.array_documents(kernel.array_from([(0x03, kernel.EMPTY_DOCUMENT), int32(1)]))
    assert refused.value.code == Code.TypeMismatch


def test_append_fields_adds_at_the_end(kernel: Kernel) -> None:
    raw = bson.encode({"a": 1})
    tail = kernel.encoded_fields(bson.encode({"b": [2], "c": "x"}))
    assert kernel.append_fields(raw, tail) == bson.encode({"a": 1, "b": [2], "c": "x"})
    assert kernel.append_fields(raw, b"") == raw


def test_an_array_of_documents_becomes_one_more_field(kernel: Kernel) -> None:
    raw, documents = bson.encode({"a": 1, "b": {"c": 2}}), [{"x": 1}, {}]
    made = kernel.with_documents(raw, "c", [bson.encode(document) for document in documents])
    assert made == bson.encode({"a": 1, "b": {"c": 2}, "c": documents})
    assert kernel.with_documents(bson.encode({}), "\u00e9", []) == bson.encode({"\u00e9": []})
    assert kernel.with_documents(raw, "b", []) is None


def test_array_value_is_an_array(kernel: Kernel) -> None:
    assert kernel.array_value([int32(1)]) == (0x04, bson.encode({"0": 1}))


def test_consecutive_documents_must_fill_their_place(kernel: Kernel) -> None:
    one, two = bson.encode({"a": 1}), bson.encode({"b": "text"})
    raw = b"xx" + one + two + b"yy"
    assert kernel.consecutive_documents(raw, 2, len(raw) - 2) == [one, two]
    assert kernel.consecutive_documents(raw, 2, 2) == []
    for end in (len(raw) - 3, len(raw) - 1, 2 + len(one) + 3):
        with pytest.raises(CommandError):
            kernel.consecutive_documents(raw, 2, end)
