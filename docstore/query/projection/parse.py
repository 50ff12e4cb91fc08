"""Parsing of projection documents, for `find` and for the stage `$project`.

The first plain field other than `_id` decides between inclusion and exclusion. Embedded documents spell dotted paths. A
value that is neither a number, a boolean nor one of find's operators is an expression.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from docstore.bson.allowance import spend
from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, BOOL, OBJECT, STRING, Value, elements, values
from docstore.errors import CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import excluded_operator, parse_elem_match
from docstore.query.filter.tree import (
    MATCH_ALL,
    And,
    DocumentTest,
    ElemMatchObject,
    Filter,
    Near,
    Nor,
    Not,
    Or,
    TextSearch,
)
from docstore.query.metadata import KINDS, measures_of
from docstore.query.pausing import PAUSED, allowing
from docstore.query.projection.positions import Positions
from docstore.query.projection.projection import (
    DROP,
    KEEP,
    Branch,
    Computed,
    Leaf,
    PathCollision,
    PositionalProjection,
    Projection,
    Rewrite,
    plant,
    projection_of,
)
from docstore.query.unsupported import not_supported
from docstore.query.value.paths import REFERENCE_FIELDS, check_field_path
from docstore.query.value.values import NUMBERS, is_true, text_of, truncated_of, type_name

_LONG = 512
"""Least bytes of a projection whose parsing may take a while."""
_PER_FIELD = 512
"""Units of work charged for parsing a field."""
_POSITIONAL = ".$"
_NOT_ABOUT_ELEMENTS = frozenset(("$geoNear", "$jsonSchema", "$near", "$nearSphere", "$where"))


def parse_projection(
    raw: bytes, *, query_context: QueryContext = PLAIN, tree: Filter = MATCH_ALL, metadata: bool = False
) -> Projection | PositionalProjection | None:
    """Return the projection of a find command; None for an empty one, which returns whole documents.

    `tree` is the filter of the same find: it determines the element of a positional projection (`a.$`), and the
    availability of distances (`$meta`). `metadata`: the reader of the documents can supply their sort key, their record
    id and the key of their index entry.
    """
    if not elements(raw):
        return None
    parser = _Parser(query_context, for_find=True, tree=tree, metadata=metadata)
    projection = parser.parse(raw) if len(raw) < _LONG else allowing(PAUSED, parser.parse, raw)
    if parser.positional is None:
        return projection
    return PositionalProjection(projection, parser.positional, Positions(tree, as_written=True))


def parse_project_stage(raw: bytes, *, query_context: QueryContext = PLAIN) -> Projection:
    """Return the projection of a `$project` stage."""
    if not elements(raw):
        raise CommandError(51272, "projection specification must have at least one field")
    return _Parser(query_context, for_find=False).parse(raw)


@dataclass(slots=True)
class _Parser:
    """Collects (path, leaf) pairs and the kind of the projection; `excludes` is None until it is decided."""

    query_context: QueryContext
    for_find: bool
    tree: Filter = MATCH_ALL
    metadata: bool = False
    excludes: bool | None = None
    leaves: list[tuple[str, Leaf | None]] = field(default_factory=list)
    of_id: list[str] = field(default_factory=list)
    """The collected paths that begin with `_id`."""
    id_kept: bool | None = None
    slices: bool = False
    positional: str | None = None
    picks: bool = False

    def parse(self, raw: bytes) -> Projection:
        self._fields("", raw)
        if self.picks and self.positional is not None:
            raise CommandError(31255, "Cannot specify positional operator and $elemMatch.")
        excludes = self._resolve_kind()
        root = Branch()
        if not excludes and self.id_kept is None and not self.of_id:
            root.children["_id"] = KEEP
        for path, leaf in self.leaves:
            if leaf is None:
                leaf = DROP if excludes else KEEP
            elif isinstance(leaf, Rewrite) and leaf.last and excludes:
                leaf = Rewrite(leaf.change)
            try:
                plant(root, path, leaf)
            except PathCollision as collision:
                if collision.remaining:
                    raise CommandError(
                        31249, f"Path collision at {path} remaining portion {collision.remaining}"
                    ) from None
                raise CommandError(31250, f"Path collision at {path}") from None
        if self.id_kept is not None and any(path != "_id" for path in self.of_id):
            raise CommandError(31249, "Path collision at _id")
        if self.id_kept is (not excludes):
            plant(root, "_id", DROP if excludes else KEEP)
        return projection_of(root, keep_others=excludes)

    def _leaf(self, path: str, leaf: Leaf | None) -> None:
        self.leaves.append((path, leaf))
        if path == "_id" or path.startswith("_id."):
            self.of_id.append(path)

    def _resolve_kind(self) -> bool:
        if self.excludes is not None:
            return self.excludes
        if self.slices and self.for_find:
            return self.id_kept is not True
        return not self.leaves and self.id_kept is False

    def _fields(self, prefix: str, raw: bytes) -> None:
        for name, code, data in elements(raw):
            self._field(prefix, name, (code, data))

    def _field(self, prefix: str, name: str, value: Value) -> None:
        spend(_PER_FIELD)
        path = prefix + name
        if name.endswith(_POSITIONAL) and name != _POSITIONAL:
            self._positional(path.removesuffix(_POSITIONAL), name.removesuffix(_POSITIONAL), value)
            return
        if self.for_find and name != "$" and not name.startswith("$.") and "$" in name.split("."):
            raise CommandError(31394, "a positional operator in a projection may only stand at the end of a path")
        check_field_path(name)
        if value[0] == BOOL or value[0] in NUMBERS:
            self._plain(path, is_true(value))
        elif value[0] == OBJECT:
            self._document(path, value)
        else:
            self._expression(path, value)

    def _positional(self, path: str, name: str, value: Value) -> None:
        if not self.for_find:
            raise CommandError(31324, "Cannot use positional projection in aggregation projection")
        check_field_path(name)
        if value[0] == OBJECT:
            raise CommandError(31271, "positional projection cannot be used with an expression or sub object")
        if value[0] != BOOL and value[0] not in NUMBERS:
            raise CommandError(31308, "positional projection cannot be used with a literal")
        if not is_true(value):
            raise CommandError(31395, "positional projection cannot be used with exclusion")
        _refuse_without_elements(self.tree)
        if self.positional is not None:
            raise CommandError(31276, "Cannot specify more than one positional projection per query.")
        self.positional = path
        self._plain(path, True)

    def _plain(self, path: str, included: bool) -> None:
        if path == "_id":
            self.id_kept = included
            return
        if self.excludes is None:
            self.excludes = not included
        elif self.excludes == included:
            if included:
                raise CommandError(31253, f"Cannot do inclusion on field {path} in exclusion projection")
            raise CommandError(31254, f"Cannot do exclusion on field {path} in inclusion projection")
        self._leaf(path, None)

    def _document(self, path: str, value: Value) -> None:
        fields = elements(value[1])
        if not fields:
            raise CommandError(
                51270, "An empty sub-projection is not a valid value. Found empty object at path " + path
            )
        if len(fields) > 1 or not fields[0][0].startswith("$") or fields[0][0] in REFERENCE_FIELDS:
            self._fields(path + ".", value[1])
            return
        name, code, data = fields[0]
        if self.for_find and name == "$slice" and (cut := _slice((code, data))) is not None:
            self.slices = True
            self._leaf(path, cut)
        elif self.for_find and name == "$elemMatch":
            self.picks = True
            self._leaf(path, _elem_match(path, (code, data), self.query_context))
        elif name == "$meta":
            if self.for_find:
                self.slices = True
            elif self.excludes is None:
                self.excludes = False
            self._leaf(path, _metadata((code, data), self.tree, self.query_context, self.metadata))
        else:
            self._expression(path, value)

    def _expression(self, path: str, value: Value) -> None:
        expressions = self.query_context.expressions
        if expressions is None:
            raise not_supported("projection operator", "expression")
        computed = Computed(expressions.compute(value, self.query_context))
        if self.excludes:
            code = 31252 if value[0] == OBJECT else 31310
            raise CommandError(code, "Cannot use expression other than $meta in exclusion projection")
        self.excludes = False
        self._leaf(path, computed)


def _slice(value: Value) -> Rewrite | None:
    """Return the projection of `{$slice: n}` (first or last n) or `{$slice: [skip, limit]}`; it keeps other values than
    arrays.

    None for other arguments, which are those of the expression `$slice`.
    """
    if value[0] in NUMBERS:
        count = truncated_of(value) or 0
        skip, limit = (0, count) if count >= 0 else (count, -count)
    else:
        pair = values(value[1]) if value[0] == ARRAY else []
        if len(pair) != 2 or any(item[0] not in NUMBERS for item in pair) or (truncated_of(pair[1]) or 0) <= 0:
            return None
        skip, limit = truncated_of(pair[0]) or 0, truncated_of(pair[1]) or 0

    def cut(stored: Value) -> Value:
        if stored[0] != ARRAY:
            return stored
        members = values(stored[1])
        start = max(0, len(members) + skip) if skip < 0 else skip
        return ARRAY, array_from(members[start : start + limit])

    return Rewrite(cut)


_NO_METADATA = frozenset(
    (
        "randVal",
        "searchHighlights",
        "searchScore",
        "searchScoreDetails",
        "timeseriesBucketMaxTime",
        "timeseriesBucketMinTime",
    )
)
"""Kinds of metadata that no document of a find has here."""


_POINTS_AT_NONE = frozenset(("$expr", "$jsonSchema", "$where"))


def _refuse_without_elements(tree: Filter) -> None:
    """Raise the error of a condition that matches no element, in the filter beside a positional projection."""
    match tree:
        case DocumentTest() if tree.name in _POINTS_AT_NONE:
            raise excluded_operator(tree.name)
        case TextSearch():
            raise excluded_operator("$text")
        case Near():
            raise excluded_operator("$near")
        case And() | Or() | Nor():
            for child in tree.children:
                _refuse_without_elements(child)
        case Not():
            _refuse_without_elements(tree.child)
        case ElemMatchObject():
            _refuse_without_elements(tree.filter)
        case _:
            pass


def _metadata(value: Value, tree: Filter, query_context: QueryContext, is_stored: bool) -> Computed:
    """Return the projection of `{$meta: kind}`, if a find with that filter, or a pipeline, has this kind.

    `is_stored`: the metadata of stored documents are available, too.
    """
    if value[0] != STRING:
        raise CommandError(17307, "$meta only supports string arguments")
    kind = text_of(value)
    measure = query_context.measures.get(kind) or measures_of(tree).get(kind) if kind in KINDS else None
    if measure is not None:
        return Computed(measure)
    if kind in KINDS:
        raise CommandError(40218, f"query requires {kind} metadata, but it is not available")
    if kind in ("indexKey", "recordId", "sortKey"):
        if not is_stored:
            raise not_supported("metadata in this place", kind)
        return Computed(_nothing, kind)
    if kind not in _NO_METADATA:
        raise CommandError(17308, f"Unsupported argument to $meta: {kind}")
    return Computed(_nothing)


def _nothing(document: bytes) -> Value | None:
    return None


def _elem_match(path: str, value: Value, query_context: QueryContext) -> Rewrite:
    """Return the projection to the first element of an array that satisfies a condition; none if there is no such
    element.
    """
    if "." in path:
        raise CommandError(31275, "Cannot use $elemMatch projection on a nested field.")
    if value[0] != OBJECT:
        raise CommandError(31274, f"elemMatch: Invalid argument, object required, but got {type_name(value)}")
    inner = replace(query_context, excluded=query_context.excluded | _NOT_ABOUT_ELEMENTS)
    predicate = compile_filter(parse_elem_match("a", value, inner))

    def first(stored: Value) -> Value | None:
        if stored[0] != ARRAY:
            return None
        for member in values(stored[1]):
            array = (ARRAY, array_from([member]))
            if predicate.matches(document_from([("a", *array)])):
                return array
        return None

    return Rewrite(first, last=True)
