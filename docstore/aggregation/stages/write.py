"""`$out` and `$merge`: output to a collection.

They are not run as stages: the caller removes the last stage (`without_target`) and writes the output of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from docstore.aggregation.expressions.model import Evaluate, Scope, check_variable_name
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import Declaration, Environment, Pipeline, PlainStage, Position, Stage
from docstore.aggregation.streams import StageRun
from docstore.bson.allowance import spend
from docstore.bson.build import array_documents, document_from
from docstore.bson.walk import ARRAY, NULL, OBJECT, STRING, UNDEFINED, Value, elements, get_path, values
from docstore.errors import Code, CommandError
from docstore.namespace import check_database_name
from docstore.query.context import QueryContext
from docstore.query.unsupported import not_supported
from docstore.query.value.collation import Collation
from docstore.query.value.option_fields import option_fields
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import string_value, text_of, type_name

_PER_PATH = 256
_INTERNAL = ("admin", "config", "local")


class WhenMatched(Enum):
    REPLACE = "replace"
    MERGE = "merge"
    KEEP = "keepExisting"
    FAIL = "fail"
    PIPELINE = "pipeline"


class WhenNotMatched(Enum):
    INSERT = "insert"
    DISCARD = "discard"
    FAIL = "fail"


_NEVER = frozenset(
    (matched, missing)
    for matched in (WhenMatched.KEEP, WhenMatched.FAIL)
    for missing in (WhenNotMatched.DISCARD, WhenNotMatched.FAIL)
)


@dataclass(frozen=True, slots=True)
class Out(PlainStage):
    """The stage. `database`: None for the pipeline's own."""

    raw: bytes
    database: str | None
    collection: str

    def start(self, environment: Environment) -> StageRun:
        raise not_supported("place for a stage that writes", "$out")


Variables = tuple[tuple[str, Evaluate], ...]


@dataclass(frozen=True, slots=True)
class Merge(PlainStage):
    """The stage. `on`: None for the default, `_id`. `let`: the variables of `pipeline` besides `$$new`, which is the
    document. `binds_new`: False if `let` leaves `$$new` undefined.
    """

    raw: bytes
    database: str | None
    collection: str
    on: tuple[str, ...] | None
    matched: WhenMatched
    not_matched: WhenNotMatched
    pipeline: tuple[bytes, ...]
    let: Variables
    binds_new: bool
    query_context: QueryContext

    def start(self, environment: Environment) -> StageRun:
        raise not_supported("place for a stage that writes", "$merge")

    def update(self, document: bytes, collation: Collation | None) -> Callable[[bytes], bytes]:
        """Return the pipeline as a function from an existing document to its update, for a new document.

        `collation`: that of the target collection. A variable without a value is undefined. Errors: 17276 if the
        pipeline uses it.
        """
        bound: dict[str, Value | None] = {name: value for name, value in self.variables(document) if value is not None}
        query_context = replace(self.query_context.binding(bound), collation=collation)
        assert query_context.expressions is not None, "pipelines are parsed with expressions served"
        return query_context.expressions.update(self.pipeline, query_context)[0]

    def lacks_variables(self, document: bytes) -> bool:
        """True if a variable has no value for a new document, so that `update` may fail."""
        return not self.binds_new or any(value is None for _, value in self.variables(document))

    def variables(self, document: bytes) -> Iterator[tuple[str, Value | None]]:
        """Yield the variables of the pipeline for a new document, with their values."""
        if self.binds_new:
            yield "new", (OBJECT, document)
        scope = Scope(document)
        for name, evaluate in self.let:
            yield name, evaluate(scope)

    def identity(self, document: bytes) -> list[tuple[str, Value]]:
        """Return the `on` fields of a document with their values. Errors: 51132, 51185."""
        fields: list[tuple[str, Value]] = []
        for path in self.on or ("_id",):
            value = get_path(document, path)
            if value is not None and value[0] == ARRAY:
                raise CommandError(51185, f"$merge write error: 'on' field '{path}' is an array")
            if value is None or value[0] in (NULL, UNDEFINED):
                raise CommandError(
                    51132, f"$merge write error: 'on' field '{path}' cannot be missing, null, undefined or an array"
                )
            fields.append((path, value))
        return fields


class MergeOptions(NamedTuple):
    """The options of a `$merge`. `database`: None for the pipeline's own. `let`, `on`: as given."""

    database: str | None
    collection: str
    matched: WhenMatched
    pipeline: tuple[bytes, ...]
    not_matched: WhenNotMatched
    let: Value | None
    on: Value | None


def read_out(value: Value) -> tuple[str | None, str]:
    """Return (database, None for the pipeline's own; collection) of a `$out`.

    Errors: Location16990, 16994, 13111, 17385, InvalidNamespace.
    """
    database: str | None = None
    if value[0] == STRING:
        collection = text_of(value)
    elif value[0] == OBJECT:
        fields = elements(value[1])
        options = {name: (code, data) for name, code, data in fields}
        if options.keys() != {"db", "coll"} or len(fields) != len(options):
            raise CommandError(16994, "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'")
        for name, option in options.items():
            if option[0] != STRING:
                raise CommandError(13111, f"wrong type for field ({name}) {type_name(option)} != string")
        database, collection = text_of(options["db"]), text_of(options["coll"])
    else:
        raise CommandError(16990, f"$out only supports a string or object argument, but found {type_name(value)}")
    if not collection or database == "":
        raise CommandError(Code.InvalidNamespace, "Invalid $out target namespace")
    if database is not None:
        check_database_name(database)
    check_target_collection(collection, "Can't $out", replaces=True)
    return database, collection


def _parse_out(value: Value, query_context: QueryContext) -> list[Stage]:
    return [Out(document_from([("$out", *value)]), *read_out(value))]


def read_merge(value: Value) -> MergeOptions:
    """Return the options of a `$merge`.

    Errors: TypeMismatch, InvalidNamespace, BadValue, Location40413, 40414, 40415, and those of the fields.
    """
    if value[0] == STRING:
        options: dict[str, Value] = {"into": value}
        if not text_of(value):
            raise CommandError(Code.InvalidNamespace, "Invalid $merge target namespace")
    elif value[0] == OBJECT:
        options = option_fields("$merge", value[1])
    else:
        raise CommandError(
            Code.TypeMismatch, f"$merge requires a string or object argument, but found {type_name(value)}"
        )
    for name in options:
        if name not in ("into", "on", "whenMatched", "whenNotMatched", "let"):
            raise CommandError(40415, f"BSON field '$merge.{name}' is an unknown field.")
    if "into" not in options:
        raise CommandError(40414, "BSON field '$merge.into' is missing but a required field")
    database, collection = _into(options["into"])
    matched, pipeline = _when_matched(options.get("whenMatched", string_value("merge")))
    not_matched = _when_not_matched(options.get("whenNotMatched", string_value("insert")))
    return MergeOptions(database, collection, matched, pipeline, not_matched, options.get("let"), options.get("on"))


def _parse_merge(value: Value, query_context: QueryContext) -> list[Stage]:
    database, collection, matched, pipeline, not_matched, given_let, given_on = read_merge(value)
    let_fields = _let_fields(given_let)
    on = None if given_on is None else _on(given_on)
    if (matched, not_matched) in _NEVER:
        raise CommandError(
            51181,
            f"Combination of $merge modes 'whenMatched: {matched.value}' and 'whenNotMatched: {not_matched.value}' is"
            " not supported",
        )
    let = () if let_fields is None else _let(let_fields, matched, query_context)
    # A new document that is to be inserted is a variable in any case.
    binds_new = let_fields is None or "new" in let_fields or not_matched is WhenNotMatched.INSERT
    raw = document_from([("$merge", *value)])
    return [Merge(raw, database, collection, on, matched, not_matched, pipeline, let, binds_new, query_context)]


def _into(value: Value) -> tuple[str | None, str]:
    if value[0] == STRING:
        if not text_of(value):
            raise CommandError(5786800, "$merge 'into' field cannot be an empty string")
        check_target_collection(text_of(value), "Cannot $merge", replaces=False)
        return None, text_of(value)
    if value[0] != OBJECT:
        raise CommandError(
            51178, f"$merge 'into' field  must be either a string or an object, but found {type_name(value)}"
        )
    options = option_fields("into", value[1])
    for name, option in options.items():
        if name not in ("db", "coll"):
            raise CommandError(40415, f"BSON field 'into.{name}' is an unknown field.")
        if option[0] not in (STRING, NULL, UNDEFINED):
            raise CommandError(
                Code.TypeMismatch,
                f"BSON field 'into.{name}' is the wrong type '{type_name(option)}', expected type 'string'",
            )
    collection = options.get("coll")
    if collection is None or collection[0] != STRING or not text_of(collection):
        raise CommandError(5786801, "$merge 'into' field must specify a 'coll' that is not empty, null or undefined")
    database = options.get("db")
    named = text_of(database) if database is not None and database[0] == STRING else ""
    if named:
        check_database_name(named)
    check_target_collection(text_of(collection), "Cannot $merge", replaces=False)
    return named or None, text_of(collection)


def _when_matched(value: Value) -> tuple[WhenMatched, tuple[bytes, ...]]:
    if value[0] == ARRAY:
        return WhenMatched.PIPELINE, tuple(array_documents(value[1]))
    if value[0] != STRING:
        raise CommandError(
            51191, f"$merge 'whenMatched' field  must be either a string or an array, but found {type_name(value)}"
        )
    text = text_of(value)
    if text not in ("replace", "merge", "keepExisting", "fail"):
        raise CommandError(Code.BadValue, f"Enumeration value '{text}' for field 'whenMatched' is not a valid value.")
    return WhenMatched(text), ()


def _when_not_matched(value: Value) -> WhenNotMatched:
    if value[0] != STRING:
        raise CommandError(
            Code.TypeMismatch,
            f"BSON field '$merge.whenNotMatched' is the wrong type '{type_name(value)}', expected type 'string'",
        )
    text = text_of(value)
    if text not in ("insert", "discard", "fail"):
        raise CommandError(
            Code.BadValue, f"Enumeration value '{text}' for field '$merge.whenNotMatched' is not a valid value."
        )
    return WhenNotMatched(text)


def _let_fields(value: Value | None) -> dict[str, Value] | None:
    """Return the fields of `let`; None without any `let`. Errors: TypeMismatch."""
    if value is None or value[0] in (NULL, UNDEFINED):
        return None
    if value[0] != OBJECT:
        raise CommandError(
            Code.TypeMismatch, f"BSON field '$merge.let' is the wrong type '{type_name(value)}', expected type 'object'"
        )
    return {name: (code, data) for name, code, data in elements(value[1])}


def _let(fields: Mapping[str, Value], matched: WhenMatched, query_context: QueryContext) -> Variables:
    """Return the variables that the `let` of a merge defines besides `$$new`."""
    if matched is not WhenMatched.PIPELINE:
        raise CommandError(51199, f"Cannot use 'let' variables with 'whenMatched: {matched.value}' mode")
    variables: list[tuple[str, Evaluate]] = []
    for name, (code, data) in fields.items():
        check_variable_name(name)
        if name == "new" and (code, data) != string_value("$$ROOT"):
            raise CommandError(
                51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'"
            )
        if name != "new":
            variables.append((name, parse_expression((code, data), query_context=query_context).evaluate))
    return tuple(variables)


def _on(value: Value) -> tuple[str, ...]:
    if value[0] == STRING:
        paths = [text_of(value)]
    elif value[0] == ARRAY:
        paths = []
        for member in values(value[1]):
            if member[0] != STRING:
                raise CommandError(51134, f"$merge 'on' array elements must be strings, but found {type_name(member)}")
            paths.append(text_of(member))
        if not paths:
            raise CommandError(51187, "If explicitly specifying $merge 'on', must include at least one field")
    else:
        raise CommandError(
            51186,
            f"$merge 'on' field  must be either a string or an array of strings, but found {type_name(value)}",
        )
    earlier: set[str] = set()
    for path in paths:
        check_field_path(path)
        spend(_PER_PATH)
        if path in earlier:
            raise CommandError(31465, f"Found a duplicate field '{path}'")
        earlier.add(path)
    return tuple(paths)


def target_of(pipeline: Pipeline) -> Out | Merge | None:
    """Return the stage that writes the results, always the last; None if there is none."""
    last = pipeline.stages[-1] if pipeline.stages else None
    return last if isinstance(last, Out | Merge) else None


def without_target(pipeline: Pipeline) -> Pipeline:
    """Return the stages before the output stage."""
    return pipeline if target_of(pipeline) is None else replace(pipeline, stages=pipeline.stages[:-1])


def check_target(stage: Out | Merge, database: str) -> None:
    """Refuse system databases."""
    replaces = isinstance(stage, Out)
    check_target_database(database, "Can't $out" if replaces else "Cannot $merge", replaces=replaces)


def check_target_database(database: str, refusal: str, *, replaces: bool) -> None:
    """Errors: 31321 and 31320 for a system database; `refusal` begins the message."""
    if is_internal(database):
        raise CommandError(31321 if replaces else 31320, f"{refusal} to internal database: {database}")


def check_target_collection(collection: str, refusal: str, *, replaces: bool) -> None:
    """Errors: 17385 and 31319 for a system collection; `refusal` begins the message."""
    if collection.startswith("system."):
        raise CommandError(17385 if replaces else 31319, f"{refusal} to special collection: {collection}")


def is_internal(database: str) -> bool:
    """True if no collection of this database may be an output target."""
    return database in _INTERNAL


_WRITES = Position(only_last=True, in_facet=False, in_pipelines=False)

DECLARATIONS = (Declaration("$merge", _parse_merge, _WRITES), Declaration("$out", _parse_out, _WRITES))
