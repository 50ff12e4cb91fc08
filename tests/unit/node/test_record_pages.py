"""Ranges of a row: what stands before its columns is read with them or by itself, and is the same."""

from __future__ import annotations

import random

import pytest

from docstore.storage import Batch, Family, open_engine
from docstore.widecolumn.model.keys import COLUMNS, STATISTICS
from docstore.widecolumn.model.slices import finished
from docstore.widecolumn.node.read_state import WideCells
from docstore.widecolumn.node.record_pages import read_page

PREFIX = b"Wrow"
END = b"\x21"


@pytest.mark.parametrize("seed", range(5))
def test_a_row_in_one_walk_is_the_row_in_two(seed: int) -> None:
    rng = random.Random(seed)
    engine = open_engine("inMemory", "")
    paths = [
        b"\0",
        STATISTICS,
        b"\x08\0\0\0\1",
        b"\x10ab",
        *(b"\x20" + bytes((n & 255, n >> 8)) for n in range(300 if seed else 3)),
    ]
    batch = Batch()
    for path in paths:
        if rng.random() < 0.8:
            batch.put(Family.WIDE, PREFIX + path, rng.randbytes(rng.randrange(1, 30)))
    for neighbour in (b"Wrov", b"Wrox"):
        batch.put(Family.WIDE, neighbour + b"\x20a", b"-")
    engine.write(batch)
    cells = WideCells(engine)
    for limit in (0, 1, 2, 255, 256, 257, 1000):
        whole = finished(read_page(cells, PREFIX, COLUMNS, END, reverse=False, limit=limit, head=True))
        columns = finished(read_page(cells, PREFIX, COLUMNS, END, reverse=False, limit=limit))
        before = finished(read_page(cells, PREFIX, b"\0", COLUMNS, reverse=False, limit=1000))
        assert whole == columns._replace(head=tuple(before.entries))
        backwards = finished(read_page(cells, PREFIX, COLUMNS, END, reverse=True, limit=1000, head=True))
        assert backwards.head == whole.head
    engine.close()
