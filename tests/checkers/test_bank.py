"""What snapshots of a bank give away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.checkers.bank import ROLLED_BACK, Bank, check_bank, check_unique
from tests.checkers.hand_made import done, failed, kinds, unknown
from tests.checkers.history import Kind, Operation

BANK = Bank({"a": 10, "b": 10}, ("x", "y"))
START = {"accounts": {"a": 10, "b": 10}, "transfers": [], "holders": ["x", "y"]}
MOVED = {"accounts": {"a": 7, "b": 13}, "transfers": ["t"], "holders": ["y", "x"]}


def transfer(until: float = 9.0, **fields: Any) -> Operation:
    return done(Kind.TRANSFER, 0, until, ["a", "b", 3], key="t", **fields)


def refused(result: str | None = None) -> Operation:
    return replace(failed(Kind.TRANSFER, 0, 1, ["a", "b", 3], key="t"), result=result)


def read(shown: dict[str, Any], at: float = 5.0, **fields: Any) -> Operation:
    return done(Kind.READ_BANK, at, 9.0, None, shown, key="bank", **{"read_concern": "snapshot", **fields})


@pytest.mark.parametrize(
    ("operations", "final"),
    [
        ([], START),
        ([transfer(), read(START), read(MOVED)], MOVED),
        ([unknown(Kind.TRANSFER, 0, ["a", "b", 3], key="t")], START),
        ([unknown(Kind.TRANSFER, 0, ["a", "b", 3], key="t"), read(MOVED)], MOVED),
        ([transfer(), read({**MOVED, "by index": MOVED["accounts"], "again": MOVED["accounts"]})], MOVED),
        ([transfer(), read({**MOVED, "sum": 20, "count": 2, "richer": [10, ["b"]]})], MOVED),
        ([transfer(1.0), read(START, read_concern="majority")], MOVED),
        ([transfer(w=1), read(MOVED, read_concern="local")], START),
        ([refused(ROLLED_BACK), read(MOVED, read_concern="local")], START),
    ],
)  # fmt: skip
def test_good_histories_pass(operations: list[Operation], final: dict[str, Any]) -> None:
    assert not check_bank(operations, BANK, final)


@pytest.mark.parametrize(
    ("operations", "final", "kind"),
    [
        ([transfer(), read({**MOVED, "accounts": {"a": 7, "b": 10}})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "accounts": {"a": 7}})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "by index": START["accounts"]})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "again": START["accounts"]})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "sum": 17})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "count": 3})], MOVED, "torn snapshot"),
        ([transfer(), read({**MOVED, "richer": [10, ["a", "b"]]})], MOVED, "phantom in a range"),
        ([transfer(), read({**MOVED, "holders": ["x"]})], MOVED, "unique key"),
        ([transfer(), read({**MOVED, "transfers": []})], MOVED, "half of a transaction"),
        ([transfer(), read({**START, "transfers": ["t"]})], MOVED, "half of a transaction"),
        ([transfer()], {**MOVED, "transfers": ["t", "t"]}, "phantom"),
        ([], {**START, "transfers": ["u"]}, "phantom"),
        ([transfer()], START, "lost transfer"),
        ([refused()], MOVED, "aborted and happened"),
        ([refused(ROLLED_BACK), read(MOVED)], START, "G1a aborted read"),
        ([refused(), read(MOVED, read_concern="local")], START, "G1a aborted read"),
        ([transfer(w=1), read(MOVED)], START, "read of rolled back"),
        ([transfer(1.0), read(START)], MOVED, "stale snapshot"),
        ([done(Kind.TRANSFER, 20, 21, ["a", "b", 3], key="t"), read(MOVED)], MOVED, "read of the future"),
    ],
)
def test_each_fault_has_its_name(operations: list[Operation], final: dict[str, Any], kind: str) -> None:
    assert kind in kinds(check_bank(operations, BANK, final))


def test_a_value_that_stands_twice_is_found() -> None:
    assert not check_unique("names", ["a", "b"])
    assert kinds(check_unique("names", ["a", "b", "a"])) == ["unique key"]
