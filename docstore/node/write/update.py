"""Update statements: update one document or all that match; upsert if none does.

A document that the update leaves unchanged counts as matched, not as modified, and is not written. If a multi-document
statement fails midway, the documents before the error stay changed, as in MongoDB.
"""

from __future__ import annotations

from docstore.aggregation.expression_context import with_constants
from docstore.bson import get_field
from docstore.bson.walk import ARRAY
from docstore.collection.collection import Collection
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.kernel.match.predicate import Predicate
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.read.requests import hint_of, sort_of
from docstore.node.write.evaluated import Overtaken, evaluated
from docstore.node.write.identity import Match, identity_in, identity_of
from docstore.node.write.modification import (
    Modification,
    change_each,
    direct_modification,
    plain_modification,
    takes_long,
    update_of,
)
from docstore.node.write.search import Search
from docstore.node.write.searching_work import SearchingWork
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, WriteTarget, entry_operation
from docstore.node.write.update_statements import UpdateStatement
from docstore.node.write.validators import Validator
from docstore.query.filter.parse import parse_filter
from docstore.query.scripts import ScriptsWanted
from docstore.query.sort import UNSORTED
from docstore.query.update.upsert import refuse_expressions
from docstore.sharding.post_images import PostImages


class UpdateWork(SearchingWork):
    """One statement of an update command."""

    def __init__(self, target: WriteTarget, index: int, statement: UpdateStatement) -> None:
        super().__init__(target)
        self._index = index
        self._statement = statement
        self._stmt_id = target.statement_id(index)
        self._modification: Modification | None = None
        self._sort = UNSORTED
        self._changed = False
        self._matched = 0
        self._modified = 0
        if statement.multi and self._stmt_id is not None:
            raise CommandError(Code.InvalidOptions, "Cannot use retryable writes with multi=true")

    def step(self, owned: Predicate | None, until: float) -> bool:
        self._evaluated = self._evaluated or evaluated()
        if not self._advance(owned, until):
            return False
        # A failed statement does not report the documents that it changed before the error.
        self._count()
        return True

    def _count(self) -> None:
        outcome = self._target.outcome
        assert outcome.modified is not None, "updates report what they modified"
        outcome.n += self._matched
        outcome.modified += self._modified

    def _advance(self, owned: Predicate | None, until: float) -> bool:
        target = self._target
        # Another attempt of the statement may have been executed while this one waited.
        if self._retried():
            return True
        if self._modification is None:
            if self._done_at_once(owned):
                return True
            self._modification = self._direct() or self._parsed_aside()
        collection = target.collection()
        search = None if collection is None else self._searched(collection)
        if collection is None or search is None:
            return self._begin(collection, self._modification, owned, until)
        return self._continue(collection, self._modification, search, owned, until)

    def _done_at_once(self, owned: Predicate | None) -> bool:
        """Update the matches of a prepared scan, if there is one.

        Return False, with nothing done, for the general path. Errors: WriteConflict.
        """
        statement, target = self._statement, self._target
        if self._evaluated is not None or statement.hint is not None:
            return False
        if statement.constants is not None or statement.sort is not None:
            return False
        if not target.is_plain(statement.multi):
            return False
        if identity_in(statement.filter) is not None:
            # These are looked up by `_id`, not scanned.
            return False
        collated = statement.collation is not None or target.collation is not None
        update = plain_modification(
            target.node, statement.filter, statement.update, statement.array_filters,
            upsert=statement.upsert, collated=collated,
        )  # fmt: skip
        if update is None or (statement.multi and update.update.is_replacement):
            return False
        collection, matches = target.matches_at_once(
            statement.filter, owned, multi=statement.multi, collation=statement.collation
        )
        rules = target.post_images()
        if collection is None or matches is None or (rules is not None and rules.concerned(update.changed)):
            return False
        if matches:
            self._change(collection, update, matches, joined=True)
        elif statement.upsert:
            tree = parse_filter(statement.filter)
            self._upsert(collection, Modification(target.node, tree, update.update), joined=True)
        return True

    def _direct(self) -> Modification | None:
        """Return the modification of a simple or prepared update, skipping the general parser.

        None if it needs that.
        """
        statement, target = self._statement, self._target
        if target.let is not None or not statement.is_plainly_said:
            return None
        return direct_modification(
            target.node, statement.filter, statement.update, statement.array_filters, target.collation,
            offloaded=self._evaluated is not None,
        )  # fmt: skip

    def _parsed_aside(self) -> Modification:
        """Return `_parsed`, offloaded if the statement is. Errors: Overtaken, with the result cached."""
        scripted = self._evaluated
        if scripted is None:
            return self._parsed()
        scripted.begin()
        self._modification = scripted.aside(self._parsed)
        scripted.check()
        return self._modification

    def _parsed(self) -> Modification:
        statement, target = self._statement, self._target
        query_context = target.query_context(statement.collation)
        if statement.constants is not None:
            if statement.update[0] != ARRAY:
                raise CommandError(51198, "Constant values may only be specified for pipeline updates")
            query_context = with_constants(query_context, statement.constants)
        update = update_of(statement.update, statement.array_filters, query_context)
        if statement.multi and update.is_replacement:
            raise CommandError(Code.FailedToParse, "multi update is not supported for replacement-style update")
        tree = parse_filter(statement.filter, query_context=query_context)
        if statement.upsert:
            refuse_expressions(tree)
        self._sort = sort_of(statement.sort, query_context, tree)
        return Modification(target.node, tree, update)

    def cut_short(self, error: CommandError) -> CommandError:
        if not self._changed:
            return error
        self._count()
        return CommandError(
            Code.OperationFailed, f"an update of many documents was cut short; some are updated: {error.message}"
        )

    def _begin(
        self, collection: Collection | None, modification: Modification, owned: Predicate | None, until: float
    ) -> bool:
        self._close_search()
        if collection is None:
            self._target.read_past()
            if self._statement.upsert and not self._changed:
                self._upsert(make_collection(self._target.node.store, self._target.namespace), modification)
            return True
        identity = identity_of(modification.tree, collection.collation)
        if identity is not None and self._statement.hint is None and self._target.within is None:
            match = self._target.look_up(collection, identity, owned)
            if match is not None:
                self._change(collection, modification, [match], joined=True)
            elif self._statement.upsert:
                self._upsert(collection, modification, joined=True)
            return True
        self._target.read_past()
        multi, hint = self._statement.multi, hint_of(self._statement.hint)
        search = self._begin_search(collection, modification.tree, multi=multi, hint=hint, sort=self._sort)
        return self._continue(collection, modification, search, owned, until)

    def _continue(
        self,
        collection: Collection,
        modification: Modification,
        search: Search,
        owned: Predicate | None,
        until: float,
    ) -> bool:
        limit = UNIT_DOCUMENTS if self._statement.multi and len(self._statement.update[1]) <= LARGE_BYTES else 1
        matches = self._found(search, limit, owned, until)
        if matches:
            try:
                self._change(collection, modification, matches)
            except (Overtaken, ScriptsWanted, WriteConflict):
                search.give_back(matches)
                raise
            self._changed = True
            return not self._statement.multi or search.exhausted
        if search.exhausted and not self._changed and self._statement.upsert:
            self._upsert(collection, modification)
        return search.exhausted

    def _change(
        self, collection: Collection, modification: Modification, matches: list[Match], *, joined: bool = False
    ) -> None:
        """Update documents in one unit, shared with other statements if `joined`.

        After an error the documents before it stay changed. Errors: Overtaken.
        """
        scripted = self._evaluated
        if scripted is None and takes_long(collection, matches, modification):
            self._target.go_apart()
        validator = self._target.validator(collection)
        rules = self._target.post_images()
        if rules is not None and not rules.concerned(modification.changed):
            rules = None
        size = sum([len(before) for _, before in matches]) if joined else 0
        unit = self._target.joined(collection, size) if joined else self._target.unit()
        failure: CommandError | None = None
        if scripted is not None:
            scripted.begin()
        try:
            plain = scripted is None and validator is None and rules is None
            modified = self._change_each(unit, collection, modification, matches) if plain else None
            if modified is None:
                modified, failure = self._change_in_turn(unit, collection, modification, matches, validator, rules)
            if scripted is not None:
                scripted.check()
        except BaseException:
            unit.abort()
            raise
        if modified:
            self._target.commit(unit)
        else:
            self._target.drop(unit)
        if scripted is not None:
            scripted.committed()
        if failure is not None:
            raise failure
        self._matched += self._target.counted([before for _, before in matches])
        self._modified += modified

    def _change_in_turn(
        self,
        unit: WriteUnitOfWork,
        collection: Collection,
        modification: Modification,
        matches: list[Match],
        validator: Validator | None,
        rules: PostImages | None,
    ) -> tuple[int, CommandError | None]:
        """Return (documents modified, the error that ended the loop). Errors: WriteConflict, Overtaken."""
        scripted, changed, paths = self._evaluated, modification.changed, modification.paths
        modified = 0
        for record_id, before in matches:
            try:
                after = modification.apply(before) if scripted is None else scripted.apply(modification, before)
                if after != before:
                    if validator is not None and scripted is None:
                        validator.check_change(before, after)
                    elif validator is not None and scripted is not None:
                        scripted.check_valid(validator, before, after)
                    if rules is not None:
                        rules.check_change(
                            before, after, modification.tree, multi=self._statement.multi,
                            in_session=self._target.in_session,
                        )  # fmt: skip
                    index_keys = None if scripted is None else scripted.keys(collection, (before, after), changed)
                    unit.replace(
                        collection, record_id, before, after,
                        stmt_id=self._stmt_id, changed=changed, paths=paths, index_keys=index_keys,
                    )  # fmt: skip
                modified += modification.counts(before, after) and self._target.counted((before,))
            except WriteConflict:
                raise
            except CommandError as error:
                return modified, error
        return modified, None

    def _change_each(
        self, unit: WriteUnitOfWork, collection: Collection, modification: Modification, matches: list[Match]
    ) -> int | None:
        """Update all matches in one batch; return the number modified.

        None, with nothing done, if they must be updated one at a time.
        """
        if self._stmt_id is not None or len(matches) == 1:
            return None
        modified = change_each(unit, collection, modification, matches)
        return None if modified is None else self._target.counted(modified)

    def _upsert(self, collection: Collection, modification: Modification, *, joined: bool = False) -> None:
        scripted, validator = self._evaluated, self._target.validator(collection)
        document, index_keys = (
            (modification.upsert(), None) if scripted is None else scripted.upsert(modification, collection, validator)
        )
        self._target.check_new(document)
        if validator is not None and scripted is None:
            validator.check_new(document)
        unit = self._target.joined(collection, len(document)) if joined else self._target.unit()
        try:
            unit.insert(collection, document, stmt_id=self._stmt_id, index_keys=index_keys)
        except BaseException:
            unit.abort()
            raise
        self._target.commit(unit)
        self._count_upserted(document)

    def _count_upserted(self, made: bytes) -> None:
        identity = get_field(made, "_id")
        assert identity is not None, "a stored document has an _id"
        self._target.outcome.n += 1
        self._target.outcome.upserted.append((self._index, identity))

    def _retried(self) -> bool:
        """Return True if the statement was executed before; its result is counted again from its oplog entry."""
        optime = self._target.executed(self._stmt_id)
        if optime is None or self._stmt_id is None:
            return False
        outcome = self._target.outcome
        entry = self._target.entry(optime)
        outcome.retried.append(self._stmt_id)
        if entry_operation(entry) == "i":
            document = get_field(entry, "o")
            assert document is not None, "an oplog entry without o"
            self._count_upserted(document[1])
        else:
            outcome.n += 1
            assert outcome.modified is not None, "updates report what they modified"
            outcome.modified += 1
        return True
