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
_OF_FIND_AND_MODIFY = frozenset(
    ("query", "sort", "update", "remove", "new", "fields", "upsert", "arrayFilters", "collation")
)
_NO_UPDATE = (NULL, b"")


Reply = bytes | Awaitable[bytes]


class _Place:
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
        self, arguments: Arguments, filter_: bytes, sort: bytes = EMPTY_DOCUMENT, asked: bytes | None = None
    ) -> Match | None:
        """Return the first match of a filter under a sort and collation; NOTHING if none matches.

        None without a prepared scan.
        """
        engine, owned = self.node.engine, self.owned
        known, collation = collation_of(self.collection, asked)
        identity = identity_in(filter_)
        if not known or (collation is not None and identity is not None):
            return None
        if identity is not None:
            found = self.collection.look_up(engine, identity)
            return NOTHING if found is None or (owned is not None and not owned.matches(found[1])) else found
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
        found = None if bound is None else bound.pairs(self.node.engine, UNIT_DOCUMENTS + 1, self.owned)
        if bound is None or found is None or len(found) > UNIT_DOCUMENTS:
            return None
        bound.used()
        return found

    def unit(self) -> WriteUnitOfWork:
        return self.node.store.unit(session=self.session)


def _place(context: Context, node: DataNode, arguments: Arguments, bypass: bool) -> _Place | None:
    """Return the collection to write to, or None if the general path is needed. `bypass`: skip the validator.

    Errors: those of the session and of the write concern, StaleConfig.
    """
    store = node.store
    if store.write_lock.held or "let" in arguments:
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
    if validator is not None and current() is not None:
        # Its evaluation has taken long, or may.
        return None
    return _Place(node, collection, owned, row, stmt_id, concern, validator) if at_once else None


def insert_one(context: Context, node: DataNode, arguments: Arguments, documents: list[bytes]) -> Reply | None:
    """Insert a document that needs no preparation (`is_storable`)."""
    raw = documents[0]
    if len(documents) > 1 or len(raw) > MAX_DOCUMENT_BYTES or not is_storable(raw):
        return None
    place = _place(context, node, arguments, arguments["bypassDocumentValidation"])
    if place is None or keys_take_long(place.collection, raw):
        return None
    unit = place.unit()
    try:
        if place.validator is not None:
            place.validator.check_new(raw)
        unit.insert(place.collection, raw, stmt_id=place.stmt_id)
        last = unit.commit()
    except ScriptsWanted:
        unit.abort()
        raise
    except CommandError as error:
        return _refused(context, place, unit, error)
    return acknowledge_counts(context, place.concern, 1, None, last)


def update_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """Execute one statement over one document, or over as many as one unit may change."""
    if len(statements) > 1 or len(statements[0]) > LARGE_BYTES or is_profiled(context):
        return None
    given = elements(statements[0])
    if len(given) < 2 or given[0][:2] != ("q", OBJECT) or given[1][0] != "u":
        return None
    options, filters = _filters_apart(given[2:])
    upsert, many = _UPSERT in options, _MANY in options
    allowed = _MANY_OPTIONS if many else _UPSERT_OPTIONS if upsert else _SINGLE_OPTIONS
    if (options != _USUAL_OPTIONS and not allowed.issuperset(options)) or (many and node.shard_filter is not None):
        return None
    update = None if filters is None else plain_modification(node, given[0][2], given[1][1:], filters, upsert=upsert)
    place = None
    if update is not None:
        place = _place(context, node, arguments, arguments["bypassDocumentValidation"])
    if update is None or place is None or not _may_change(context, place, update):
        return None
    if many:
        return _update_many(context, place, update, place.search_many(arguments, given[0][2]))
    found = place.search(arguments, given[0][2])
    if found is None:
        return None
    if upsert and found is NOTHING:
        return _upsert(context, place, given[0][2], update)
    if found is NOTHING:
        return acknowledge_counts(context, place.concern, 0, 0, None)
    record_id, before = found
    if takes_long(place.collection, [found], update):
        return None
    unit = place.unit()
    last = None
    try:
        after = update.apply(before)
        if after != before:
            if place.validator is not None:
                place.validator.check_change(before, after)
            unit.replace(
                place.collection, record_id, before, after,
                stmt_id=place.stmt_id, changed=update.just_changed, paths=update.paths,
            )  # fmt: skip
            last = unit.commit()
        else:
            unit.abort()
    except ScriptsWanted:
        unit.abort()
        raise
    except CommandError as error:
        return _refused(context, place, unit, error, modified=0)
    return acknowledge_counts(context, place.concern, 1, int(update.counts(before, after)), last)


def _update_many(context: Context, place: _Place, update: Modification, found: list[Match] | None) -> Reply | None:
    """Update the documents together; None if they must be updated one at a time."""
    collection = place.collection
    if found is None or place.validator is not None or update.update.is_replacement:
        return None
    if takes_long(collection, found, update):
        return None
    unit = place.unit()
    last = None
    try:
        modified = change_each(unit, collection, update, found) if found else []
        if modified is None:
            unit.abort()
            return None
        if modified:
            last = unit.commit()
        else:
            unit.abort()
    except CommandError as error:
        return _refused(context, place, unit, error, modified=0)
    return acknowledge_counts(context, place.concern, len(found), len(modified), last)


def _filters_apart(
    options: list[tuple[str, int, bytes]],
) -> tuple[list[tuple[str, int, bytes]], tuple[bytes, ...] | None]:
    """Return (the statement's other fields, its array filters); the filters are None if invalid."""
    for place, (name, code, data) in enumerate(options):
        if name == "arrayFilters":
            filters = values(data) if code == ARRAY else None
            if filters is None or any(each[0] != OBJECT for each in filters):
                return options, None
            return options[:place] + options[place + 1 :], tuple([each[1] for each in filters])
    return options, ()


def _refused(
    context: Context, place: _Place, unit: WriteUnitOfWork | None, error: CommandError, modified: int | None = None
) -> Reply | None:
    """Return the reply to an error after aborting the unit; None for a conflict, which the general path handles."""
    if unit is not None:
        unit.abort()
    if isinstance(error, WriteConflict):
        return None
    outcome = Outcome(modified=modified)
    outcome.fail(0, error)
    return acknowledge(context, outcome, place.concern)


def _upsert(context: Context, place: _Place, filter_: bytes, update: Modification) -> Reply | None:
    """Insert the document that an update makes from a filter without a match."""
    if post_images_of(place.node.shard_filter, context.namespace, context.shard_version) is not None:
        return None
    outcome = Outcome(modified=0)
    unit = None
    try:
        made = update.upsert_seeded(filter_)
        if made is None:
            tree = identity_filter(filter_)
            if tree is None:
                tree = parse_filter(filter_)
            made = Modification(place.node, tree, update.update).upsert()
        identity = get_field(made, "_id")
        if identity is None or keys_take_long(place.collection, made):
            return None
        if place.validator is not None:
            place.validator.check_new(made)
        unit = place.unit()
        unit.insert(place.collection, made, stmt_id=place.stmt_id)
        outcome.last = unit.commit()
        outcome.n = 1
        outcome.upserted.append((0, identity))
    except CommandError as error:
        return _refused(context, place, unit, error, modified=0)
    return acknowledge(context, outcome, place.concern)


def delete_one(context: Context, node: DataNode, arguments: Arguments, statements: list[bytes]) -> Reply | None:
    """Delete one document."""
    if len(statements) > 1 or len(statements[0]) > LARGE_BYTES or is_profiled(context):
        return None
    given = elements(statements[0])
    if len(given) != 2 or given[0][:2] != ("q", OBJECT) or given[1] != _ONE:
        return None
    place = _place(context, node, arguments, True)
    found = None if place is None else place.search(arguments, given[0][2])
    if place is None or found is None:
        return None
    if found is NOTHING:
        return acknowledge_counts(context, place.concern, 0, None, None)
    if takes_long(place.collection, [found]):
        return None
    unit = place.unit()
    try:
        unit.remove(place.collection, *found, stmt_id=place.stmt_id)
        last = unit.commit()
    except CommandError as error:
        return _refused(context, place, unit, error)
    return acknowledge_counts(context, place.concern, 1, None, last)


def find_and_modify_one(context: Context, node: DataNode, arguments: Arguments) -> Reply | None:
    """Update or remove one document, and return it."""
    given = arguments.given()
    if not given.keys() <= _OF_FIND_AND_MODIFY or len(context.raw) > LARGE_BYTES or is_profiled(context):
        return None
    removes, new = given.get("remove", False), given.get("new", False)
    code, specification = given.get("update", _NO_UPDATE)
    if removes:
        # The general path rejects contradictions.
        update = None
        if new or "update" in given or "arrayFilters" in given or given.get("upsert", False):
            return None
    else:
        query, filters = given.get("query", EMPTY_DOCUMENT), tuple(given.get("arrayFilters", ()))
        upsert = given.get("upsert", False)
        collated = "collation" in given
        update = plain_modification(node, query, (code, specification), filters, upsert=upsert, collated=collated)
        if update is None:
            return None
    projection = plain_projection(given["fields"]) if "fields" in given else None
    if projection is None and "fields" in given:
        return None
    place = _place(context, node, arguments, False)
    if place is None or (update is not None and not _may_change(context, place, update)):
        return None
    query, sort = given.get("query", EMPTY_DOCUMENT), given.get("sort", EMPTY_DOCUMENT)
    found = place.search(arguments, query, sort, given.get("collation"))
    if found is None or (found is NOTHING and given.get("upsert", False)):
        return None
    if found is NOTHING:
        return _returned(context, place, FindAndModifyResult(0, None if removes else False, None), None, None)
    record_id, before = found
    if takes_long(place.collection, [found], update):
        return None
    after = None if update is None else update.apply(before)
    last, stmt_id = None, place.stmt_id
    if after != before:
        unit = place.unit()
        try:
            if update is None or after is None:
                unit.remove(place.collection, record_id, before, stmt_id=stmt_id, image=Image("preImage", before))
            else:
                if place.validator is not None:
                    place.validator.check_change(before, after)
                image = Image("postImage", after) if new else Image("preImage", before)
                unit.replace(
                    place.collection, record_id, before, after,
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
    return _returned(context, place, result, projection, last)


def _may_change(context: Context, place: _Place, update: Modification) -> bool:
    """Return True if the update cannot move a document to another shard."""
    rules = post_images_of(place.node.shard_filter, context.namespace, context.shard_version)
    return rules is None or not rules.concerned(update.changed)


def _returned(
    context: Context,
    place: _Place,
    result: FindAndModifyResult,
    projection: Projection | None,
    last: OpTime | None,
) -> Reply:
    fields = answer_fields(result, projection)
    concern = place.concern
    if not concern.j and concern.w in (0, 1):
        return document_from(fields)
    return acknowledged_fields(context, fields, last, concern)
