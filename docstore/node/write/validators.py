"""Collection validators: a filter that documents must match to be inserted or updated.

A validator must depend on the document alone: no `$text`, `$near`, JavaScript or random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from bson.raw_bson import RawBSONDocument

from docstore.aggregation.expression_context import new_context
from docstore.bson import ARRAY, OBJECT, elements, get_field, to_python, values
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.js.script_thread import current
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.read.requests import query_context_at
from docstore.query.context import QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.pausing import OVERTAKEN, PAUSED, REFUSED, allowing
from docstore.query.schema.validator_details import failure_details

_GEO_NEAR = "$geoNear, $near, and $nearSphere are not allowed in this context"
_RANDOM = "$rand not allowed inside collection validators"
_REFUSED: Mapping[str, tuple[int, str]] = {
    "$where": (Code.BadValue, "$where is not allowed in this context"),
    "$text": (Code.BadValue, "$text is not allowed in this context"),
    "$near": (5626500, _GEO_NEAR),
    "$nearSphere": (5626500, _GEO_NEAR),
    "$geoNear": (5626500, _GEO_NEAR),
    "$sampleRate": (3040500, _RANDOM),
}
_VARIABLE = b"$$"
"""Prefix of variables; a validator without it has a meaning that does not change with time."""
_REFUSED_EXPRESSIONS: Mapping[str, tuple[int, str]] = {
    "$rand": (3040500, _RANDOM),
    "$function": (4660800, "$function cannot be used inside a validator."),
}


def check_validator(node: DataNode, raw: bytes) -> None:
    """Check that a filter can be a validator. Errors: those of the filter language, BadValue, Location5626500."""
    allowing(PAUSED, _check_names, raw, _REFUSED)
    parse_filter(raw, query_context=replace(query_context_at(node, None), scripts=None))


def _check_names(raw: bytes, refused: Mapping[str, tuple[int, str]]) -> None:
    for name, code, data in elements(raw):
        refusal = refused.get(name)
        if refusal is not None:
            raise CommandError(*refusal)
        _check_value(code, data, _REFUSED_EXPRESSIONS if name == "$expr" else refused)


def _check_value(code: int, data: bytes, refused: Mapping[str, tuple[int, str]]) -> None:
    if code == OBJECT:
        _check_names(data, refused)
    elif code == ARRAY:
        for item_code, item in values(data):
            _check_value(item_code, item, refused)


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled validator.

    `moderate`: updates of documents that did not match before are exempt. `warns`: violations are admitted.

    Its evaluation may take long. On the event loop it may raise ScriptsWanted, after which the write continues on a
    thread. There it yields to other tasks only where its caller allows that (`OVERTAKEN`).
    """

    raw: bytes
    predicate: Predicate
    query_context: QueryContext
    moderate: bool
    warns: bool

    def allows_all(self, documents: Iterable[bytes]) -> bool:
        """Return True if the documents may be inserted."""
        return self.warns or allowing(_level(), lambda: all(map(self.predicate.matches, documents)))

    def check_new(self, raw: bytes) -> None:
        """Check a document to insert. Errors: DocumentValidationFailure."""
        self.check(None, raw)

    def check_change(self, before: bytes, after: bytes) -> None:
        """Check an update by its pre-image and post-image. Errors: DocumentValidationFailure."""
        self.check(before, after)

    def check(self, before: bytes | None, after: bytes) -> None:
        """Check an update, or without `before` an insertion. Errors: DocumentValidationFailure."""
        if not self.warns:
            allowing(_level(), self._checked, before, after)

    def _checked(self, before: bytes | None, after: bytes) -> None:
        matches = self.predicate.matches
        if not matches(after) and (before is None or not self.moderate or matches(before)):
            raise self._failure(after)

    def _failure(self, raw: bytes) -> CommandError:
        identity = get_field(raw, "_id")
        assert identity is not None, "a document to be stored has an _id"
        info = {
            "failingDocumentId": to_python(identity),
            "details": RawBSONDocument(failure_details(self.raw, raw, self.query_context)),
        }
        return CommandError(Code.DocumentValidationFailure, "Document failed validation", extra={"errInfo": info})


def _level() -> int:
    return OVERTAKEN if current() is None else REFUSED


def validator_of(node: DataNode, collection: Collection, *, bypass: bool = False) -> Validator | None:
    """Return the validator of the collection; None if it has none, its level is "off", or the client bypasses it."""
    options = collection.options
    if options.validator is None or options.level == "off" or bypass:
        return None
    if _VARIABLE in options.validator:
        return _validator(options, replace(query_context_at(node, None), collation=options.collation))
    return _without_variables(options)


@lru_cache(maxsize=256)
def _without_variables(options: CollectionOptions) -> Validator:
    return _validator(options, new_context(collation=options.collation))


def _validator(options: CollectionOptions, meaning: QueryContext) -> Validator:
    assert options.validator is not None, "only a collection with a validator has documents checked"
    predicate = compile_filter(parse_filter(options.validator, query_context=meaning))
    return Validator(options.validator, predicate, meaning, options.level == "moderate", options.action == "warn")
