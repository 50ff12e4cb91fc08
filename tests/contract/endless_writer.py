"""Writes units through a store until it is killed, and says after each commit which one it was.

`python -m tests.contract.endless_writer DIRECTORY`. Unit n puts `{_id: n, batch: n}` into db.left and db.right,
moves the one document of db.total to n, removes unit n - 50 from db.left, and is statement n of a session.
"""

from __future__ import annotations

import os
import sys
import time

from docstore.bson import from_python, get_field
from docstore.collection.collection import Collection
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.storage import open_engine
from tests.unit.collection.building import doc, make, spec

SESSION = b"s" * 48
KEPT = 50
NAMES = ("db.left", "db.right", "db.total")


def main(directory: str) -> None:
    store = Store(open_engine("rocksdb", directory), clock=time.time)
    store.attach_oplog(1 << 20)
    if store.collection("db.total") is None:
        for ns in NAMES:
            make(store, ns, indexes=(spec(("batch", 1)), spec(("parity", 1), ("batch", -1))))
    left, right, total = (store.catalog.collections[ns] for ns in NAMES)
    found = total.by_id(store.engine, from_python(0))
    n = 0 if found is None else int.from_bytes((get_field(found[1], "n") or (0, b""))[1], "little")
    while True:
        n += 1
        write(store, left, right, total, n)
        os.write(1, b"%d\n" % n)


def write(store: Store, left: Collection, right: Collection, total: Collection, n: int) -> None:
    with store.unit(session=SessionWrite(SESSION, n // 10)) as unit:
        for coll in (left, right):
            unit.insert(coll, doc(n, batch=n, parity=[n % 2, n % 3], filler="x" * (n % 300)), stmt_id=n)
        found = total.by_id(unit, from_python(0))
        if found is None:
            unit.insert(total, doc(0, n=n), stmt_id=n)
        else:
            unit.replace(total, *found, doc(0, n=n), stmt_id=n)
        old = left.by_id(unit, from_python(n - KEPT))
        if old is not None:
            unit.remove(left, *old, stmt_id=n)
        optime = unit.commit()
    if n % 20 == 0 and optime is not None and store.oplog is not None:
        store.discard_undo(optime)
        store.oplog.truncate_old()


if __name__ == "__main__":
    main(sys.argv[1])
