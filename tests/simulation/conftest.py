"""The interpreter that runs the schedules of the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.running import Simulator


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator() as made:
        yield made
