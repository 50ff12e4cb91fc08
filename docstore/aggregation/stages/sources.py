"""Source stages: `$documents`, and those about the collection or the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import SOURCE, Declaration, Environment, PlainStage, Position, Stage
from docstore.aggregation.streams import StageRun
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, BOOL, EMPTY_DOCUMENT, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.unsupported import not_supported
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import is_true, truncated_of, type_name

_STATISTICS = ("count", "latencyStats", "queryExecStats", "storageStats")
TARGETS = {
    "$currentOp": "must be run against the 'admin' database with {aggregate: 1}",
    "$listLocalSessions": "must be run against the database with {aggregate: 1}, not a collection",
    "$listSessions": "may only be run against config.system.sessions",
}
"""The stages that show what users do, and what an aggregate with them must be run against.

A sub-pipeline never has them: a shard runs it as the cluster's own user, who may see the operations of everybody.
"""
_CURRENT_OP = ("allUsers", "backtrace", "idleConnections", "idleCursors", "idleSessions", "localOps", "truncateOps")


class _SourceRun:
    """Outputs the documents that `make` returns at the first `finish`."""

    satisfied = True

    def __init__(self, make: Callable[[], list[bytes]]) -> None:
        self._make = make

    def push(self, documents: list[bytes]) -> list[bytes]:
        assert not documents, "a source stage takes no input"
        return []

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return self._make(), True


@dataclass(frozen=True, slots=True)
class ProcessDocuments(PlainStage):
    """A stage whose documents come from the environment, by its name and options."""

    raw: bytes
    name: str
    options: bytes
    about_collection: bool

    makes_documents = True
    runs_on_shards = True

    @property
    def needs_collection(self) -> bool:
        return self.about_collection

    def start(self, environment: Environment) -> StageRun:
        documents = environment.process_documents
        if documents is None:
            raise not_supported("stage in this place", self.name)
        return _SourceRun(lambda: documents(self.name, self.options))


@dataclass(frozen=True, slots=True)
class Documents(PlainStage):
    """`$documents`: the documents are in the pipeline itself."""

    raw: bytes
    evaluate: Callable[[Scope], Value | None]

    makes_documents = True

    @property
    def needs_collection(self) -> bool:
        return False

    def start(self, environment: Environment) -> StageRun:
        return _SourceRun(self._documents)

    def _documents(self) -> list[bytes]:
        array = self.evaluate(Scope(EMPTY_DOCUMENT))
        if array is None or array[0] != ARRAY:
            raise CommandError(5858203, f"$documents must evaluate to an array of objects, found {type_name(array)}")
        members = values(array[1])
        for member in members:
            if member[0] != OBJECT:
                raise CommandError(40228, f"$documents must hold objects, found {type_name(member)}")
        return [raw for _, raw in members]


def _stage(name: str, value: Value) -> list[Stage]:
    needs_collection = name not in ("$currentOp", "$listLocalSessions")
    return [ProcessDocuments(document_from([(name, *value)]), name, value[1], needs_collection)]


def _parse_statistics(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(5447000, f"$collStats must take a nested object but found: {type_name(value)}")
    for name, (code, data) in option_fields("$collStats", value[1]).items():
        if name not in _STATISTICS:
            raise CommandError(40415, f"BSON field '$collStats.{name}' is an unknown field.")
        if code != OBJECT:
            raise _wrong_type(f"$collStats.{name}", (code, data), "object")
        if name == "count" and elements(data):
            raise CommandError(31170, f"expected an empty object, but got {display((code, data))}")
        if name == "latencyStats":
            _check_latency(data)
        if name == "storageStats":
            _check_storage(data)
    return _stage("$collStats", value)


def _check_latency(options: bytes) -> None:
    for name, (code, data) in option_fields("$collStats.latencyStats", options).items():
        if name != "histograms":
            raise CommandError(40415, f"BSON field '$collStats.latencyStats.{name}' is an unknown field.")
        if code != BOOL:
            raise CommandError(
                Code.TypeMismatch,
                f"Field 'histograms' should be a boolean value, but found: {type_name((code, data))}",
            )


def _check_storage(options: bytes) -> None:
    for name, (code, data) in option_fields("$collStats.storageStats", options).items():
        if name != "scale":
            continue
        scale = truncated_of((code, data))
        if scale is None:
            raise _wrong_type("$collStats.storageStats.scale", (code, data), "[long, int, decimal, double']")
        if scale < 1:
            raise CommandError(51024, f"BSON field 'scale' value must be >= 1, actual value '{scale}'")


def _wrong_type(field: str, value: Value, expected: str) -> CommandError:
    return CommandError(
        Code.TypeMismatch, f"BSON field '{field}' is the wrong type '{type_name(value)}', expected type '{expected}'"
    )


def _parse_index_stats(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT or elements(value[1]):
        raise CommandError(28803, "The $indexStats stage specification must be an empty object")
    return _stage("$indexStats", value)


def _parse_plan_cache(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, f"$planCacheStats value must be an object. Found: {type_name(value)}")
    if elements(value[1]):
        raise CommandError(Code.FailedToParse, "$planCacheStats parameters object must be empty.")
    return _stage("$planCacheStats", value)


def read_current_op(value: Value) -> dict[str, Value]:
    """Return the options of a `$currentOp`. Errors: TypeMismatch, FailedToParse, Location40413."""
    if value[0] != OBJECT:
        raise CommandError(
            Code.TypeMismatch, f"$currentOp options must be specified in an object, but found: {type_name(value)}"
        )
    options = option_fields("$currentOp", value[1])
    for name, (code, data) in options.items():
        if name not in _CURRENT_OP:
            raise CommandError(Code.FailedToParse, f"Unrecognized option '{name}' in $currentOp stage.")
        if code != BOOL:
            raise CommandError(
                Code.TypeMismatch,
                f"The '{name}' parameter of the $currentOp stage must be a boolean value, but found:"
                f" {type_name((code, data))}",
            )
    return options


def _parse_current_op(value: Value, query_context: QueryContext) -> list[Stage]:
    read_current_op(value)
    return _stage("$currentOp", value)


def read_sessions(stage: str, value: Value) -> bool:
    """True if a stage that lists sessions requests those of other users.

    Errors: TypeMismatch, UnsupportedFormat, Location40413, 40414, 40415.
    """
    if value[0] != OBJECT:
        raise CommandError(
            Code.TypeMismatch, f"{stage} options must be specified in an object, but found: {type_name(value)}"
        )
    everyone, users = False, 0
    options = option_fields(stage, value[1])
    for name, (code, data) in options.items():
        if name == "allUsers":
            if code != BOOL:
                raise _wrong_type(f"{stage}.allUsers", (code, data), "bool")
            everyone = is_true((code, data))
        elif name == "users":
            if code != ARRAY:
                raise _wrong_type(f"{stage}.users", (code, data), "array")
            users = _check_users(stage, values(data))
        else:
            raise CommandError(40415, f"BSON field '{stage}.{name}' is an unknown field.")
    if everyone and users:
        raise CommandError(
            Code.UnsupportedFormat,
            f"{stage} may not specify {{allUsers:true}} and {{users:[...]}} at the same time",
        )
    return everyone or "users" in options


def _parse_sessions(stage: str, value: Value) -> list[Stage]:
    read_sessions(stage, value)
    return _stage(stage, value)


def _check_users(stage: str, users: list[Value]) -> int:
    for user in users:
        if user[0] != OBJECT:
            raise _wrong_type(f"{stage}.users", user, "object")
        fields = option_fields(f"{stage}.users", user[1])
        for name in ("user", "db"):
            if name not in fields:
                raise CommandError(40414, f"BSON field '{stage}.users.{name}' is missing but a required field")
            if fields[name][0] != STRING:
                raise _wrong_type(f"{stage}.users.{name}", fields[name], "string")
    return len(users)


def _parse_documents(value: Value, query_context: QueryContext) -> list[Stage]:
    evaluate = parse_expression(value, query_context=query_context).evaluate
    return [Documents(document_from([("$documents", *value)]), evaluate)]


def _of_users(name: str) -> Position:
    return replace(SOURCE, target=TARGETS[name])


DECLARATIONS = (
    Declaration("$collStats", _parse_statistics, SOURCE),
    Declaration("$currentOp", _parse_current_op, _of_users("$currentOp")),
    Declaration("$documents", _parse_documents, SOURCE),
    Declaration("$indexStats", _parse_index_stats, SOURCE),
    Declaration(
        "$listLocalSessions",
        lambda value, query_context: _parse_sessions("$listLocalSessions", value),
        _of_users("$listLocalSessions"),
    ),
    Declaration(
        "$listSessions",
        lambda value, query_context: _parse_sessions("$listSessions", value),
        _of_users("$listSessions"),
    ),
    Declaration("$planCacheStats", _parse_plan_cache, SOURCE),
)
