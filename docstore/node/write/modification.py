# cython: annotation_typing=False
"""Application of an update to stored documents: positions of `$`, current time, size limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cython
from bson.objectid import ObjectId

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.stages.table import STAGES
from docstore.aggregation.unsupported import STAGES as UNSUPPORTED
from docstore.bson import Value, array_documents, elements, validate
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, OBJECT, OBJECT_ID
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import keys_take_long
from docstore.collection.oplog.diff import REPLACED, WHOLE_FIELDS, Paths
from docstore.collection.read.prepared import has_expression
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import Code, CommandError
from docstore.js.script_thread import current
from docstore.kernel.compute.elements import MatchedElement, matched_element
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.key_layout import record_id_bytes
from docstore.node.node import DataNode
from docstore.node.write.identity import Match, identity_filter, identity_of
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import MATCH_ALL, Comparison, Filter
from docstore.query.pausing import OVERTAKEN, PAUSING, REFUSED
from docstore.query.projection.positions import Positions
from docstore.query.update.direct import DirectUpdate, direct_update
from docstore.query.update.parse import has_operators, parse_update
from docstore.query.update.update import OperatorUpdate, Replacement, Update
from docstore.query.update.upsert import plain_seed
from docstore.query.value.collation import Collation


@dataclass
class Modification:
    """The update of one statement, with its filter."""

    node: DataNode
    tree: Filter
    update: Update
    matched: MatchedElement | None = None
    filter: bytes = EMPTY_DOCUMENT
    """If the filter is simple, the element that `$` refers to and the raw filter; `tree` is then unused."""
    positions: Positions | None = None
    _paths: Paths | None = None
    _at_once: bool = False

    @property
    def paths(self) -> Paths | None:
        """Paths that the oplog entry records; None: the entry takes the shorter form, diff or document."""
        if self._paths is None:
            update = self.update
            if isinstance(update, DirectUpdate):
                self._paths = update.paths or WHOLE_FIELDS
            elif update.is_replacement:
                self._paths = REPLACED
            elif isinstance(update, OperatorUpdate):
                self._paths = update.paths
        return self._paths

    @cython.ccall
    def apply(self, before: bytes) -> bytes:
        """Return the document after the update; the same object if it does not count as modified."""
        self._at_once = False
        changed = self._changed_at_once(before)
        if changed is before:
            return before
        if changed is not None:
            check_updated(changed)
            return changed
        update = self.update
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, _interruption())
        try:
            position = None
            if update.needs_position:
                position = self._pointing().of(before)
            after = update.apply(before, matched_index=position, now=self._now(), timestamp=self._timestamp())
        finally:
            PAUSING.level = level
        if after != before:
            check_updated(after)
        return after

    @cython.ccall
    def apply_each(self, before: list[bytes]) -> list[bytes]:
        """Return `apply` of each document."""
        update = self.update
        if isinstance(update, DirectUpdate) and not update.needs_position:
            after = update.change_each(before, self._now(), MAX_DOCUMENT_BYTES)
            if after is not None:
                return after
        return list(map(self.apply, before))

    @cython.ccall
    def _changed_at_once(self, before: bytes) -> bytes | None:
        """Return the document after the update if the kernel can compute it, else None.

        The same object if unchanged.
        """
        update = self.update
        if isinstance(update, Replacement):
            return update.change(before)
        if not isinstance(update, DirectUpdate):
            return None
        if not update.needs_position:
            return update.change(before, self._now())
        position = -1 if self.matched is None else self.matched.of(before)
        after = None if position < 0 else update.change(before, self._now(), position)
        self._at_once = after is not None
        return after

    @property
    def changed(self) -> frozenset[bytes] | None:
        """Paths that the update may change; None if unknown."""
        update = self.update
        if update.needs_position and isinstance(update, (DirectUpdate, OperatorUpdate)):
            return update.changed_through(self._pointing().paths if self.matched is None else self.matched.paths)
        return update.changed

    @property
    def just_changed(self) -> frozenset[bytes] | None:
        """Paths that the last `apply` may have changed; None if unknown.

        If the kernel changed the document in place, the array element of `$` existed already.
        """
        update = self.update
        return update.changed_in_place if self._at_once and isinstance(update, DirectUpdate) else self.changed

    def _pointing(self) -> Positions:
        if self.positions is None:
            self.positions = Positions(self.tree if self.matched is None else parse_filter(self.filter))
        return self.positions

    @cython.ccall
    def counts(self, before: bytes, after: bytes) -> bool:
        """Return True if the document counts as modified: it changed, or its `_id` was moved to the front."""
        return after is not before or self.update.moves_id(before)

    def upsert(self) -> bytes:
        """Return the document to insert when nothing matched. Errors: 17420 over 16 MiB, Overflow."""
        update, tree = self.update, self.tree
        if isinstance(update, (DirectUpdate, Replacement)) and isinstance(tree, Comparison):
            identity = identity_of(tree, tree.collation)
            document = None if identity is None else update.identified(identity)
            if document is not None:
                _check(document, 17420, "Document to upsert is larger than")
                return document
        new_id = (OBJECT_ID, ObjectId().binary)
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, _interruption())
        try:
            document = self.update.upsert(self.tree, new_id, now=self._now(), timestamp=self._timestamp())
        finally:
            PAUSING.level = level
        _check(document, 17420, "Document to upsert is larger than")
        return document

    def upsert_seeded(self, filter_: bytes) -> bytes | None:
        """Return the document to insert for a raw filter of plain equalities.

        None if update or filter needs the general path. Errors: 17420 over 16 MiB.
        """
        update = self.update
        if not isinstance(update, DirectUpdate):
            return None
        seed = plain_seed(filter_)
        if seed is None:
            return None
        document = update.seeded(seed, (OBJECT_ID, ObjectId().binary), self._now())
        if document is not None:
            _check(document, 17420, "Document to upsert is larger than")
        return document

    def _now(self) -> int:
        return int(self.node.wall_clock() * 1000)

    def _timestamp(self) -> int:
        return int.from_bytes(self.node.timestamp(), "little")


def _interruption() -> int:
    """Return the level of interruption of an evaluation.

    On the event loop it is begun again elsewhere once it has taken long (ScriptsWanted). On a thread
    `docstore.node.write.evaluated` decides whether other tasks run meanwhile.
    """
    return OVERTAKEN if current() is None else REFUSED


_SLOW_BYTES = 512 * 1024
"""Size from which any change of a document takes long."""


def takes_long(collection: Collection, matches: Iterable[Match], modification: Modification | None = None) -> bool:
    """Return True if changing or removing these documents, with their index keys, takes long."""
    large = [raw for _, raw in matches if len(raw) > LARGE_BYTES]
    if not large:
        return False
    if modification is not None and any(len(raw) > _SLOW_BYTES for raw in large):
        return True
    changed = None if modification is None else modification.changed
    return any(keys_take_long(collection, raw, changed) for raw in large)


def change_each(
    unit: WriteUnitOfWork, collection: Collection, modification: Modification, matches: list[Match]
) -> list[bytes] | None:
    """Update documents in one batch, outside a session; return the pre-images of those that count as modified.

    None, with nothing done, if they must be updated one at a time: one is refused, or may be.
    """
    changed = modification.changed
    if changed is None:
        return None
    indexes = collection.indexes_of(changed)
    if b"_id" in changed or any(index.unique for index in indexes):
        return None
    before = [raw for _, raw in matches]
    try:
        after = modification.apply_each(before)
    except CommandError:
        return None
    modified = [old for old, new in zip(before, after, strict=True) if modification.counts(old, new)]
    if before != after:
        written = [position for position, raw in enumerate(before) if after[position] != raw]
        rids = [record_id_bytes(matches[position][0]) for position in written]
        if len(written) < len(before):
            before, after = [before[position] for position in written], [after[position] for position in written]
        if not unit.replace_each(collection, rids, before, after, modification.paths, None, indexes):
            return None
    return modified


def check_updated(raw: bytes) -> None:
    """Validate an updated document. Errors: 17419 over 16 MiB, Overflow."""
    _check(raw, 17419, "Resulting document after update is larger than")


def _check(raw: bytes, code: int, complaint: str) -> None:
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise CommandError(code, f"{complaint} {MAX_DOCUMENT_BYTES}")
    validate(raw)


def check_form(update: Value) -> None:
    """Check that an update is a document or a list of stages, before anything of the command is executed.

    Errors: FailedToParse, TypeMismatch, 40323, 40324.
    """
    code, data = update
    if code == OBJECT:
        return
    if code != ARRAY:
        raise CommandError(Code.FailedToParse, "Update argument must be either an object or an array")
    for stage in array_documents(data):
        names = [name for name, _, _ in elements(stage)]
        if len(names) != 1:
            raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
        if names[0] not in STAGES and names[0] not in UNSUPPORTED:
            raise CommandError(40324, f"Unrecognized pipeline stage name: '{names[0]}'")


def direct_modification(
    node: DataNode,
    filter_: bytes,
    update: Value,
    array_filters: tuple[bytes, ...],
    collation: Collation | None,
    *,
    offloaded: bool,
) -> Modification | None:
    """Return the update of a statement by `_id`, if it is simple or prepared; else None.

    Simple: see `docstore.query.update.direct`. The result does not depend on the collation. Prepared updates are not
    used if `offloaded`.
    """
    identity = identity_filter(filter_, collation)
    if identity is None:
        return None
    direct = direct_update(update[1], array_filters) if update[0] == OBJECT else None
    if direct is not None and (collation is None or not direct.compares):
        return Modification(node, identity, direct)
    prepared = None if offloaded or collation is not None else prepared_update(update, array_filters)
    return None if prepared is None or prepared.is_replacement else Modification(node, identity, prepared)


def update_by_identity(node: DataNode, filter_: bytes, specification: bytes) -> Modification | None:
    """Return the update of a statement by `_id` on a collection without collation.

    None if it is invalid or not that simple.
    """
    tree, update = identity_filter(filter_), prepared_update((OBJECT, specification))
    return None if tree is None or update is None or update.needs_position else Modification(node, tree, update)


def plain_modification(
    node: DataNode,
    filter_: bytes,
    update: Value,
    array_filters: tuple[bytes, ...] = (),
    *,
    upsert: bool = False,
    collated: bool = False,
) -> Modification | None:
    """Return a prepared update with only as much of the filter as it needs; None if there is none.

    It cannot compute an upsert by the filter. `upsert`: the statement may insert. `collated`: a collation applies, so
    updates that compare values are excluded.
    """
    if upsert and (collated or has_expression(filter_)):
        # The general path rejects an expression, found or not.
        return None
    prepared = prepared_update(update, array_filters)
    if prepared is None or (collated and not _is_same_under_any(prepared)):
        return None
    if not prepared.needs_position:
        return Modification(node, MATCH_ALL, prepared)
    matched = matched_element(filter_)
    if matched is not None:
        return Modification(node, MATCH_ALL, prepared, matched, filter_)
    try:
        return Modification(node, parse_filter(filter_), prepared)
    except CommandError:
        # The general path reports the error.
        return None


def _is_same_under_any(update: Update) -> bool:
    """Return True if the update does the same under every collation."""
    if isinstance(update, DirectUpdate):
        return not update.compares and not update.needs_position
    return update.is_replacement


def prepared_update(update: Value, array_filters: tuple[bytes, ...] = ()) -> Update | None:
    """Return an update that does not depend on the request, for a collection without collation.

    None if it does depend (time or scripts in a pipeline), or is invalid. Short updates are cached, because
    applications repeat them. Its application must not be interrupted.
    """
    code, specification = update
    if code == OBJECT:
        direct = direct_update(specification, array_filters)
        if direct is not None:
            return direct
        if not array_filters and not has_operators(specification):
            return _prepared(code, specification, ())
    short = len(specification) + sum(map(len, array_filters)) <= _SHORT
    return (_cached_update if short else _prepared)(code, specification, array_filters)


def _prepared(code: int, specification: bytes, array_filters: tuple[bytes, ...]) -> Update | None:
    try:
        check_form((code, specification))
        operators = specification if code == OBJECT else array_documents(specification)
        return parse_update(operators, array_filters, query_context=_OF_NO_REQUEST)
    except CommandError:
        return None


_cached_update = lru_cache(maxsize=256)(_prepared)
_OF_NO_REQUEST = new_context()
_SHORT = 1024
"""Maximum bytes of a cached update, with its array filters."""


def update_of(update: Value, array_filters: Sequence[bytes], query_context: QueryContext) -> Update:
    """Parse the `u` of a statement whose form has been checked. Errors: those of the update language."""
    code, data = update
    if code == OBJECT:
        direct = direct_update(data, tuple(array_filters))
        if direct is None or (direct.compares and query_context.collation is not None):
            return parse_update(data, array_filters, query_context=query_context)
        return direct
    return parse_update(array_documents(data), array_filters, query_context=query_context)
