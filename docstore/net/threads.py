"""Long work that needs nothing of the process's state, done in threads away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


async def on_thread(work: Callable[[], Made]) -> Made:
    """What the work gives; requests are answered while it runs."""
    return await asyncio.get_running_loop().run_in_executor(None, work)
