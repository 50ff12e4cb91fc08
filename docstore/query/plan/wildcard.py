"""Wildcard indexes: the paths that one holds, the keys of a document in it, and the bounds of a filter over them.

A document has an entry (path, value) for each scalar that the index holds, at the path without array positions. Arrays
are represented by their elements. An array inside an array is a value, an empty array counts as undefined, an empty
document as itself. A field whose name has a dot has no entry, nor has anything inside it: no path leads there. Other
documents have no entry, so a condition that a document, an array or a missing value can meet gets no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from docstore.bson.allowance import spend
from docstore.bson.walk import (
    ARRAY,
    EMPTY_DOCUMENT,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    UNDEFINED,
    Value,
    elements,
    values,
)
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.filter.tree import And, Comparison, Exists, Filter, In, Mod, RegexMatch, TypeIs
from docstore.query.plan.bounds import FieldBounds, PathConditions, conditions, path_ranges
from docstore.query.plan.intervals import EVERYTHING, Range, Ranges
from docstore.query.plan.value_ranges import Condition
from docstore.query.value.long_lists import sort_keys
from docstore.query.value.values import string_value

_WITHOUT_ENTRY = frozenset((OBJECT, ARRAY, NULL, UNDEFINED, MIN_KEY, MAX_KEY))
_OF_VALUES = (Comparison, In, RegexMatch, Mod, TypeIs)
"""The conditions that an entry may meet."""
_EMPTY_ARRAY: Value = (UNDEFINED, b"")

ARRAYS_MET, SEVERAL_ENTRIES = 1, 2
"""Flags kept about the documents of a compound wildcard index."""
PATH_FIELD = "$_path"
"""The name of an entry's path field in plans."""

Tree = dict[str, "Tree"]
"""Nested field names; an empty tree ends a path."""


@dataclass(frozen=True)
class WildcardPaths:
    """The paths that an index holds: those below `tree`, or with `excluding` all others."""

    tree: Tree = field(default_factory=dict)
    excluding: bool = True

    def holds(self, path: str, *, with_subtree: bool = False) -> bool:
        """True if every scalar at the path has an entry; with `with_subtree` every one below it, too."""
        node = self.tree
        for name in path.split("."):
            if name not in node:
                return self.excluding
            node = node[name]
            if not node:
                return not self.excluding
        return self.excluding and not with_subtree

    def keys(self, raw: bytes) -> tuple[list[bytes], int]:
        """Return (distinct encoded keys in order, 1 if there are arrays among the values, else 0) of a document."""
        collector = _Keys(self.excluding)
        collector.enter(raw, "", self.tree)
        keys = list(collector.keys)
        sort_keys(keys)
        return keys, int(collector.arrays)


def paths_of(names: Iterable[str], *, excluding: bool) -> WildcardPaths:
    """Return the paths that end in one of the dotted `names`, or all others."""
    tree: Tree = {}
    for name in names:
        node = tree
        for part in name.split("."):
            node = node.setdefault(part, {})
    return WildcardPaths(tree, excluding)


_NO_ENTRY = 2 * encode_key((MIN_KEY, b""))
"""The key of a document without an entry, in place of path and value."""
_PER_KEY = 32
"""Units of work charged for each key."""


def compound_keys(
    paths: WildcardPaths, before: KeyPattern | None, after: KeyPattern | None
) -> Callable[[bytes], tuple[list[bytes], int]]:
    """Return the key function of a compound wildcard index, like `WildcardPaths.keys`. It combines each key of the
    leading fields with each entry of the document and each key of the trailing fields. A document without an entry has
    MinKey instead. The number returned with the keys consists of `ARRAYS_MET` and `SEVERAL_ENTRIES`.
    """

    def keys(raw: bytes) -> tuple[list[bytes], int]:
        first, first_arrays = _plain_keys(before, raw)
        last, last_arrays = _plain_keys(after, raw)
        inner, arrays = paths.keys(raw)
        combinations: list[bytes] = []
        for key in first:
            for entry in inner or [_NO_ENTRY]:
                for end in last:
                    spend(_PER_KEY + len(key) + len(entry) + len(end))
                    combinations.append(key + entry + end)
        sort_keys(combinations)
        flags = ARRAYS_MET if arrays or first_arrays or last_arrays else 0
        return combinations, flags | (SEVERAL_ENTRIES if len(combinations) > 1 else 0)

    return keys


def _plain_keys(pattern: KeyPattern | None, raw: bytes) -> tuple[list[bytes], int]:
    return ([b""], 0) if pattern is None else pattern.marked_keys(raw)[:2]


class _Keys:
    """Collects the keys of one document. `node` is the part of the path tree at a value; None: the tree has no more."""

    def __init__(self, excluding: bool) -> None:
        self.keys: set[bytes] = set()
        self.arrays = False
        self._excluding = excluding

    def enter(self, raw: bytes, path: str, node: Tree | None) -> None:
        fields = elements(raw)
        if not fields and path:
            self._add(path, (OBJECT, EMPTY_DOCUMENT))
        for name, code, data in fields:
            if "." in name:
                continue
            inner = path + "." + name if path else name
            if node is None:
                self._value(inner, (code, data), None)
                continue
            below = node.get(name)
            if below is None:
                if self._excluding:
                    self._value(inner, (code, data), None)
            elif below:
                self._value(inner, (code, data), below)
            elif not self._excluding:
                self._value(inner, (code, data), None)

    def _value(self, path: str, value: Value, node: Tree | None) -> None:
        code, data = value
        if code == OBJECT:
            self.enter(data, path, node)
        elif code == ARRAY:
            self.arrays = True
            members = values(data)
            if not members:
                self._add(path, _EMPTY_ARRAY)
            for member in members:
                if member[0] == OBJECT:
                    self.enter(member[1], path, node)
                elif node is None or self._excluding:
                    self._add(path, member)
        elif node is None or self._excluding:
            self._add(path, value)

    def _add(self, path: str, value: Value) -> None:
        key = path_key(path) + encode_key(value)
        spend(_PER_KEY + len(key))
        self.keys.add(key)


def path_key(path: str) -> bytes:
    """Return the prefix of the keys of the values at a path."""
    return encode_key(string_value(path))


@dataclass(frozen=True, slots=True)
class WildcardBounds:
    """The range of one index to read: the values in `ranges` at `path`; with `below` also everything below the path.
    `guaranteed`: the conditions that every value in the ranges satisfies.
    """

    path: str
    ranges: Ranges
    below: bool
    guaranteed: tuple[Condition, ...] = ()

    def fields(self) -> list[FieldBounds]:
        """Return the bounds of the two parts of an entry: the path, and the value."""
        key = path_key(self.path)
        paths = [Range(key, prefix_end(key), True)]
        if self.below:
            # Ranges of one field among several must end in whole keys: "/" sorts after ".".
            paths.append(Range(path_key(self.path + "."), path_key(self.path + "/")))
        return [FieldBounds(PATH_FIELD, 1, tuple(paths)), FieldBounds(self.path, 1, self.ranges)]

    def key_ranges(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return the same as sorted half-open ranges over the encoded keys."""
        key = path_key(self.path)
        ranges = [(key + item.lo, key + item.hi) for item in self.ranges]
        if self.below:
            start = path_key(self.path + ".")[:-1]
            ranges.append((start, prefix_end(start)))
        return tuple(ranges)


def wildcard_bounds(tree: Filter, paths: WildcardPaths, *, multikey: bool) -> list[WildcardBounds]:
    """Return the bounds for each path of the filter that the index can serve."""
    bounds: list[WildcardBounds] = []
    for path, entry in conditions(tree).items():
        if not path or (multikey and any(name.isdigit() for name in path.split("."))):
            continue
        usable = PathConditions(
            [condition for condition in entry.single if has_entry(condition)],
            [group for group in entry.groups if group and all(map(has_entry, group))],
        )
        bounded = path_ranges(usable, multikey)
        if bounded is not None and paths.holds(path):
            # Conditions in an `$elemMatch` have paths relative to the array.
            guarantees = tuple(
                guarantee for guarantee in bounded[1] if isinstance(guarantee, _OF_VALUES) and guarantee.path == path
            )
            bounds.append(WildcardBounds(path, bounded[0], False, guarantees))
    bounds += [
        WildcardBounds(path, EVERYTHING, below=True)
        for path in _existing(tree)
        if paths.holds(path, with_subtree=True)
        and not (multikey and any(name.isdigit() for name in path.split(".")))
        and all(item.path != path for item in bounds)
    ]
    return bounds


def _existing(tree: Filter) -> list[str]:
    """Return the paths that the conjunction at the top of the filter requires to exist."""
    if isinstance(tree, Exists):
        return [tree.path]
    return [child.path for child in tree.children if isinstance(child, Exists)] if isinstance(tree, And) else []


def has_entry(condition: Condition) -> bool:
    """True if every value that meets the condition has an entry of its own."""
    match condition:
        case Comparison(_, _, value):
            return value[0] not in _WITHOUT_ENTRY
        case In(_, listed, _):
            return all(value[0] not in _WITHOUT_ENTRY for value in listed)
        case RegexMatch() | Mod():
            return True
        case TypeIs(_, codes):
            return not codes & _WITHOUT_ENTRY
        case _:
            return False
