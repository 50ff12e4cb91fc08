"""`$lookup`: adds to each document its partners from another collection.

Partners are selected by an equality of two fields, by a pipeline with variables from the document, or by both. An
equality, also one at the start of the pipeline, is evaluated for many documents at a time: one query reads their
partners into a table, unless an index can return them directly. The rest of the pipeline runs over the partners of each
document. If the pipeline continues with a selection, it is left to indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.expressions.dependencies import top
from docstore.aggregation.expressions.model import Evaluate, Scope, check_variable_name
from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.filter_pushdown import FieldTest
from docstore.aggregation.stage import Declaration, EnclosingStage, Environment, Nesting, Pipeline, Stage
from docstore.aggregation.stages.foreign import (
    check_collection,
    check_namespace,
    equal_to_any,
    foreign_of,
    pipeline_of,
    values_at,
    values_reader,
)
from docstore.aggregation.stages.join import BatchJoin, Keyed, Let
from docstore.aggregation.stages.lookup_result import LookupResult
from docstore.aggregation.stages.match import Match
from docstore.aggregation.stages.unwind import Unwind
from docstore.aggregation.streams import GIVEN_BYTES, Stream
from docstore.bson.build import document_from
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.paths import check_field_path
from docstore.query.value.values import NULL_VALUE, text_of, type_name

_CACHED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Lookup(Stage):
    """The stage. `local`, `foreign`: the fields of the equality, both or none.

    `collection`: None if the pipeline has its own source. `variables`: the values of `let` while the pipeline runs for
    a document. `unwind`: the result is unwound at once. `keyed`: the batched equality join, if possible.
    """

    raw: bytes
    collection: str | None
    as_path: str
    local: str | None
    foreign: str | None
    let: Let
    variables: dict[str, Value | None]
    pipeline: Pipeline
    unwind: Unwind | None = None
    appends: bool = False
    """True if each part of the path moves to the end of its document, even if it existed."""
    keyed: Keyed | None = None

    @property
    def collections(self) -> frozenset[str]:
        return (
            self.pipeline.other_collections
            if self.collection is None
            else self.pipeline.other_collections | {self.collection}
        )

    @property
    def preserved_fields(self) -> FieldTest:
        changed = top(self.as_path)
        return lambda name: name != changed

    def planned(self, following: Stage | None) -> Stage | None:
        unwound = isinstance(following, Unwind) and following.path == self.as_path
        return replace(self, appends=True) if self._is_plain and not unwound else None

    def fuse_with(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        unwind = following[0] if following else None
        if isinstance(unwind, Unwind) and unwind.path == self.as_path and not self.unwind:
            return replace(self, unwind=unwind), 1
        return None

    def open(self, source: Stream, environment: Environment) -> Stream:
        if self.keyed is not None:
            return BatchJoin(self.result, self.keyed, source, environment)
        return _LookupStream(self, source, environment)

    @property
    def result(self) -> LookupResult:
        """The output builder for a document and its partners."""
        return LookupResult(self.collection, self.as_path, self.unwind, appends=self.appends)

    @property
    def _is_plain(self) -> bool:
        """True if the stage is a plain equality of two paths without array positions."""
        if self.local is None or self.foreign is None or self.pipeline.stages or self.let:
            return False
        return not any(part.isdigit() for path in (self.local, self.foreign) for part in path.split("."))


class _LookupStream:
    """Runs the pipeline for each document; caches results that other documents will need."""

    def __init__(self, stage: Lookup, source: Stream, environment: Environment) -> None:
        self._stage = stage
        self._result = stage.result
        self._source = source
        self._environment = environment
        self._given: list[bytes] = []
        self._at = 0
        self._last = False
        self._inner: Stream | None = None
        self._matches: list[bytes] = []
        self._key = b""
        self._cache: dict[bytes, list[bytes]] = {}
        self._cached = 0

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        batch: list[bytes] = []
        size = 0
        clock = self._environment.clock
        while True:
            if self._at == len(self._given):
                if self._last or batch:
                    return batch, self._last
                self._given, self._last = self._source.next_batch(deadline)
                self._at = 0
                if not self._given:
                    return [], self._last
            document = self._given[self._at]
            if not self._match(document, deadline):
                return batch, False
            results = self._result.joined(document, self._matches)
            batch += results
            size += sum(map(len, results))
            self._at += 1
            if size >= GIVEN_BYTES or clock() >= deadline:
                return batch, self._last and self._at == len(self._given)

    def _match(self, document: bytes, deadline: float) -> bool:
        """Read the partners of a document into `_matches`; False while they are incomplete."""
        if self._inner is None:
            stage = self._stage
            join_values = None if stage.local is None else values_at(document, stage.local.split("."))
            self._key = b"" if join_values is None else b"".join(map(encode_key, join_values))
            partners = self._cache.get(self._key)
            if partners is not None and not stage.let:
                self._matches = partners
                return True
            scope = Scope(document)
            stage.variables.update({name: evaluate(scope) for name, evaluate in stage.let})
            self._matches = []
            self._inner = foreign_of(self._environment, stage.collection, self._partner_pipeline(join_values))
        while True:
            documents, last = self._inner.next_batch(deadline)
            self._matches += documents
            if last:
                self._inner = None
                self._keep()
                return True
            if not documents or self._environment.clock() >= deadline:
                return False

    def _partner_pipeline(self, join_values: list[Value] | None) -> Pipeline:
        pipeline = self._stage.pipeline
        if join_values is None:
            return pipeline
        assert self._stage.foreign is not None, "an equality has two fields"
        return pipeline.starting_with(equal_to_any(self._stage.foreign, join_values, pipeline.query_context.collation))

    def _keep(self) -> None:
        if self._stage.let:
            return
        size = len(self._key) + sum(map(len, self._matches))
        buffers = self._environment.buffers
        if buffers.crowded:
            self._cache.clear()
            buffers.change(-self._cached)
            self._cached = 0
        elif self._cached + size <= _CACHED_BYTES:
            self._cache[self._key] = self._matches
            self._cached += size
            buffers.change(size)


def read_lookup(value: Value) -> LookupOptions:
    """Return the options of a stage. Errors: FailedToParse, TypeMismatch, InvalidNamespace, Location40413, 40415."""
    if value[0] != OBJECT:
        raise CommandError(
            Code.FailedToParse, f"the $lookup stage specification must be an object, but found {type_name(value)}"
        )
    return LookupOptions(option_fields("$lookup", value[1]))


def _parse(value: Value, nesting: Nesting) -> list[Stage]:
    options = read_lookup(value)
    variables: dict[str, Value | None] = {}
    let: list[tuple[str, Evaluate]] = []
    for name, code, data in options.let:
        check_variable_name(name)
        let.append((name, parse_expression((code, data), query_context=nesting.query_context).evaluate))
        variables[name] = None
    query_context = nesting.query_context.binding_late(variables) if variables else nesting.query_context
    stages = [] if options.pipeline is None else options.pipeline
    pipeline = nesting.pipeline(stages, EnclosingStage.LOOKUP, query_context)
    if options.collection is None and (pipeline.needs_collection or not stages):
        raise CommandError(
            Code.FailedToParse,
            "$lookup stage without explicit collection must have a pipeline with $documents as first stage",
        )
    for path in (options.as_path, options.local, options.foreign):
        if path is not None:
            check_field_path(path)
    raw = document_from([("$lookup", *value)])
    keyed = None if options.collection is None else _keyed(options, pipeline, tuple(let), variables)
    return [
        Lookup(
            raw, options.collection, options.as_path, options.local, options.foreign, tuple(let), variables, pipeline,
            keyed=keyed,
        )
    ]  # fmt: skip


_OVER_PARTNERS = frozenset(
    (
        "$addFields", "$count", "$group", "$match", "$project", "$replaceRoot", "$replaceWith", "$set", "$sort",
        "$sortByCount", "$unset", "$unwind",
    )
)  # fmt: skip
_CHOOSING = frozenset(("$match", "$limit", "$skip"))


def _keyed(options: LookupOptions, pipeline: Pipeline, let: Let, variables: dict[str, Value | None]) -> Keyed | None:
    """Return the equality that finds partners; None without one, or if an index serves the other conditions better."""
    assert options.collection is not None, "the equality is with a collection"
    evaluations = dict(let)
    names = [elements(raw)[0][0] for raw in options.pipeline or ()]
    nothing = replace(pipeline, stages=())
    if options.local is not None:
        assert options.foreign is not None, "an equality has two fields"
        parts = options.local.split(".")
        keyed = Keyed(
            options.collection,
            options.foreign,
            values_reader(parts),
            nothing,
            pipeline,
            let,
            variables,
            local=options.local,
        )
    elif not names or names[0] != "$match":
        return None
    else:
        first = pipeline.stages[0] if pipeline.stages else None
        pair = _compared(elements(first.raw)[0][2]) if isinstance(first, Match) else None
        if pair is None or pair[1] not in evaluations or len(pipeline.stages) != len(names):
            return None
        names = names[1:]
        path, variable = pair
        evaluate = evaluations[variable]
        keyed = Keyed(
            options.collection,
            path,
            lambda document: [evaluate(Scope(document)) or NULL_VALUE],
            nothing,
            replace(pipeline, stages=pipeline.stages[1:]),
            let,
            variables,
            variable=variable,
        )
    chooses = bool(names) and (names[0] in _CHOOSING or names[:2] == ["$sort", "$limit"])
    return None if chooses or not _OVER_PARTNERS.issuperset(names) else keyed


def _compared(condition: bytes) -> tuple[str, str] | None:
    """Return (field, variable) of a `$match` that only compares the two for equality; else None."""
    value: Value = (OBJECT, condition)
    for operator in ("$expr", "$eq"):
        fields = elements(value[1]) if value[0] == OBJECT else []
        if len(fields) != 1 or fields[0][0] != operator:
            return None
        value = fields[0][1:]
    operands = values(value[1]) if value[0] == ARRAY else []
    if len(operands) != 2 or any(code != STRING for code, _ in operands):
        return None
    field, variable = sorted(map(text_of, operands), key=lambda text: text.startswith("$$"))
    # A path through arrays evaluates to an array of all values it reaches.
    if field[:1] != "$" or field[:2] == "$$" or variable[:2] != "$$" or "." in field or "." in variable:
        return None
    return field[1:], variable[2:]


class LookupOptions:
    """The options of a `$lookup`, checked individually and for valid combinations."""

    def __init__(self, fields: dict[str, Value]) -> None:
        self.collection: str | None = None
        self.pipeline: list[bytes] | None = None
        self.let: list[tuple[str, int, bytes]] = []
        texts: dict[str, str] = {}
        for name, value in fields.items():
            if name == "from":
                self.collection = check_collection("$lookup", _from(value))
            elif name == "pipeline":
                if value[0] != ARRAY:
                    raise CommandError(Code.TypeMismatch, "'pipeline' option must be specified as an array")
                self.pipeline = pipeline_of(value)
            elif name == "let":
                if value[0] != OBJECT:
                    raise _failed(f"$lookup argument 'let: {display(value)}' must be an object")
                self.let = elements(value[1])
            elif name not in ("as", "localField", "foreignField"):
                raise _failed(f"unknown argument to $lookup: {name}")
            elif value[0] != STRING:
                raise _failed(f"$lookup argument '{name}' must be a string, found {type_name(value)}")
            else:
                texts[name] = text_of(value)
        self.as_path = texts.get("as", "")
        self.local, self.foreign = texts.get("localField"), texts.get("foreignField")
        self._check(with_let="let" in fields)

    def _check(self, *, with_let: bool) -> None:
        if self.collection is None and self.pipeline is None:
            raise _failed("must specify 'pipeline' when 'from' is empty")
        if not self.as_path:
            raise _failed("must specify 'as' field for a $lookup")
        if (self.local is None) != (self.foreign is None) or (self.local is None and self.pipeline is None):
            raise _failed("$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified")
        if with_let and self.pipeline is None:
            raise _failed("$lookup with a 'let' argument must also specify 'pipeline'")


def _from(value: Value) -> str:
    if value[0] == OBJECT:
        check_namespace(value[1])
        raise _failed("$lookup reads collections of its own database")
    if value[0] != STRING:
        raise _failed(f"$lookup 'from' field must be a string, but found {type_name(value)}")
    return text_of(value)


def _failed(message: str) -> CommandError:
    return CommandError(Code.FailedToParse, message)


DECLARATIONS = (Declaration("$lookup", None, parse_nesting=_parse),)
