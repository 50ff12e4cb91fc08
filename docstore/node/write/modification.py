# cython: annotation_typing=False
"""An update applied to stored documents: positions of `$`, times, and the limits on what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
from docstore.kernel.compute.elements import MatchedElement, matched_element
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.key_layout import record_id_bytes
from docstore.node.node import DataNode
from docstore.node.write.identity import Match, identity_filter, identity_of
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import MATCH_ALL, Comparison, Filter
from docstore.query.pausing import PAUSING, REFUSED
from docstore.query.projection.positions import Positions
from docstore.query.update.direct import DirectUpdate, direct_update
from docstore.query.update.parse import has_operators, parse_update
from docstore.query.update.update import OperatorUpdate, Replacement, Update
from docstore.query.update.upsert import plain_seed
from docstore.query.value.collation import Collation


@dataclass
class Modification:
    """One statement's update with its filter."""

    node: DataNode
    tree: Filter
    update: Update
    matched: MatchedElement | None = None
    filter: bytes = EMPTY_DOCUMENT
    """What `$` stands for where the filter is simple, and the filter then: `tree` says nothing of it."""
    positions: Positions | None = None
    _paths: Paths | None = None
    _at_once: bool = False

    @property
    def paths(self) -> Paths | None:
        """What the oplog says of the change; None where it goes by what takes less room."""
        if self._paths is None:
            update = self.update
            if isinstance(update, DirectUpdate):
                self._paths = update.paths or WHOLE_FIELDS
            elif update.is_replacement:
                self._paths = REPLACED
            elif isinstance(update, OperatorUpdate):
                self._paths = update.paths
        return self._paths

    def apply(self, before: bytes) -> bytes:
        """The document after the update; the same object when it does not count as modified.

        Errors: 17419 over 16 MiB, Overflow.
        """
        self._at_once = False
        changed = self._changed_at_once(before)
        if changed is before:
            return before
        if changed is not None:
            check_updated(changed)
            return changed
        update = self.update
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
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

    def apply_each(self, before: list[bytes]) -> list[bytes]:
        """`apply` for each of some documents."""
        update = self.update
        if isinstance(update, DirectUpdate) and not update.needs_position:
            after = update.change_each(before, self._now(), MAX_DOCUMENT_BYTES)
            if after is not None:
                return after
        return list(map(self.apply, before))

    def _changed_at_once(self, before: bytes) -> bytes | None:
        """The document after the update where the kernel says so, the same object when nothing changes; else None."""
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
        """The places that the update may change; None where that is not known."""
        update = self.update
        if update.needs_position and isinstance(update, (DirectUpdate, OperatorUpdate)):
            return update.changed_through(self._pointing().paths if self.matched is None else self.matched.paths)
        return update.changed

    @property
    def just_changed(self) -> frozenset[bytes] | None:
        """As `changed`, of the last document that it was applied to: the element that `$` stands for was there where
        the kernel has changed it.
        """
        update = self.update
        return update.changed_in_place if self._at_once and isinstance(update, DirectUpdate) else self.changed

    def _pointing(self) -> Positions:
        if self.positions is None:
            self.positions = Positions(self.tree if self.matched is None else parse_filter(self.filter))
        return self.positions

    def counts(self, before: bytes, after: bytes) -> bool:
        """Whether the document counts as modified; one to whose front its `_id` had to be put does in any case."""
        return after is not before or self.update.moves_id(before)

    def upsert(self) -> bytes:
        """The document to insert when nothing matched. Errors: 17420 over 16 MiB, Overflow."""
        update, tree = self.update, self.tree
        if isinstance(update, (DirectUpdate, Replacement)) and isinstance(tree, Comparison):
            identity = identity_of(tree, tree.collation)
            made = None if identity is None else update.identified(identity)
            if made is not None:
                _check(made, 17420, "Document to upsert is larger than")
                return made
        new_id = (OBJECT_ID, ObjectId().binary)
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
        try:
            made = self.update.upsert(self.tree, new_id, now=self._now(), timestamp=self._timestamp())
        finally:
            PAUSING.level = level
        _check(made, 17420, "Document to upsert is larger than")
        return made

    def upsert_seeded(self, filter_: bytes) -> bytes | None:
        """As `upsert`, of the filter as it was sent; None where there is more to it."""
        update = self.update
        if not isinstance(update, DirectUpdate):
            return None
        seed = plain_seed(filter_)
        if seed is None:
            return None
        made = update.seeded(seed, (OBJECT_ID, ObjectId().binary), self._now())
        if made is not None:
            _check(made, 17420, "Document to upsert is larger than")
        return made

    def _now(self) -> int:
        return int(self.node.wall_clock() * 1000)

    def _timestamp(self) -> int:
        return int.from_bytes(self.node.timestamp(), "little")


_SLOW_BYTES = 512 * 1024
"""Documents of which a change takes more than a moment, whatever it is."""


def takes_long(collection: Collection, matches: Iterable[Match], modification: Modification | None = None) -> bool:
    """Whether changing these documents, or removing them, takes a while, with all of their index keys."""
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
    """Update documents together, by no statement of a session; those, as they were, that count as modified. None, with
    nothing done, where they are to be changed one by one: one is refused, or may be.
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
        written = [place for place, raw in enumerate(before) if after[place] != raw]
        rids = [record_id_bytes(matches[place][0]) for place in written]
        if len(written) < len(before):
            before, after = [before[place] for place in written], [after[place] for place in written]
        if not unit.replace_each(collection, rids, before, after, modification.paths, None, indexes):
            return None
    return modified


def check_updated(raw: bytes) -> None:
    """Refuse what an update may not make of a document. Errors: 17419 over 16 MiB, Overflow."""
    _check(raw, 17419, "Resulting document after update is larger than")


def _check(raw: bytes, code: int, complaint: str) -> None:
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise CommandError(code, f"{complaint} {MAX_DOCUMENT_BYTES}")
    validate(raw)


def check_form(update: Value) -> None:
    """Refuse what is neither a document nor a list of stages, before anything of the command is carried out.

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
    apart: bool,
) -> Modification | None:
    """An update of the document with an `_id` that is simple (`docstore.query.update.direct`) or, unless it is applied
    `apart`, prepared, else None: what most statements are, and what means the same in every language with that
    collation.
    """
    identity = identity_filter(filter_, collation)
    if identity is None:
        return None
    direct = direct_update(update[1], array_filters) if update[0] == OBJECT else None
    if direct is not None and (collation is None or not direct.compares):
        return Modification(node, identity, direct)
    prepared = None if apart or collation is not None else prepared_update(update, array_filters)
    return None if prepared is None or prepared.is_replacement else Modification(node, identity, prepared)


def update_by_identity(node: DataNode, filter_: bytes, specification: bytes) -> Modification | None:
    """The update of the document with an `_id` that a filter asks for, where the collection has no collation; None
    where there is more to it, or something is wrong with it.
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
    """A prepared update, of which the filter says no more than it needs; None where there is none. It inserts nothing
    by the filter. `upsert`: the statement may insert. `collated`: there is a collation, so that none is given for an
    update that compares values.
    """
    if upsert and (collated or has_expression(filter_)):
        # The general way refuses an expression, whether a document is found or not.
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
        # The general way says so.
        return None


def _is_same_under_any(update: Update) -> bool:
    """Whether no collation has a say in what the update does."""
    if isinstance(update, DirectUpdate):
        return not update.compares and not update.needs_position
    return update.is_replacement


def prepared_update(update: Value, array_filters: tuple[bytes, ...] = ()) -> Update | None:
    """An update that knows nothing of a request, where the collection has no collation; None where it has to (the time
    or a script in a pipeline), or something is wrong with it. Those that are short are kept: applications send the same
    ones again and again. What applies one must not be interrupted.
    """
    code, specification = update
    if code == OBJECT:
        direct = direct_update(specification, array_filters)
        if direct is not None:
            return direct
        if not array_filters and not has_operators(specification):
            return _prepared(code, specification, ())
    short = len(specification) + sum(map(len, array_filters)) <= _SHORT
    return (_kept if short else _prepared)(code, specification, array_filters)


def _prepared(code: int, specification: bytes, array_filters: tuple[bytes, ...]) -> Update | None:
    try:
        check_form((code, specification))
        given = specification if code == OBJECT else array_documents(specification)
        return parse_update(given, array_filters, query_context=_OF_NO_REQUEST)
    except CommandError:
        return None


_kept = lru_cache(maxsize=256)(_prepared)
_OF_NO_REQUEST = new_context()
_SHORT = 1024
"""Bytes of an update that is kept, with its array filters."""


def update_of(update: Value, array_filters: Sequence[bytes], query_context: QueryContext) -> Update:
    """From the `u` of a statement, whose form has been checked. Errors: those of the update language."""
    code, data = update
    if code == OBJECT:
        direct = direct_update(data, tuple(array_filters))
        if direct is None or (direct.compares and query_context.collation is not None):
            return parse_update(data, array_filters, query_context=query_context)
        return direct
    return parse_update(array_documents(data), array_filters, query_context=query_context)
