"""The statements of a delete: one document each, or all that match."""

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
from docstore.node.shard_filter import Hold
from docstore.node.write.evaluated import Overtaken, evaluated
from docstore.node.write.search import Match, Search, identity_filter, identity_of, open_search
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, WriteTarget
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter

_FIELDS = declared(
    Parameter("q", Type.OBJECT, required=True),
    Parameter("limit", Type.INT, required=True),
    Parameter("hint", Type.ANY),
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
        """Whether there is nothing but a filter."""
        return self.hint is None and self.collation is None


def delete_statement(raw: bytes) -> DeleteStatement:
    """One element of `deletes`. Errors: Location40414, Location40415, TypeMismatch, FailedToParse for the limit."""
    given = elements(raw)
    if len(given) == 2 and given[0][:2] == ("q", OBJECT) and given[1] in _LIMITS:
        # What drivers send for most deletes, without the cost of the general way.
        return DeleteStatement(given[0][2], given[1] == _LIMITS[0])
    fields = parse_fields("delete.deletes", raw, _FIELDS)
    limit = fields["limit"]
    if limit not in (0, 1):
        raise CommandError(Code.FailedToParse, f"The limit field in delete objects must be 0 or 1. Got {limit}")
    return DeleteStatement(filter=fields["q"], multi=limit == 0, hint=fields["hint"], collation=fields["collation"])


class DeleteWork:
    """One statement of a delete command."""

    statements = 1

    def __init__(self, target: WriteTarget, index: int, statement: DeleteStatement) -> None:
        self._target = target
        self._statement = statement
        self._stmt_id = target.statement_id(index)
        self._tree: Filter | None = None
        self._search: Search | None = None
        self._collection: Collection | None = None
        self._hold: Hold | None = None
        self._evaluated = evaluated()
        if statement.multi and self._stmt_id is not None:
            raise CommandError(Code.InvalidOptions, "Cannot use retryable writes with limit=0")

    def step(self, owned: Predicate | None, until: float) -> bool:
        target = self._target
        self._evaluated = self._evaluated or evaluated()
        # While this one waited another try of it may have been carried out.
        if self._retried():
            return True
        if self._tree is None:
            if self._done_at_once(owned):
                return True
            self._tree = self._parsed()
        collection = target.collection()
        if collection is None:
            return True
        if self._search is None or collection is not self._collection:
            identity = identity_of(self._tree, collection.collation)
            if identity is not None and self._statement.hint is None and target.within is None:
                found = target.look_up(collection, identity, owned)
                if found is not None:
                    self._remove(collection, [found], joined=True)
                return True
            target.read_past()
            self._close_search()
            self._hold = self._hold or target.hold(self._tree, multi=self._statement.multi)
            self._collection = collection
            self._search = open_search(
                target.node,
                collection,
                self._tree,
                hint=hint_of(self._statement.hint),
                once=not self._statement.multi,
                apart=self._evaluated,
                execution=target.execution,
            )
        wanted = UNIT_DOCUMENTS if self._statement.multi else 1
        matches = self._search.take_apart(
            self._evaluated, wanted, owned if self._hold is None else self._hold.owned, until
        )
        if self._evaluated is not None:
            self._search.pause()
        if matches:
            try:
                self._remove(collection, matches)
            except (Overtaken, WriteConflict):
                self._search.give_back(matches)
                raise
            return not self._statement.multi or self._search.exhausted
        return self._search.exhausted

    def _done_at_once(self, owned: Predicate | None) -> bool:
        """Delete what a prepared scan leads to, if there is one; False, with nothing done, for what is left to the
        general way. Errors: WriteConflict.
        """
        statement, target = self._statement, self._target
        if self._evaluated is not None or not statement.is_plain or not target.is_plain(statement.multi):
            return False
        collection, matches = target.matches_at_once(statement.filter, owned, multi=statement.multi)
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
        """The filter. Errors: Overtaken, when it is kept."""
        statement, target, apart = self._statement, self._target, self._evaluated
        if target.let is None and statement.collation is None:
            found = identity_filter(statement.filter, target.collation)
            if found is not None:
                return found
        parse = partial(parse_filter, statement.filter, query_context=target.query_context(statement.collation))
        if apart is None:
            return parse()
        apart.begin()
        self._tree = apart.aside(parse)
        apart.check()
        return self._tree

    def outlives(self) -> bool:
        return self._hold is not None and self._hold.kept()

    def pause(self) -> None:
        if self._search is not None:
            self._search.pause()

    def close(self) -> None:
        self._close_search()
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def _close_search(self) -> None:
        if self._search is not None:
            self._search.close()
            self._search = None

    def cut_short(self, error: CommandError) -> CommandError:
        """Deleting again what is left is harmless, so the router may simply send the statement again."""
        return error

    def _remove(self, collection: Collection, matches: list[Match], *, joined: bool = False) -> None:
        apart = self._evaluated
        if apart is not None:
            apart.begin()
        elif collection.secondary:
            self._target.go_apart(matches)
        size = sum([len(before) for _, before in matches]) if joined else 0
        unit = self._target.joined(collection, size) if joined else self._target.unit()
        try:
            many = apart is None and self._stmt_id is None and len(matches) > 1
            if not many or not unit.remove_each(collection, matches):
                for record_id, before in matches:
                    ahead = None if apart is None else apart.keys(collection, (before,))
                    unit.remove(collection, record_id, before, stmt_id=self._stmt_id, ahead=ahead)
        except BaseException:
            unit.abort()
            raise
        self._target.commit(unit)
        if apart is not None:
            apart.committed()
        self._target.outcome.n += self._target.counted([before for _, before in matches])
