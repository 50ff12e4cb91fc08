"""A shard filter whose answers a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from docstore.kernel.match.predicate import Predicate
from docstore.node.shard_filter import MustWait


class ScriptedHold:
    """One statement over many documents; `open` until it was closed."""

    def __init__(self, shard_filter: ScriptedShardFilter) -> None:
        self.open = True
        self.owned = shard_filter.owned
        self._filter = shard_filter

    def still_owns(self) -> bool:
        unknown = self._filter.unknown
        if unknown is not None and not unknown.is_set():
            raise MustWait(unknown.wait)
        return self._filter.keeps

    def close(self) -> None:
        self.open = False


class ScriptedShardFilter:
    """It remembers who entered. `answer` gives the error for the n-th of them where that has a version, `held` keeps
    them waiting.
    """

    def __init__(self) -> None:
        self.entered: list[tuple[str, bool, bool]] = []
        self.owned: Predicate | None = None
        self.answer: Callable[[int], Any] = lambda _count: None
        self.held: asyncio.Event | None = None
        self.keeps = False
        """Whether statements over many documents keep what they are about; known once `unknown` is set."""
        self.unknown: asyncio.Event | None = None
        self.holds: list[ScriptedHold] = []
        self.over: Callable[[], Any] = lambda: None
        """What the waiting of those that are kept waiting ends with: raise an error there."""

    def check_version(self, namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
        self.entered.append((namespace, shard_version is not None, write))
        error = None if shard_version is None else self.answer(len(self.entered))
        if error is not None:
            raise error
        if self.held is not None and not self.held.is_set():
            raise MustWait(partial(self._wait, self.held))
        return self.owned

    def check_change(self, namespace: str) -> None:
        """No definition has to stay as it is."""

    def check_placed(self, namespace: str, taken_at: int) -> None:
        """Nothing has come."""

    def may_have_orphans(self, namespace: str) -> bool:
        """Documents that are not owned may be there."""
        return True

    def post_images(self, namespace: str) -> None:
        """No key is watched."""

    def hold(self, namespace: str, within: Any) -> ScriptedHold:
        made = ScriptedHold(self)
        self.holds.append(made)
        return made

    async def _wait(self, held: asyncio.Event) -> None:
        await held.wait()
        self.over()
