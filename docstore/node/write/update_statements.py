"""Parsing of the `updates` of an update command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from docstore.bson import Value
from docstore.bson.walk import OBJECT
from docstore.commands.arguments import declared, parse_fields, unknown_field
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.options import COLLATION
from docstore.errors import Code, CommandError
from docstore.kernel.write.statements import update_statements
from docstore.node.read.requests import hint_of
from docstore.node.write.modification import check_form

_FIELDS = declared(
    Parameter("q", Type.OBJECT, required=True),
    Parameter("u", Type.ANY, required=True),
    Parameter("c", Type.OBJECT),
    Parameter("multi", Type.BOOL, default=False),
    Parameter("upsert", Type.BOOL, default=False),
    Parameter("hint", Type.ANY),
    Parameter("arrayFilters", Type.DOCUMENTS, default=()),
    COLLATION,
    Parameter("sort", Type.OBJECT),
)


_PLAIN_REST = (None, (), None, None, None)
_NO_LANGUAGE = (None, None, None)


class UpdateStatement(NamedTuple):
    """One element of `updates`: `filter` is raw, `update` a document or an array of pipeline stages.

    `sort` selects the document of a single-document statement; multi-document statements have none.
    """

    filter: bytes
    update: Value
    multi: bool = False
    upsert: bool = False
    hint: Value | None = None
    array_filters: tuple[bytes, ...] = ()
    constants: bytes | None = None
    collation: bytes | None = None
    sort: bytes | None = None

    @property
    def is_plain(self) -> bool:
        """True if the statement consists of a filter and an update document, and `multi` and `upsert` at most."""
        return self[4:] == _PLAIN_REST and self.update[0] == OBJECT

    @property
    def is_plainly_said(self) -> bool:
        """True if the statement has no `c`, collation or sort."""
        return self[6:] == _NO_LANGUAGE


def update_statements_of(raws: list[bytes]) -> list[UpdateStatement]:
    """Parse the elements of `updates`. Errors: those of `update_statement`."""
    return update_statements(raws, UpdateStatement, update_statement)


def update_statement(raw: bytes) -> UpdateStatement:
    """Parse one element of `updates`.

    Errors: Location40414, Location40415, TypeMismatch, FailedToParse for a sort with `multi`, those of `check_form`.
    """
    fields = parse_fields("update.updates", raw, _FIELDS)
    check_form(fields["u"])
    hint_of(fields["hint"])
    if fields["multi"] and fields["sort"] is not None:
        raise CommandError(Code.FailedToParse, "Cannot specify sort with multi=true")
    return UpdateStatement(
        filter=fields["q"],
        update=fields["u"],
        multi=fields["multi"],
        upsert=fields["upsert"],
        hint=fields["hint"],
        array_filters=tuple(fields["arrayFilters"]),
        constants=fields["c"],
        collation=fields["collation"],
        sort=fields["sort"],
    )


def check_sorts(context: Context, statements: Iterable[UpdateStatement]) -> None:
    """Reject `sort` (Location40415) if the process presents itself as a server version without it."""
    if not context.services.switches.face.has_bulk_write and any(
        statement.sort is not None for statement in statements
    ):
        raise unknown_field("update.updates", "sort")
