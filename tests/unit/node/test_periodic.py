"""Background tasks: one bad pass does not end them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.node.upkeep import periodic
from docstore.node.upkeep.periodic import PeriodicTask
from docstore.storage import StorageError
from tests.harness.serving import until
from tests.unit.node.local import LocalNode, loop


class Failing(PeriodicTask):
    """Fails in its first pass, with `error`."""

    name = "failing"
    error: Exception = KeyError("a field")
    passes = 0

    def interval(self) -> float | None:
        return 0

    async def run_pass(self) -> None:
        self.passes += 1
        if self.passes == 1:
            raise self.error


@pytest.mark.parametrize(
    ("error", "goes_on"), [(KeyError("a field"), True), (AssertionError(), False), (StorageError("full"), False)]
)
def test_a_pass_that_fails_is_told_and_the_next_one_is_begun(
    error: Exception, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic, "_LOOK_SECONDS", 0.0)
    told: list[dict[str, Any]] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        task = Failing(LocalNode().node)
        task.error = error
        await task.start()
        await until(lambda: told)
        if goes_on:
            await until(lambda: task.passes > 1)
        else:
            await until(lambda: not told[0]["message"].startswith("a pass"))
            assert task.passes == 1
        await asyncio.gather(task.stop(), return_exceptions=True)

    loop(work())
    assert len(told) == 1
