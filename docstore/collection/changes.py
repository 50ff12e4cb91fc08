"""Commit notifications for the listeners of a store."""

from __future__ import annotations

from typing import NamedTuple

from docstore.optime import OpTime


class Change(NamedTuple):
    """One operation of a committed unit.

    `op` is the oplog's letter: i, u, d, m, c or n. `before` and `after`: the pre-image and the post-image. For m, c and
    n `after` is the entry's `o`; for c and n `ns` is its `ns` ("db.$cmd", "").
    """

    ns: str
    op: str
    before: bytes | None
    after: bytes | None
    from_migrate: bool


class Commit(NamedTuple):
    """The notification of a committed unit. `optime`: that of its last entry; None if nothing was logged."""

    optime: OpTime | None
    changes: list[Change]
