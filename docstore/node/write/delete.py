"""Delete statements: delete one document, or all that match."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from docstore.bson import Value, elements
from docstore.bson.walk import INT32, OBJECT
from docstore.collection.collection import Collection
from docstore.collection.transaction.claims import WriteConflict
from docstore.commands.arguments import declared, parse_fields
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.options import COLLATION
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.read.requests import hint_of
from docstore.node.write.evaluated import Overtaken, evaluated
from docstore.node.write.identity import Match, identity_filter, identity_of
from docstore.node.write.modification import takes_long
from docstore.node.write.searching_work import SearchingWork
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, WriteTarget
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.query.value.values import NUMBERS, number_of

_FIELDS = declared(
    Parameter("q", Type.OBJECT, required=True),
    Parameter("limit", Type.ANY, required=True),
    Parameter("hint", Type.HINT),
    COLLATION,
)


_LIMITS = (("limit", INT32, b"\0\0\0\0"), ("limit", INT32, b"\1\0\0\0"))


class DeleteStatement(NamedTuple):
    """One element of `deletes`; `filter` is raw."""

    filter: bytes
    multi: bool
    hint: Value | None = None
    collation: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """True if the statement has no hint and no collation."""
        return self.hint is None and self.collation is None


def delete_statement(raw: bytes) -> DeleteStatement:
    """Parse one element of `deletes`.

    Errors: Location40414, Location40415, TypeMismatch, FailedToParse for the limit.
    """
    raw_fields = elements(raw)
    if len(raw_fields) == 2 and raw_fields[0][:2] == ("q", OBJECT) and raw_fields[1] in _LIMITS:
        # Most drivers send this form: skip the general parser.
        return DeleteStatement(raw_fields[0][2], raw_fields[1] == _LIMITS[0])
    fields = parse_fields("delete.deletes", raw, _FIELDS)
    limit = _number_or_nothing(fields["limit"])
    if limit not in (0, 1):
        raise CommandError(Code.FailedToParse, f"The limit field in delete objects must be 0 or 1. Got {limit}")
    return DeleteStatement(filter=fields["q"], multi=limit == 0, hint=fields["hint"], collation=fields["collation"])


def _number_or_nothing(value: Value) -> float:
    return number_of(value) if value[0] in NUMBERS else 0


class DeleteWork(SearchingWork):
    """One statement of a delete command.

    If it is cut short, deleting the rest again is harmless: the router may simply send it again.
    """

    def __init__(self, target: WriteTarget, index: int, statement: DeleteStatement) -> None:
        super().__init__(target)
        self._statement = statement
        self._stmt_id = target.statement_id(index)
        self._tree: Filter | None = None
        if statement.multi and self._stmt_id is not None:
            raise CommandError(Code.InvalidOptions, "Cannot use retryable writes with limit=0")

    def step(self, owned: Predicate | None, until: float) -> bool:
        target = self._target
        self._evaluated = self._evaluated or evaluated()
        # Another attempt of the statement may have been executed while this one waited.
        if self._retried():
            return True
        if self._tree is None:
            if self._done_at_once(owned):
                return True
            self._tree = self._parsed()
        collection = target.collection()
        if collection is None:
            return True
        search = self._searched(collection)
        if search is None:
            identity = identity_of(self._tree, collection.collation)
            if identity is not None and self._statement.hint is None and target.within is None:
                match = target.look_up(collection, identity, owned)
                if match is not None:
                    self._remove(collection, [match], joined=True)
                return True
            target.read_past()
            hint = hint_of(self._statement.hint)
            search = self._begin_search(collection, self._tree, multi=self._statement.multi, hint=hint)
        matches = self._found(search, UNIT_DOCUMENTS if self._statement.multi else 1, owned, until)
        if matches:
            try:
                self._remove(collection, matches)
            except (Overtaken, WriteConflict):
                search.give_back(matches)
                raise
            return not self._statement.multi or search.exhausted
        return search.exhausted

    def _done_at_once(self, owned: Predicate | None) -> bool:
        """Delete the matches of a prepared scan, if there is one.

        Return False, with nothing done, for the general path. Errors: WriteConflict.
        """
        statement, target = self._statement, self._target
        if self._evaluated is not None or statement.hint is not None or not target.is_plain(statement.multi):
            return False
        collection, matches = target.matches_at_once(
            statement.filter, owned, multi=statement.multi, collation=statement.collation
        )
        if collection is None or matches is None:
            return False
        if matches:
            self._remove(collection, matches, joined=True)
        return True

    def _retried(self) -> bool:
        if self._stmt_id is None or self._target.executed(self._stmt_id) is None:
            return False
        self._target.outcome.retried.append(self._stmt_id)
        self._target.outcome.n += 1
        return True

    def _parsed(self) -> Filter:
        """Return the filter. Errors: Overtaken, with the result cached."""
        statement, target, evaluation = self._statement, self._target, self._evaluated
        if target.let is None and statement.collation is None:
            tree = identity_filter(statement.filter, target.collation)
            if tree is not None:
                return tree
        parse = partial(parse_filter, statement.filter, query_context=target.query_context(statement.collation))
        if evaluation is None:
            return parse()
        evaluation.begin()
        self._tree = evaluation.aside(parse)
        evaluation.check()
        return self._tree

    def _remove(self, collection: Collection, matches: list[Match], *, joined: bool = False) -> None:
        evaluation = self._evaluated
        if evaluation is not None:
            evaluation.begin()
        elif takes_long(collection, matches):
            self._target.go_apart()
        size = sum([len(before) for _, before in matches]) if joined else 0
        unit = self._target.joined(collection, size) if joined else self._target.unit()
        try:
            is_batch = evaluation is None and self._stmt_id is None and len(matches) > 1
            if not is_batch or not unit.remove_each(collection, matches):
                for record_id, before in matches:
                    index_keys = None if evaluation is None else evaluation.keys(collection, (before,))
                    unit.remove(collection, record_id, before, stmt_id=self._stmt_id, index_keys=index_keys)
        except BaseException:
            unit.abort()
            raise
        self._target.commit(unit)
        if evaluation is not None:
            evaluation.committed()
        self._target.outcome.n += self._target.counted([before for _, before in matches])
