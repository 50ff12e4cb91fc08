from __future__ import annotations

from random import Random

import bson
import pytest

from tests.unit.kernel.kernels import Kernel

THINGS = [{"_id": i, "a": Random(i).randrange(20), "b": [Random(i).random(), 2]} for i in range(300)]
DOCUMENTS = [bson.encode(thing) for thing in THINGS]


def ids(documents: list[bytes]) -> list[int]:
    return [bson.decode(document)["_id"] for document in documents]


def test_documents_with_equal_keys_keep_their_order(kernel: Kernel) -> None:
    found = ids(kernel.scan.sort.sort_documents(kernel.KeyPattern([("a", -1)]), DOCUMENTS))
    assert found == [thing["_id"] for thing in sorted(THINGS, key=lambda thing: -thing["a"])]  # type: ignore[operator]


def test_keyed_goes_with_the_documents(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("b", 1), ("a", -1)])
    assert kernel.scan.sort.keyed(pattern, DOCUMENTS) == [(pattern.sort_key(raw), raw) for raw in DOCUMENTS]


@pytest.mark.parametrize("limit", [1, 7, 299, 300, 1000])
def test_the_first_documents_are_those_of_the_whole_sort(kernel: Kernel, limit: int) -> None:
    pattern = kernel.KeyPattern([("a", 1)])
    first = kernel.scan.sort.FirstDocuments(pattern, limit)
    for start in range(0, len(DOCUMENTS), 50):
        first.push(DOCUMENTS[start : start + 50])
        assert first.memory <= 2 * limit * (len(DOCUMENTS[0]) + 20)
    assert first.documents() == kernel.scan.sort.sort_documents(pattern, DOCUMENTS)[:limit]
