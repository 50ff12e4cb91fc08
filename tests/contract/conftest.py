"""Every engine under one set of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.storage import Engine, open_engine


@pytest.fixture(params=["inMemory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    opened = open_engine(request.param, str(tmp_path / "db"))
    yield opened
    opened.close()
