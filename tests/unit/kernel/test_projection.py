"""Fields of the top level kept, left out, put in place and added."""

from __future__ import annotations

from typing import Any

import bson

from docstore.kernel.limits import MAX_COMPARED_NAMES
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import int32, string


def made(kernel: Kernel, document: dict[str, Any], names: set[str], **how: Any) -> bytes:
    return bytes(kernel.compute.projection.TopFields(names, **how).apply(bson.encode(document)))


def constant(kernel: Kernel, number: int) -> Any:
    return kernel.group.sources.ConstantSource(int32(number))


def test_kept_fields_stay_in_stored_order_byte_for_byte(kernel: Kernel) -> None:
    raw = kernel.document_from([("b", *int32(1)), ("\u00e9", *string("x")), ("a", *int32(2)), ("b", *int32(3))])
    kept = kernel.compute.projection.TopFields({"b", "\u00e9", "zz"})
    assert kept.apply(raw) == kernel.document_from([("b", *int32(1)), ("\u00e9", *string("x")), ("b", *int32(3))])
    others = kernel.compute.projection.TopFields({"b"}, True)
    assert others.apply(raw) == kernel.document_from([("\u00e9", *string("x")), ("a", *int32(2))])
    assert others.apply_all([raw, bson.encode({})]) == [others.apply(raw), bson.encode({})]


def test_added_fields_stand_behind_the_others(kernel: Kernel) -> None:
    added = [("x", constant(kernel, 5)), ("a", constant(kernel, 6))]
    assert made(kernel, {"a": 1, "b": 2}, {"b"}, added=added) == bson.encode({"b": 2, "x": 5, "a": 6})


def test_added_fields_take_the_place_of_those_that_are_there(kernel: Kernel) -> None:
    added = [("x", constant(kernel, 5)), ("a", constant(kernel, 6))]
    found = made(kernel, {"a": "long", "b": 2, "c": 3}, {"b"}, exclude=True, added=added, in_place=True)
    assert found == bson.encode({"a": 6, "c": 3, "x": 5})
    assert made(kernel, {}, set(), exclude=True, added=added, in_place=True) == bson.encode({"x": 5, "a": 6})


def test_missing_values_are_left_out(kernel: Kernel) -> None:
    nothing = kernel.group.sources.CallSource(lambda document: None)
    assert made(kernel, {"a": 1, "b": 2}, set(), exclude=True, added=[("a", nothing)], in_place=True) == bson.encode(
        {"b": 2}
    )


def test_a_tree_looks_into_documents_and_arrays_of_arrays(kernel: Kernel) -> None:
    tree = kernel.compute.projection.FieldTree
    document = {"_id": 1, "a": {"b": 1, "c": {"d": 2, "e": 3}}, "e": [{"x": 1, "y": 2}, 7, [{"x": 3}, 8]], "z": 5}
    raw = bson.encode(document)
    kept = tree({"a": tree({"c": tree({"d": True}, False)}, False), "e": tree({"x": True}, False)}, False)
    assert bson.decode(kept.apply(raw)) == {"a": {"c": {"d": 2}}, "e": [{"x": 1}, [{"x": 3}]]}
    others = tree({"a": tree({"c": tree({"d": False}, True)}, True), "e": tree({"x": False}, True), "z": False}, True)
    assert others.apply_all([raw, bson.encode({"a": 1, "e": []})]) == [
        bson.encode({"_id": 1, "a": {"b": 1, "c": {"e": 3}}, "e": [{"y": 2}, 7, [{}, 8]]}),
        bson.encode({"a": 1, "e": []}),
    ]


def test_many_names_are_kept_left_out_and_put_in_place_as_few_are(kernel: Kernel) -> None:
    projection = kernel.compute.projection
    names = [f"f{number}" for number in range(3 * MAX_COMPARED_NAMES)]
    document = {name: number for number, name in enumerate(names)} | {"other": 1, "f": 2}
    raw = bson.encode(document)
    half = names[::2]
    assert projection.TopFields(half).apply(raw) == bson.encode({name: document[name] for name in half})
    left = {name: value for name, value in document.items() if name not in half}
    assert projection.TopFields(half, True).apply(raw) == bson.encode(left)
    added = [(name, constant(kernel, -1)) for name in half]
    assert made(kernel, document, set(), exclude=True, added=added, in_place=True) == bson.encode(
        {name: -1 if name in half else value for name, value in document.items()}
    )
    tree = projection.FieldTree(dict.fromkeys(half, True), False)
    assert tree.apply(raw) == projection.TopFields(half).apply(raw)


def test_of_many_names_each_field_is_looked_up_once(kernel: Kernel) -> None:
    """Comparing each field with each name takes minutes here."""
    names = [f"f{number}" for number in range(40_000)]
    raw = bson.encode(dict.fromkeys(names, 1))
    assert kernel.compute.projection.TopFields(names).apply(raw) == raw
    assert kernel.compute.projection.FieldTree(dict.fromkeys(names, True), False).apply(raw) == raw
