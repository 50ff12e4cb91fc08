"""What the listeners of a store are told when a write unit has committed."""

from __future__ import annotations

from typing import NamedTuple

from docstore.optime import OpTime


class Change(NamedTuple):
    """One operation of a committed unit.

    `op` is the oplog's letter: i, u, d, m, c or n. `before` and `after` are the document on both sides of it; for m, c
    and n `after` is the entry's `o`, and for c and n `ns` its `ns` ("db.$cmd", "").
    """

    ns: str
    op: str
    before: bytes | None
    after: bytes | None
    from_migrate: bool


class Commit(NamedTuple):
    """What the listeners of a store are told. `optime` is that of the last entry; None when nothing was logged."""

    optime: OpTime | None
    changes: list[Change]
