"""A shard filter whose answers a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from docstore.kernel.match.predicate import Predicate
from docstore.node.shard_filter import MustWait


class ScriptedShardFilter:
    """It remembers who entered. `answer` gives the error for the n-th of them, `held` keeps them waiting."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, bool, bool]] = []
        self.owned: Predicate | None = None
        self.answer: Callable[[int], Any] = lambda _count: None
        self.held: asyncio.Event | None = None

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        self.entered.append((namespace, shard_version is not None, write))
        error = self.answer(len(self.entered))
        if error is not None:
            raise error
        if self.held is not None and not self.held.is_set():
            raise MustWait(partial(self._wait, self.held))
        return self.owned

    def post_images(self, namespace: str) -> None:
        """No key is watched."""

    async def _wait(self, held: asyncio.Event) -> None:
        await held.wait()
