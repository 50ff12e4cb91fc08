"""Batches of changes on their way into the engine."""

from __future__ import annotations

from typing import Any

from tests.unit.kernel.kernels import Kernel


class Target:
    """Takes changes as the engine's batch does: into the family that was selected last."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bytes, bytes | None]] = []
        self._family = ""

    def set_default_column_family(self, handle: Any) -> None:
        self._family = handle

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.seen.append((self._family, key, value))

    def __delitem__(self, key: bytes) -> None:
        self.seen.append((self._family, key, None))


CHANGES: tuple[dict[bytes, bytes | None], ...] = ({b"a": b"1", b"b": None}, {}, {b"a": b""})


def test_changes_go_into_their_families(kernel: Kernel) -> None:
    target = Target()
    removed = [5, 5, 5]
    assert kernel.log.batches.put_changes(target, ("one", "two", "three"), CHANGES, removed) == 1
    assert removed == [6, 5, 5]
    assert target.seen == [("one", b"a", b"1"), ("one", b"b", None), ("three", b"a", b"")]


def test_many_changes_go_in_by_the_order_of_their_keys(kernel: Kernel) -> None:
    target = Target()
    changes: dict[bytes, bytes | None] = {b"%03d" % (number * 7 % 500): b"v" for number in range(500)}
    changes[b"100"] = None
    kernel.log.batches.put_changes(target, ("one",), (changes,), [0])
    assert target.seen == [("one", key, changes[key]) for key in sorted(changes)]


def test_keys_are_noted_by_family_and_counted_once(kernel: Kernel) -> None:
    noted: tuple[dict[bytes, None], ...] = ({}, {b"old": None}, {})
    assert kernel.log.batches.note_keys(noted, CHANGES) == 4
    assert kernel.log.batches.note_keys(noted, ({b"a": None}, {b"new": b""}, {})) == 5
    assert [list(keys) for keys in noted] == [[b"a", b"b"], [b"old", b"new"], [b"a"]]
