"""Builds an index of a collection that it writes to, drops it and begins anew, until it is killed; says so after each.

`python -m tests.contract.endless_builder DIRECTORY`. Files of the engine are small, so that a build makes several.
"""

from __future__ import annotations

import os
import random
import sys
import time

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.storage import open_engine, rocks_load
from tests.unit.collection.building import doc, make, spec

DOCUMENTS = 3_000


def main(directory: str) -> None:
    setattr(rocks_load, "_FILE_BYTES", 20_000)  # noqa: B010
    store = Store(open_engine("rocksdb", directory), clock=time.time)
    store.attach_oplog(1 << 20)
    coll = store.collection("db.c")
    if coll is None:
        coll = make(store, "db.c", *(doc(n, x=n % 97, y=[n, -n]) for n in range(DOCUMENTS)))
    rng = random.Random(os.getpid())
    built = 0
    while True:
        if "x_1_y_1" in coll.indexes:
            with store.unit() as unit:
                store.drop_index(unit, coll, "x_1_y_1")
                unit.commit()
        build = store.build_index(coll, [spec(("x", 1), ("y", 1))])
        while not build.step(time.monotonic() + 0.0002):
            change(store, coll, rng)
        build.step(float("inf"))
        with store.unit() as unit:
            build.finish(unit)
            unit.commit()
        built += 1
        os.write(1, b"%d\n" % built)


def change(store: Store, coll: Collection, rng: random.Random) -> None:
    number = rng.randrange(DOCUMENTS)
    with store.unit() as unit:
        found = coll.by_id(unit, from_python(number))
        if found is None:
            unit.insert(coll, doc(number, x=rng.randrange(97), y=number))
        elif rng.random() < 0.5:
            unit.remove(coll, *found)
        else:
            unit.replace(coll, *found, doc(number, x=rng.randrange(97), y=[rng.randrange(9)]))
        unit.commit()


if __name__ == "__main__":
    main(sys.argv[1])
