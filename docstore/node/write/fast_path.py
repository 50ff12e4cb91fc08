"""Fast path for a write of one document, without slices, yields and statement ordering.

It serves one insert, or one delete or update found by `_id` or by a prepared scan
(`docstore.collection.read.prepared`). An update of up to 64 documents in one unit qualifies too. Each function executes
the whole command, or returns None with nothing done.

* Results and write errors equal the general path's.
* Left to the general path in the request: a second or a long statement, `let`, a hint, a pipeline that needs the time
  or scripts.
* Left to it in the state: a collation, a view, a critical section, a write lock, an open transaction, a transaction
  number that the session has used.
* On a shard the request enters in the step in which it writes: a stale version is rejected, and documents that the
  shard does not own are skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable

import cython

from docstore.bson import document_from, elements, get_field, is_storable
from docstore.bson.walk import ARRAY, BOOL, EMPTY_DOCUMENT, INT32, NULL, OBJECT, values
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import keys_take_long
from docstore.collection.oplog.journal import Image
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.read.prepared import NOTHING, bound_scan_of_write
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import CommandError
from docstore.js.script_thread import current
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.read.at_once import collation_of, plain_projection
from docstore.node.shard_filter import enter_at_once, post_images_of
from docstore.node.upkeep.execution import is_profiled
from docstore.node.write.driver import (
    Outcome,
    acknowledge,
    acknowledge_counts,
    acknowledged_fields,
    effective_concern,
    session_write,
)
from docstore.node.write.find_and_modify import FindAndModifyResult, answer_fields
from docstore.node.write.identity import Match, identity_filter, identity_in
from docstore.node.write.modification import Modification, change_each, plain_modification, takes_long
from docstore.node.write.statement_loop import UNIT_DOCUMENTS
from docstore.node.write.validators import Validator, validator_of
from docstore.optime import OpTime
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.projection import Projection
from docstore.query.scripts import ScriptsWanted

_SINGLE_OPTIONS = frozenset((("multi", BOOL, b"\0"), ("upsert", BOOL, b"\0")))
_USUAL_OPTIONS = [("multi", BOOL, b"\0"), ("upsert", BOOL, b"\0")]
"""Fields that drivers send with most updates."""
_UPSERT = ("upsert", BOOL, b"\1")
_UPSERT_OPTIONS = frozenset((("multi", BOOL, b"\0"), _UPSERT))
_MANY = ("multi", BOOL, b"\1")
_MANY_OPTIONS = frozenset((_MANY, ("upsert", BOOL, b"\0")))
_ONE = ("limit", INT32, b"\1\0\0\0")
_FIND_AND_MODIFY_OPTIONS = frozenset(
    ("query", "sort", "update", "remove", "new", "fields", "upsert", "arrayFilters", "collation")
)
_NO_UPDATE = (NULL, b"")


Reply = bytes | Awaitable[bytes]


class _WriteTarget:
    """A collection that can be written now: owned ranges, session, statement id, write concern and validator."""

    def __init__(
        self,
        node: DataNode,
        collection: Collection,
        owned: Predicate | None,
        session: SessionWrite | None,
        stmt_id: int | None,
        concern: WriteConcern,
        validator: Validator | None,
    ) -> None:
        self.node = node
        self.collection = collection
        self.owned = owned
        self.session = session
        self.stmt_id = stmt_id
        self.concern = concern
        self.validator = validator

    def search(
        self, arguments: Arguments, filter_: bytes, sort: bytes = EMPTY_DOCUMENT, raw_collation: bytes | None = None
    ) -> Match | None:
        """Return the first match of a filter under a sort and collation; NOTHING if none matches.

        None without a prepared scan.
        """
        engine, owned = self.node.engine, self.owned
        is_valid, collation = collation_of(self.collection, raw_collation)
        identity = identity_in(filter_)
        if not is_valid or (collation is not None and identity is not None):
            return None
        if identity is not None:
            match = self.collection.look_up(engine, identity)
            return NOTHING if match is None or (owned is not None and not owned.matches(match[1])) else match
        if "within" in arguments or "statementCounts" in arguments:
            # The router ensures that a moving document is visited once.
            return None
        bound = bound_scan_of_write(self.collection, filter_, engine, sort=sort, collation=collation)
        return None if bound is None else bound.first(engine, owned)

    def search_many(self, arguments: Arguments, filter_: bytes) -> list[Match] | None:
        """Return the matches of a filter.

        None without a prepared scan, or if there are more than one unit may change.
        """
        if self.session is not None or "statementCounts" in arguments:
            return None
        if identity_in(filter_) is not None:
            return None
        bound = bound_scan_of_write(self.collection, filter_, self.node.engine)
        matches = None if bound is None else bound.pairs(self.node.engine, UNIT_DOCUMENTS + 1, self.owned)
        if bound is None or matches is None or len(matches) > UNIT_DOCUMENTS:
            return None
        bound.used()
        return matches

    def unit(self) -> WriteUnitOfWork:
        return self.node.store.unit(session=self.session)


@cython.ccall
def _write_target(context: Context, node: DataNode, arguments: Arguments, bypass: bool) -> _WriteTarget | None:
    """Return the collection to write to, or None if the general path is needed. `bypass`: skip the validator.

    Errors: those of the session and of the write concern, StaleConfig.
    """
    store = node.store
    if store.write_lock.is_held or "let" in arguments:
        return None
    if current() is not None:
        # An evaluation has taken long, or may.
        return None
    collection = store.collection(context.namespace)
    if collection is None or collection.id_index.collation is not None:
        return None
    row = session_write(context, node)
    stmt_id = None
    if row is not None:
        session = context.session
        if session is None or session.stmt_ids == () or store.sessions.state(row.lsid).txn_number == row.txn_number:
            return None
        stmt_id = session.statement_id(0)
    concern = effective_concern(context, node)
    at_once, owned = enter_at_once(node.shard_filter, context.namespace, context.shard_version, write=True)
    validator = validator_of(node, collection, bypass=bypass)
    return _WriteTarget(node, collection, owned, row, stmt_id, concern, validator) if at_once else None


def insert_one(context: Context, node: DataNode, arguments: Arguments, documents: list[bytes]) -> Reply | None:
    """Insert a document that needs no preparation (`is_storable`)."""
    raw = documents[0]
    if len(documents) > 1 or len(raw) > MAX_DOCUMENT_BYTES or not is_storable(raw):
        return None
    target = _write_target(context, node, arguments, arguments["bypassDocumentValidation"])
    if target is None or keys_take_long(target.collection, raw):
        return None
    unit = target.unit()
    try:
        if target.validator is not None:
            target.validator.check_new(raw)
        unit.insert(target.collection, raw, stmt_id=target.stmt_id)
        last = unit.commit()
    except ScriptsWanted:
        unit.abort()
        raise
    except CommandError as error:
        return _error_reply(context, target, unit, error)
    return acknowledge_counts(context, target.concern, 1, None, last)


def update_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """Execute one statement over one document, or over as many as one unit may change."""
    if len(statements) > 1 or len(statements[0]) > LARGE_BYTES or is_profiled(context):
        return None
    fields = elements(statements[0])
    if len(fields) < 2 or fields[0][:2] != ("q", OBJECT) or fields[1][0] != "u":
        return None
    options, filters = _split_array_filters(fields[2:])
    upsert, many = _UPSERT in options, _MANY in options
    allowed = _MANY_OPTIONS if many else _UPSERT_OPTIONS if upsert else _SINGLE_OPTIONS
    if (options != _USUAL_OPTIONS and not allowed.issuperset(options)) or (many and node.shard_filter is not None):
        return None
    update = None if filters is None else plain_modification(node, fields[0][2], fields[1][1:], filters, upsert=upsert)
    target = None
    if update is not None:
        target = _write_target(context, node, arguments, arguments["bypassDocumentValidation"])
    if update is None or target is None or not _may_change(context, target, update):
        return None
    if many:
        return _update_many(context, target, update, target.search_many(arguments, fields[0][2]))
    match = target.search(arguments, fields[0][2])
    if match is None:
        return None
    if upsert and match is NOTHING:
        return _upsert(context, target, fields[0][2], update)
    if match is NOTHING:
        return acknowledge_counts(context, target.concern, 0, 0, None)
    record_id, before = match
    if takes_long(target.collection, [match], update):
        return None
    unit = target.unit()
    last = None
    try:
        after = update.apply(before)
        if after != before:
            if target.validator is not None:
                target.validator.check_change(before, after)
            unit.replace(
                target.collection, record_id, before, after,
                stmt_id=target.stmt_id, changed=update.just_changed, paths=update.paths,
            )  # fmt: skip
            last = unit.commit()
        else:
            unit.abort()
    except ScriptsWanted:
        unit.abort()
        raise
    except CommandError as error:
        return _error_reply(context, target, unit, error, modified=0)
    return acknowledge_counts(context, target.concern, 1, int(update.counts(before, after)), last)


def _update_many(
    context: Context, target: _WriteTarget, update: Modification, matches: list[Match] | None
) -> Reply | None:
    """Update the documents together; None if they must be updated one at a time."""
    collection = target.collection
    if matches is None or target.validator is not None or update.update.is_replacement:
        return None
    if takes_long(collection, matches, update):
        return None
    unit = target.unit()
    last = None
    try:
        modified = change_each(unit, collection, update, matches) if matches else []
        if modified is None:
            unit.abort()
            return None
        if modified:
            last = unit.commit()
        else:
            unit.abort()
    except ScriptsWanted:
        unit.abort()
        raise
    except CommandError as error:
        return _error_reply(context, target, unit, error, modified=0)
    return acknowledge_counts(context, target.concern, len(matches), len(modified), last)


def _split_array_filters(
    options: list[tuple[str, int, bytes]],
) -> tuple[list[tuple[str, int, bytes]], tuple[bytes, ...] | None]:
    """Return (the statement's other fields, its array filters); the filters are None if invalid."""
    for position, (name, code, data) in enumerate(options):
        if name == "arrayFilters":
            filters = values(data) if code == ARRAY else None
            if filters is None or any(code != OBJECT for code, _ in filters):
                return options, None
            return options[:position] + options[position + 1 :], tuple([filter_ for _, filter_ in filters])
    return options, ()


def _error_reply(
    context: Context,
    target: _WriteTarget,
    unit: WriteUnitOfWork | None,
    error: CommandError,
    modified: int | None = None,
) -> Reply | None:
    """Return the reply to an error after aborting the unit; None for a conflict, which the general path handles."""
    if unit is not None:
        unit.abort()
    if isinstance(error, WriteConflict):
        return None
    outcome = Outcome(modified=modified)
    outcome.fail(0, error)
    return acknowledge(context, outcome, target.concern)


def _upsert(context: Context, target: _WriteTarget, filter_: bytes, update: Modification) -> Reply | None:
    """Insert the document that an update makes from a filter without a match."""
    if post_images_of(target.node.shard_filter, context.namespace, context.shard_version) is not None:
        return None
    outcome = Outcome(modified=0)
    unit = None
    try:
        document = update.upsert_seeded(filter_)
        if document is None:
            tree = identity_filter(filter_)
            if tree is None:
                tree = parse_filter(filter_)
            document = Modification(target.node, tree, update.update).upsert()
        identity = get_field(document, "_id")
        if identity is None or keys_take_long(target.collection, document):
            return None
        if target.validator is not None:
            target.validator.check_new(document)
        unit = target.unit()
        unit.insert(target.collection, document, stmt_id=target.stmt_id)
        outcome.last = unit.commit()
        outcome.n = 1
        outcome.upserted.append((0, identity))
    except CommandError as error:
        return _error_reply(context, target, unit, error, modified=0)
    return acknowledge(context, outcome, target.concern)


def delete_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """Delete one document."""
    if len(statements) > 1 or len(statements[0]) > LARGE_BYTES or is_profiled(context):
        return None
    fields = elements(statements[0])
    if len(fields) != 2 or fields[0][:2] != ("q", OBJECT) or fields[1] != _ONE:
        return None
    target = _write_target(context, node, arguments, True)
    match = None if target is None else target.search(arguments, fields[0][2])
    if target is None or match is None:
        return None
    if match is NOTHING:
        return acknowledge_counts(context, target.concern, 0, None, None)
    if takes_long(target.collection, [match]):
        return None
    unit = target.unit()
    try:
        unit.remove(target.collection, *match, stmt_id=target.stmt_id)
        last = unit.commit()
    except CommandError as error:
        return _error_reply(context, target, unit, error)
    return acknowledge_counts(context, target.concern, 1, None, last)


def find_and_modify_one(context: Context, node: DataNode, arguments: Arguments) -> Reply | None:
    """Update or remove one document, and return it."""
    options = arguments.sent_values()
    if not options.keys() <= _FIND_AND_MODIFY_OPTIONS or len(context.raw) > LARGE_BYTES or is_profiled(context):
        return None
    removes, new = options.get("remove", False), options.get("new", False)
    code, specification = options.get("update", _NO_UPDATE)
    if removes:
        # The general path rejects contradictions.
        update = None
        if new or "update" in options or "arrayFilters" in options or options.get("upsert", False):
            return None
    else:
        query, filters = options.get("query", EMPTY_DOCUMENT), tuple(options.get("arrayFilters", ()))
        upsert = options.get("upsert", False)
        collated = "collation" in options
        update = plain_modification(node, query, (code, specification), filters, upsert=upsert, collated=collated)
        if update is None:
            return None
    projection = plain_projection(options["fields"]) if "fields" in options else None
    if projection is None and "fields" in options:
        return None
    target = _write_target(context, node, arguments, False)
    if target is None or (update is not None and not _may_change(context, target, update)):
        return None
    query, sort = options.get("query", EMPTY_DOCUMENT), options.get("sort", EMPTY_DOCUMENT)
    match = target.search(arguments, query, sort, options.get("collation"))
    if match is None or (match is NOTHING and options.get("upsert", False)):
        return None
    if match is NOTHING:
        return _find_and_modify_reply(
            context, target, FindAndModifyResult(0, None if removes else False, None), None, None
        )
    record_id, before = match
    if takes_long(target.collection, [match], update):
        return None
    after = None if update is None else update.apply(before)
    last, stmt_id = None, target.stmt_id
    if after != before:
        unit = target.unit()
        try:
            if update is None or after is None:
                unit.remove(target.collection, record_id, before, stmt_id=stmt_id, image=Image("preImage", before))
            else:
                if target.validator is not None:
                    target.validator.check_change(before, after)
                image = Image("postImage", after) if new else Image("preImage", before)
                unit.replace(
                    target.collection, record_id, before, after,
                    stmt_id=stmt_id, changed=update.just_changed, paths=update.paths, image=image,
                )  # fmt: skip
            last = unit.commit()
        except WriteConflict:
            unit.abort()
            return None
        except BaseException:
            unit.abort()
            raise
    result = FindAndModifyResult(1, None if removes else True, after if new else before)
    return _find_and_modify_reply(context, target, result, projection, last)


def _may_change(context: Context, target: _WriteTarget, update: Modification) -> bool:
    """Return True if the update cannot move a document to another shard."""
    rules = post_images_of(target.node.shard_filter, context.namespace, context.shard_version)
    return rules is None or not rules.concerned(update.changed)


def _find_and_modify_reply(
    context: Context,
    target: _WriteTarget,
    result: FindAndModifyResult,
    projection: Projection | None,
    last: OpTime | None,
) -> Reply:
    fields = answer_fields(result, projection)
    concern = target.concern
    if not concern.j and concern.w in (0, 1):
        return document_from(fields)
    return acknowledged_fields(context, fields, last, concern)
