"""Names as clients give them."""

from __future__ import annotations

from typing import Any

import pytest
from bson.int64 import Int64

from docstore.bson import from_python
from docstore.errors import CommandError
from docstore.widecolumn.model import comparators as types
from docstore.widecolumn.model.values import name_bytes


@pytest.mark.parametrize("number", [0, 3, -5, 2**40, -(2**63)])
def test_whole_numbers_of_all_types_are_the_same_name(number: int) -> None:
    written = number.to_bytes(8, "big", signed=True)
    for given in (Int64(number), float(number)):
        assert name_bytes(types.LONG, from_python(given)) == written
        assert int.from_bytes(name_bytes(types.INTEGER, from_python(given)), "big", signed=True) == number


@pytest.mark.parametrize("given", [0.5, float("nan"), float("inf"), 1e19, 1e300, True, None])
@pytest.mark.parametrize("comparator", [types.LONG, types.INTEGER])
def test_other_values_are_no_whole_numbers(given: Any, comparator: types.Comparator) -> None:
    with pytest.raises(CommandError, match=r"is no name for (LongType|IntegerType)"):
        name_bytes(comparator, from_python(given))
