"""What operations wait for while a collection or a database changes hands or is changed itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docstore.namespace import split_namespace


class CriticalSection:
    """Operations on what it `concerns` wait for its end; reads too once `reads` is set."""

    def __init__(self, concerns: Callable[[str], bool] = lambda _namespace: True) -> None:
        self.concerns = concerns
        self.reads = False
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


class CriticalSections(dict[str, CriticalSection]):
    """Those of one kind, by collection or database. `on_end` is told the name before what waits goes on."""

    def __init__(self, on_end: Callable[[str], None] = lambda _name: None) -> None:
        super().__init__()
        self._on_end = on_end

    def of(self, namespace: str) -> CriticalSection | None:
        """The section that an operation on the namespace meets."""
        found = self.get(namespace) or self.get(split_namespace(namespace)[0])
        return found if found is not None and found.concerns(namespace) else None

    def begin(
        self, name: str, concerns: Callable[[str], bool] = lambda _namespace: True, *, reads: bool
    ) -> CriticalSection:
        """Have operations wait, from now on reads too where that is asked for."""
        section = self.setdefault(name, CriticalSection(concerns))
        section.reads = section.reads or reads
        return section

    def end(self, name: str, section: CriticalSection | None = None) -> None:
        """Have what waits for the section go on, for that of the name where none is given."""
        self._on_end(name)
        section = section or self.get(name)
        if section is not None:
            if self.get(name) is section:
                del self[name]
            section.end()
