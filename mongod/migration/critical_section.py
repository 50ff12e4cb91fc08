"""Critical sections: operations wait while a collection or database changes hands, or while its definition changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docstore.namespace import split_namespace


class CriticalSection:
    """A critical section: operations on `concerns` wait for its end; reads too once `reads` is set."""

    def __init__(self, concerns: Callable[[str], bool] = lambda _namespace: True) -> None:
        self.concerns = concerns
        self.reads = False
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


class CriticalSections(dict[str, CriticalSection]):
    """The critical sections of one kind, by collection or database. `on_end` gets the name before the waiting
    operations resume.
    """

    def __init__(self, on_end: Callable[[str], None] = lambda _name: None) -> None:
        super().__init__()
        self._on_end = on_end

    def of(self, namespace: str) -> CriticalSection | None:
        """Return the section that an operation on the namespace meets."""
        section = self.get(namespace) or self.get(split_namespace(namespace)[0])
        return section if section is not None and section.concerns(namespace) else None

    def begin(
        self, name: str, concerns: Callable[[str], bool] = lambda _namespace: True, *, reads: bool
    ) -> CriticalSection:
        """Block operations; with `reads`, block reads too from now on."""
        section = self.setdefault(name, CriticalSection(concerns))
        section.reads = section.reads or reads
        return section

    def end(self, name: str, section: CriticalSection | None = None) -> None:
        """End the section and resume the operations that wait for it. Without a section: the one of that name."""
        self._on_end(name)
        section = section or self.get(name)
        if section is not None:
            if self.get(name) is section:
                del self[name]
            section.end()
