"""Projections: a tree of paths applied to raw documents. Kept fields keep their bytes and their stored order.

A tree is a `Branch`. Its leaves are `KEEP`, `DROP`, a `Rewrite` of the stored value, or a `Computed` value. `find`
projections and the stages `$project`, `$addFields` and `$unset` share such trees. They differ in their parsers and in
two switches: unnamed fields are kept or dropped, and a computed field replaces an existing one or is appended.

Arrays are traversed at any depth. A scalar below a branch

- is replaced by a new document if the branch computes a field;
- else it is kept or dropped as unnamed fields are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from docstore.bson.allowance import spend
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, get_field, values
from docstore.errors import CommandError
from docstore.kernel.compute.projection import FieldTree, TopFields
from docstore.kernel.group.sources import CallSource, Source
from docstore.query.projection.positions import Positions
from docstore.query.value.long_lists import paced


class Plain(Enum):
    """The leaves without a value of their own."""

    KEEP = "keep"
    DROP = "drop"


KEEP = Plain.KEEP
DROP = Plain.DROP


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A new value computed from the stored one; None drops the field. `last`: it moves after the kept fields."""

    change: Callable[[Value], Value | None]
    last: bool = False


Compute = Callable[[bytes], Value | None]
"""Calculates a value from the whole document; None is a missing value. The kernel recognizes its own `sources`."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A value computed from the whole document; None omits the field.

    `metadata` names the kind of metadata that the value is; the reader of the documents supplies it (`with_metadata`).
    """

    compute: Compute
    metadata: str = ""


@dataclass(slots=True)
class Branch:
    """The projections of a document's fields. Built by `plant`, unchanged afterwards.

    `computes`: some leaf below is `Computed`, so a missing document is created.
    """

    children: dict[str, Leaf | Branch] = field(default_factory=dict)
    computes: bool = False


Leaf = Plain | Rewrite | Computed


class PathCollision(Exception):
    """Two paths of one specification are the same or one contains the other.

    `remaining` is the rest of the later path below the earlier one; empty if the later path is the shorter.
    """

    def __init__(self, path: str, remaining: str) -> None:
        super().__init__(path)
        self.path = path
        self.remaining = remaining


_PER_LEAF = 512
"""Units of work charged for adding a leaf to the tree, and for reading it there."""


def plant(root: Branch, path: str, leaf: Leaf) -> None:
    """Add a leaf to the tree. Error: PathCollision."""
    spend(_PER_LEAF)
    branch = root
    parts = path.split(".")
    computes = isinstance(leaf, Computed)
    for position, part in enumerate(parts[:-1]):
        branch.computes = branch.computes or computes
        child = branch.children.get(part)
        if child is None:
            child = branch.children[part] = Branch()
        elif not isinstance(child, Branch):
            raise PathCollision(path, ".".join(parts[position + 1 :]))
        branch = child
    branch.computes = branch.computes or computes
    if parts[-1] in branch.children:
        raise PathCollision(path, "")
    branch.children[parts[-1]] = leaf


class DocumentProjection(Protocol):
    """Converts a document into the returned one."""

    def apply(self, raw: bytes) -> bytes: ...


def applied_to_all(projection: DocumentProjection) -> Callable[[list[bytes]], list[bytes]]:
    """Return the function that projects many documents."""
    if isinstance(projection, Projection):
        return projection.apply_all
    return lambda documents: list(map(projection.apply, documents))


@dataclass(frozen=True, slots=True)
class Projection:
    """A tree with its two switches, ready to be applied to any number of documents.

    `keep_others`: fields that the tree does not name are kept. `in_place`: a computed field takes an existing field's
    place.
    """

    root: Branch
    keep_others: bool
    in_place: bool = False
    _compiled: TopFields | FieldTree | None = None
    """The kernel's form of a tree that names only top-level fields, or only keeps and drops."""

    @property
    def computes(self) -> bool:
        """True if some field is a computed value."""
        return self.root.computes or any(isinstance(child, Computed) for child in self.root.children.values())

    @property
    def is_plain(self) -> bool:
        """True if the projection only keeps and drops fields."""
        return _is_plain(self.root)

    def apply(self, raw: bytes) -> bytes:
        """Return the projected document."""
        return self._document(self.root, raw, raw) if self._compiled is None else self._compiled.apply(raw)

    def apply_all(self, documents: list[bytes]) -> list[bytes]:
        """Return the projected documents."""
        if self._compiled is not None:
            return self._compiled.apply_all(documents)
        return [self._document(self.root, raw, raw) for raw in documents]

    def _document(self, branch: Branch, raw: bytes, document: bytes) -> bytes:
        fields: list[tuple[str, int, bytes]] = []
        later: dict[str, Value | None] = {}
        names: set[str] = set()
        for name, code, data in elements(raw):
            child = branch.children.get(name)
            if child is None:
                if self.keep_others:
                    fields.append((name, code, data))
                continue
            value: Value | None = (code, data)
            if child is DROP or (isinstance(child, Computed) and not self.in_place):
                continue
            names.add(name)
            if isinstance(child, Branch):
                value = self._nested(child, (code, data), document)
            elif isinstance(child, Computed):
                value = child.compute(document)
            elif isinstance(child, Rewrite):
                value = child.change((code, data))
                if child.last:
                    later[name] = value
                    continue
            if value is not None:
                fields.append((name, *value))
        if branch.computes:
            self._compute_missing(branch, document, names, later)
        for name in branch.children if len(later) > 1 else later:
            value = later.get(name)
            if value is not None:
                fields.append((name, *value))
        return document_from(fields)

    def _compute_missing(
        self, branch: Branch, document: bytes, present: set[str], later: dict[str, Value | None]
    ) -> None:
        for name, child in branch.children.items():
            if name in present:
                continue
            if isinstance(child, Computed):
                later[name] = child.compute(document)
            elif isinstance(child, Branch) and child.computes:
                later[name] = self._nested(child, None, document)

    def _nested(self, branch: Branch, value: Value | None, document: bytes) -> Value | None:
        if value is not None:
            if value[0] == OBJECT:
                return OBJECT, self._document(branch, value[1], document)
            if value[0] == ARRAY:
                members = [self._nested(branch, member, document) for member in values(value[1])]
                return ARRAY, array_from([member for member in members if member is not None])
        if branch.computes:
            later: dict[str, Value | None] = {}
            self._compute_missing(branch, document, set(), later)
            return OBJECT, document_from(
                [(name, *member_value) for name, member_value in later.items() if member_value is not None]
            )
        return value if self.keep_others else None


def _is_plain(branch: Branch) -> bool:
    return all(
        isinstance(child, Plain) or (isinstance(child, Branch) and _is_plain(child))
        for child in paced(list(branch.children.values()))
    )


def projection_of(root: Branch, *, keep_others: bool, in_place: bool = False) -> Projection:
    """Return the projection, compiled for the kernel if the tree allows it."""
    plain = DROP if keep_others else KEEP
    added = [(name, child.compute) for name, child in root.children.items() if isinstance(child, Computed)]
    named = [name for name, child in root.children.items() if child is plain]
    compiled: TopFields | FieldTree | None = None
    if len(added) + len(named) == len(root.children) and (in_place or not (keep_others and added)):
        sources = [(name, source if isinstance(source, Source) else CallSource(source)) for name, source in added]
        compiled = TopFields(named, keep_others, sources, in_place)
    elif _is_plain(root):
        compiled = _field_tree(root, keep_others)
    return Projection(root, keep_others, in_place, compiled)


def _field_tree(branch: Branch, keep_others: bool) -> FieldTree:
    children = branch.children.items()
    return FieldTree(
        {
            name: _field_tree(child, keep_others) if isinstance(child, Branch) else child is KEEP
            for name, child in children
        },
        keep_others,
    )


def metadata_kinds(projection: DocumentProjection | None) -> frozenset[str]:
    """Return the kinds of metadata that the projection reads."""
    if isinstance(projection, PositionalProjection):
        projection = projection.projection
    return frozenset(_kinds(projection.root)) if isinstance(projection, Projection) and projection.computes else _NONE


_NONE: frozenset[str] = frozenset()


def _kinds(branch: Branch) -> Iterator[str]:
    for child in branch.children.values():
        if isinstance(child, Branch):
            yield from _kinds(child)
        elif isinstance(child, Computed) and child.metadata:
            yield child.metadata


def with_metadata(projection: DocumentProjection, source: Callable[[str], Compute]) -> DocumentProjection:
    """Return the projection with its metadata computed by the functions that `source` returns for each kind."""
    if isinstance(projection, PositionalProjection):
        inner = with_metadata(projection.projection, source)
        assert isinstance(inner, Projection)
        return replace(projection, projection=inner)
    assert isinstance(projection, Projection)
    root = _with_sources(projection.root, source)
    return projection_of(root, keep_others=projection.keep_others, in_place=projection.in_place)


def _with_sources(branch: Branch, source: Callable[[str], Compute]) -> Branch:
    children: dict[str, Leaf | Branch] = {}
    for name, child in branch.children.items():
        if isinstance(child, Branch):
            children[name] = _with_sources(child, source)
        elif isinstance(child, Computed) and child.metadata:
            children[name] = Computed(source(child.metadata))
        else:
            children[name] = child
    return Branch(children, branch.computes)


def kept_paths(projection: DocumentProjection) -> frozenset[str] | None:
    """Return the paths whose values are all that the projection keeps; None if it does anything else."""
    if not isinstance(projection, Projection) or projection.keep_others:
        return None
    paths: set[str] = set()
    return frozenset(paths) if _add_kept(projection.root, "", paths) else None


def _add_kept(branch: Branch, prefix: str, paths: set[str]) -> bool:
    """Add the kept paths; return True if the branch does nothing else."""
    for name, child in branch.children.items():
        if isinstance(child, Branch):
            if not _add_kept(child, f"{prefix}{name}.", paths):
                return False
        elif child is KEEP:
            paths.add(prefix + name)
        elif child is not DROP:
            return False
    return True


@dataclass(frozen=True, slots=True)
class PositionalProjection:
    """A projection with one path that ends in `$`: of the first array on it, only the element that the filter matched
    is kept.

    Errors, for a document: 51246 if the filter matched no element, 51247 if the array has no such element.
    """

    projection: Projection
    path: str
    positions: Positions

    def apply(self, raw: bytes) -> bytes:
        return self._document(self.projection.apply(raw), self.path.split("."), raw)

    def _document(self, projected: bytes, parts: list[str], raw: bytes) -> bytes:
        container = get_field(projected, parts[0])
        if container is None or container[0] not in (ARRAY, OBJECT):
            return projected
        if container[0] == ARRAY:
            changed: Value = (ARRAY, array_from([self._element(values(container[1]), raw)]))
        elif len(parts) == 1:
            return projected
        else:
            changed = (OBJECT, self._document(container[1], parts[1:], raw))
        return document_from(
            (name, *(changed if name == parts[0] else (code, data))) for name, code, data in elements(projected)
        )

    def _element(self, members: list[Value], raw: bytes) -> Value:
        position = self.positions.of(raw)
        if position is None:
            raise CommandError(51246, "positional operator '.$' couldn't find a matching element in the array")
        if int(position) >= len(members):
            raise CommandError(51247, "positional operator '.$' element mismatch")
        return members[int(position)]
