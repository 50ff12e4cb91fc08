"""Comparators by name: the built-in ones, reversed ones, and classes that the operator has registered.

A name with a dot is taken whole; any other stands in the package of the built-in classes. A plug-in without an encoding
is stored under its escaped bytes: rows are then sorted in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docstore.kernel.columns.encoding import escape
from docstore.widecolumn.model.comparators import COLUMN_COMPARATORS, PACKAGE, Comparator, Reversed, unescape
from docstore.widecolumn.model.errors import configuration

_REVERSED = PACKAGE + "ReversedType("


def full_name(name: str) -> str:
    """The full class name that a short or full one stands for."""
    head, bracket, argument = name.partition("(")
    if bracket:
        return f"{full_name(head)}({full_name(argument.removesuffix(')'))})"
    return name if "." in name else PACKAGE + name


class Registry:
    """The comparators of one process."""

    def __init__(self, plugins: Iterable[Any] = ()) -> None:
        self._known: dict[str, Comparator] = dict(COLUMN_COMPARATORS)
        self.add(plugins)

    def add(self, plugins: Iterable[Any]) -> None:
        """Register further classes."""
        for plugin in plugins:
            self._known[plugin.name] = _adapted(plugin)

    def find(self, name: str) -> Comparator:
        """The comparator of that short or full name. ConfigurationException when there is none."""
        full = full_name(name)
        comparator = self._known.get(full)
        if comparator is not None:
            return comparator
        if full.startswith(_REVERSED) and full.endswith(")"):
            return Reversed(self.find(full[len(_REVERSED) : -1]))
        raise configuration(f"Unable to find comparator class '{name}'")


def plugins_of(module: Any) -> Mapping[str, Any]:
    """The comparators that a module registers: its `COMPARATORS`, objects with `name`, `validate` and `compare`."""
    return {plugin.name: plugin for plugin in module.COMPARATORS}


def _adapted(plugin: Any) -> Comparator:
    if hasattr(plugin, "encode"):
        return PluggedIn(plugin)
    return Unordered(plugin)


@dataclass(frozen=True, slots=True)
class PluggedIn:
    """A registered class with an encoding of its own."""

    plugin: Any
    ordered = True

    @property
    def name(self) -> str:
        return str(self.plugin.name)

    def validate(self, value: bytes) -> None:
        self.plugin.validate(value)

    def compare(self, a: bytes, b: bytes) -> int:
        return int(self.plugin.compare(a, b))

    def encode(self, value: bytes) -> bytes:
        return bytes(self.plugin.encode(value))

    def decode(self, data: bytes, start: int) -> tuple[bytes, int]:
        value, end = self.plugin.decode(data, start)
        return bytes(value), int(end)


@dataclass(frozen=True, slots=True)
class Unordered:
    """A registered class that only compares."""

    plugin: Any
    ordered = False

    @property
    def name(self) -> str:
        return str(self.plugin.name)

    def validate(self, value: bytes) -> None:
        self.plugin.validate(value)

    def compare(self, a: bytes, b: bytes) -> int:
        return int(self.plugin.compare(a, b))

    def encode(self, value: bytes) -> bytes:
        return escape(value)

    def decode(self, data: bytes, start: int) -> tuple[bytes, int]:
        return unescape(data, start)
