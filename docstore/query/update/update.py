"""Updates as values: applied to stored documents, or to the seed of an upsert.

Invariants:
- The `_id` of a stored document does not change (ImmutableField).
- The `_id` is the first field of the result of an upsert or a replacement.
- A result identical with the input object was not modified; equal bytes alone do not tell that.
- The caller checks the depth and the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Union

from docstore.bson.build import document_from
from docstore.bson.order import compare
from docstore.bson.walk import ARRAY, TIMESTAMP, Value, elements, get_field
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import Filter
from docstore.query.limits import MAX_CACHED_POSITIONS
from docstore.query.update.arrays import AddToSet, Push
from docstore.query.update.modifier import LEAVE, Modifier, Situation
from docstore.query.update.tree import PathNode, Selectors, apply_tree, dollar_field
from docstore.query.update.upsert import seed_document, seeded_id
from docstore.query.value.identity import check_id
from docstore.query.value.long_lists import paced
from docstore.query.value.notation import display
from docstore.query.value.places import changed_place
from docstore.query.value.values import timestamp_bytes

_TIMESTAMP_CODE = bytes((TIMESTAMP,))

ChangedPaths = Mapping[str, Union["ChangedPaths", bool]]


class Update(Protocol):
    """The interface of both forms of update."""

    @property
    def is_replacement(self) -> bool: ...

    @property
    def needs_position(self) -> bool:
        """True if `apply` needs the position of the array element that the filter matched."""
        ...

    @property
    def changed(self) -> frozenset[bytes] | None:
        """The places (`docstore.query.value.places`) that the update may change; None if they are not known."""
        ...

    def apply(self, raw: bytes, *, matched_index: str | None, now: int, timestamp: int) -> bytes:
        """Return the document after the update; the same object if it does not count as modified.

        `now` is in milliseconds since 1970, `timestamp` a BSON timestamp as 64 bits, `matched_index` the position that
        `$` in a path stands for.
        """
        ...

    def moves_id(self, raw: bytes) -> bool:
        """True if the update has to put the `_id` in front of its result, which counts as a modification."""
        ...

    def upsert(self, tree: Filter, new_id: Value, *, now: int, timestamp: int) -> bytes:
        """Return the document to insert if the filter matched none; `new_id` is used unless the document has
        an `_id`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """One operator on one path. `on_insert`: only the insert of an upsert performs it."""

    path: str
    modifier: Modifier
    on_insert: bool = False


@dataclass(frozen=True, slots=True)
class OperatorUpdate:
    """A document of operators. The trees hold the changes of an update and of an insert."""

    changes: tuple[Change, ...]
    on_update: PathNode
    on_insert: PathNode
    needs_position: bool
    selectors: Selectors
    changed: frozenset[bytes]
    arrays: frozenset[str] = frozenset()
    """The paths of arrays before a `$`."""
    changed_in_place: frozenset[bytes] = frozenset()
    """Like `changed`, if every `$` stands for an existing element."""
    is_replacement: bool = False
    _at: dict[str, PathNode] = field(default_factory=dict, compare=False)
    """The cached trees for some positions."""
    _paths: list[ChangedPaths] = field(default_factory=list, compare=False)
    """The cached `paths`; empty until they are computed."""

    @classmethod
    def of(cls, changes: Iterable[Change], on_insert: PathNode, selectors: Selectors) -> OperatorUpdate:
        """Build the update from its changes in the order of the specification, and their tree."""
        listed = tuple(changes)
        differs = any(change.on_insert for change in paced(listed))
        on_update = _tree(map(_while_updating, paced(listed)), None) if differs else on_insert
        needs_position = any("$" in change.path.split(".") for change in paced(listed))
        changed = frozenset([changed_place(change.path) for change in paced(listed)])
        if not needs_position:
            return cls(listed, on_update, on_insert, needs_position, selectors, changed)
        arrays = frozenset([f"{change.path}.".partition(".$.")[0] for change in listed if ".$." in f"{change.path}."])
        in_place = frozenset([changed_place(change.path, positions_exist=True) for change in listed])
        return cls(listed, on_update, on_insert, needs_position, selectors, changed, arrays, in_place)

    def changed_through(self, paths: Iterable[str]) -> frozenset[bytes]:
        """Return `changed` for positions found by conditions on these paths. If all paths lead through all arrays, the
        elements exist.
        """
        return self.changed_in_place if lead_through(paths, self.arrays) else self.changed

    def apply(self, raw: bytes, *, matched_index: str | None, now: int, timestamp: int) -> bytes:
        tree = self.on_update
        if self.needs_position and matched_index is not None:
            tree = self._positioned(matched_index)
        situation = Situation(document=raw, now=now, timestamp=timestamp)
        after = apply_tree(tree, raw, situation, self.selectors)
        return after if situation.modified or after != raw else raw

    def _positioned(self, matched_index: str) -> PathNode:
        tree = self._at.get(matched_index)
        if tree is None:
            tree = _tree(map(_while_updating, paced(self.changes)), matched_index)
            if len(self._at) < MAX_CACHED_POSITIONS:
                self._at[matched_index] = tree
        return tree

    @property
    def paths(self) -> ChangedPaths:
        """Return the tree of paths that the operators may change: names to their subtrees. The leaf of a changed field
        is True if the operator appends to an array. An array with several selected elements is such a field.
        """
        if not self._paths:
            self._paths.append(_changed_paths(self.on_update))
        return self._paths[0]

    def moves_id(self, raw: bytes) -> bool:
        return False

    def upsert(self, tree: Filter, new_id: Value, *, now: int, timestamp: int) -> bytes:
        seed = seed_document(tree)
        situation = Situation(document=seed, now=now, timestamp=timestamp, inserting=True)
        document = apply_tree(self.on_insert, seed, situation, self.selectors)
        if any(change.path == "_id" and isinstance(change.modifier, AddToSet | Push) for change in self.changes):
            raise _array_id()
        return inserted(document, new_id)


def lead_through(paths: Iterable[str], arrays: Iterable[str]) -> bool:
    """True if all of these paths lead through all of these arrays."""
    return all(path == array or path.startswith(array + ".") for path in paths for array in arrays)


def _changed_paths(node: PathNode) -> ChangedPaths:
    changed: dict[str, ChangedPaths | bool] = {}
    for name, child in node.children.items():
        if isinstance(child, PathNode):
            changed[name] = False if child.selects else _changed_paths(child)
        else:
            changed[name] = isinstance(child, Push) and child.position is None and child.sort is None
    return changed


def _while_updating(change: Change) -> Change:
    return Change(change.path, LEAVE) if change.on_insert else change


def _tree(changes: Iterable[Change], matched_index: str | None) -> PathNode:
    root = PathNode()
    for change in changes:
        path = change.path
        if matched_index is not None:
            path = ".".join(matched_index if part == "$" else part for part in path.split("."))
        root.insert(path, change.modifier)
    return root


@dataclass(frozen=True, slots=True)
class Replacement:
    """A whole new document. It keeps the `_id` of the old one; an empty timestamp at its top level is filled in.
    `dollar`: the name of a field that may be inserted, but may not replace a document.
    """

    document: bytes
    dollar: str = ""
    needs_position: bool = False
    is_replacement: bool = True
    changed: frozenset[bytes] | None = None

    def change(self, raw: bytes) -> bytes | None:
        """See `DirectUpdate.change`."""
        return None if self.dollar or _may_be_filled(self.document) else self._in_place_of(raw, self.document)

    def identified(self, identity: Value) -> bytes | None:
        """See `DirectUpdate.identified`."""
        own = get_field(self.document, "_id")
        if _may_be_filled(self.document) or (own is not None and own != identity):
            return None
        return inserted(self.document, identity)

    def apply(self, raw: bytes, *, matched_index: str | None, now: int, timestamp: int) -> bytes:
        return self._in_place_of(raw, fill_timestamps(self.document, timestamp))

    def _in_place_of(self, raw: bytes, document: bytes) -> bytes:
        if self.dollar:
            raise dollar_field(self.dollar)
        after = _with_kept_id(document, get_field(raw, "_id"))
        return after if after != raw else raw

    def moves_id(self, raw: bytes) -> bool:
        return not begins_with_id(self.document)

    def upsert(self, tree: Filter, new_id: Value, *, now: int, timestamp: int) -> bytes:
        filter_id = seeded_id(tree)
        own = get_field(self.document, "_id")
        if ARRAY in (own and own[0], filter_id and filter_id[0]):
            raise _array_id()
        if filter_id is not None and own is not None and encode_key(filter_id) != encode_key(own):
            raise _altered_id(own)
        return inserted(fill_timestamps(self.document, timestamp), filter_id if filter_id is not None else new_id)


@dataclass(frozen=True, slots=True)
class PipelineUpdate:
    """Stages that compute the new document from the old one. If they leave no `_id`, the old one stays."""

    transform: Callable[[bytes], bytes]
    changed: frozenset[bytes] | None = None
    needs_position: bool = False
    is_replacement: bool = False

    def apply(self, raw: bytes, *, matched_index: str | None, now: int, timestamp: int) -> bytes:
        new_document, old = self.transform(raw), get_field(raw, "_id")
        own = get_field(new_document, "_id")
        if own is not None and own != old:
            # An invalid `_id` takes precedence over a changed one.
            check_id(own)
        after = _with_kept_id(new_document, old)
        return after if after != raw else raw

    def moves_id(self, raw: bytes) -> bool:
        return not begins_with_id(self.transform(raw))

    def upsert(self, tree: Filter, new_id: Value, *, now: int, timestamp: int) -> bytes:
        seed = seed_document(tree)
        document = self.transform(seed)
        own = get_field(document, "_id")
        if own is not None and own[0] == ARRAY:
            raise _array_id()
        return inserted(_with_kept_id(document, get_field(seed, "_id")), new_id)


def _with_kept_id(document: bytes, old_id: Value | None) -> bytes:
    new_id = get_field(document, "_id")
    if old_id is not None and new_id is not None and compare(old_id, new_id) != 0:
        raise _altered_id(new_id)
    document_id = new_id if new_id is not None else old_id
    return document if document_id is None else with_id_first(document, document_id)


def _array_id() -> CommandError:
    return CommandError(
        Code.NotSingleValueField,
        "After applying the update to the document, the (immutable) field '_id' was found to be an array or array"
        " descendant.",
    )


def _altered_id(new_id: Value) -> CommandError:
    return CommandError(
        Code.ImmutableField,
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id:"
        f" {display(new_id)}",
    )


def inserted(raw: bytes, new_id: Value) -> bytes:
    """Return the document that an upsert stores, with its `_id` first. Errors: those of an invalid `_id`."""
    document = with_id_first(raw, new_id)
    document_id = get_field(document, "_id")
    if document_id is not None:
        check_id(document_id)
    return document


def begins_with_id(raw: bytes) -> bool:
    """True if the first field of the document is its `_id`."""
    return raw[5:9] == b"_id\0"


def with_id_first(raw: bytes, new_id: Value) -> bytes:
    """Return the document with its `_id` (`new_id` if it has none) as the first field."""
    if begins_with_id(raw):
        return raw
    own = get_field(raw, "_id")
    if own is None:
        code, data = new_id
        body = b"".join((bytes((code,)), b"_id\0", data, raw[4:]))
        return (len(body) + 4).to_bytes(4, "little") + body
    return document_from([("_id", *own), *(item for item in elements(raw) if item[0] != "_id")])


def _may_be_filled(raw: bytes) -> bool:
    """True if the document may have an empty timestamp; a cheap test."""
    return raw.find(_TIMESTAMP_CODE) >= 0 and raw.find(bytes(8)) >= 0


def fill_timestamps(raw: bytes, timestamp: int) -> bytes:
    """Return the document with every empty timestamp at its top level, except an `_id`, set to the given one."""
    if not _may_be_filled(raw):
        return raw
    empty = (TIMESTAMP, bytes(8))
    fields = elements(raw)
    if not any((code, data) == empty and name != "_id" for name, code, data in paced(fields)):
        return raw
    filled = timestamp_bytes(timestamp)
    return document_from(
        (name, code, filled if (code, data) == empty and name != "_id" else data) for name, code, data in paced(fields)
    )
