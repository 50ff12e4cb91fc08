"""Views: named pipelines over other collections.

A view is a document of its database's `system.views`, an ordinary collection: `{_id: namespace, viewOn, pipeline,
collation}`. So views replicate, roll back, are cloned and survive restarts as documents do.

`define_view` and `redefine_view` ensure:

- no cycle, by `viewOn` or by a collection that a pipeline stage reads;
- at most 20 views on top of each other;
- one collation for all views that build on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from docstore.bson import array_documents, array_value, document_from, elements, from_python, get_field, to_python
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, values
from docstore.collection.limits import MAX_CACHED_VIEW_BYTES
from docstore.collection.oplog.diff import REPLACED
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.query.value.collation import Collation, parse_collation
from docstore.query.value.notation import display

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store
    from docstore.collection.unit_of_work import WriteUnitOfWork

SYSTEM_VIEWS = "system.views"
MAX_DEPTH = 20
_READERS = {"$lookup": "from", "$graphLookup": "from", "$unionWith": "coll"}
"""Stages that read another collection, and the field that names it."""
NEVER_IN_VIEWS = frozenset(
    ("$changeStream", "$currentOp", "$documents", "$listLocalSessions", "$listSessions", "$merge", "$out")
)
"""Stages that write, and those that are about something else than a collection: who reads a view has rights on the
collection, and a shard reads it for a router as the cluster's own user.
"""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """`on`: the namespace below the view. `pipeline`: its raw stages. `collation`: that of all reads."""

    ns: str
    on: str
    pipeline: tuple[bytes, ...]
    collation: Collation | None = None

    @property
    def name(self) -> str:
        return split_namespace(self.ns)[1]

    def options(self) -> bytes:
        """Return the options that listCollections shows."""
        return document_from(self._fields())

    def document(self) -> bytes:
        """Return the document for `system.views`."""
        return document_from([("_id", *from_python(self.ns)), *self._fields()])

    def _fields(self) -> list[tuple[str, int, bytes]]:
        stages = array_value([(OBJECT, stage) for stage in self.pipeline])
        fields = [("viewOn", *from_python(split_namespace(self.on)[1])), ("pipeline", *stages)]
        return fields if self.collation is None else [*fields, ("collation", OBJECT, self.collation.raw)]


@dataclass(frozen=True, slots=True)
class ResolvedView:
    """A view resolved to its underlying collection, with the stages of all views in between, lowest first.

    All of them have the same collation.
    """

    ns: str
    pipeline: tuple[bytes, ...]
    collation: Collation | None = None


def find_view(store: Store, ns: str) -> ViewDefinition | None:
    """Return the view of that name."""
    database = split_namespace(ns)[0]
    coll = store.collection(f"{database}.{SYSTEM_VIEWS}")
    record = None if coll is None else coll.by_id(store.engine, from_python(ns))
    return None if record is None else _from_document(database, record[1])


def views_of(store: Store, database: str) -> list[ViewDefinition]:
    """Return the views of a database."""
    coll = store.collection(f"{database}.{SYSTEM_VIEWS}")
    return [] if coll is None else [_from_document(database, raw) for raw in coll.documents(store.engine)]


def resolve_view(store: Store, ns: str) -> ResolvedView | None:
    """Resolve a view to its collection and stages; None if the name is no view. Errors: ViewDepthLimitExceeded."""
    if ns in store.catalog.collections:
        return None
    view = find_view(store, ns)
    if view is None:
        return None
    stages = view.pipeline
    for _ in range(MAX_DEPTH - 1):
        below = None if view.on in store.catalog.collections else find_view(store, view.on)
        if below is None:
            return ResolvedView(view.on, stages, view.collation)
        view, stages = below, below.pipeline + stages
    raise _too_deep()


def is_view(store: Store, namespace: str) -> bool:
    """True if the namespace is a view."""
    return namespace not in store.catalog.collections and find_view(store, namespace) is not None


def check_no_view(store: Store, namespace: str) -> None:
    """Errors: CommandNotSupportedOnView if the namespace is a view."""
    if is_view(store, namespace):
        raise CommandError(Code.CommandNotSupportedOnView, f"Namespace {namespace} is a view, not a collection")


def define_view(store: Store, unit: WriteUnitOfWork, view: ViewDefinition) -> None:
    """Add a view. Errors: GraphContainsCycle, ViewDepthLimitExceeded; OptionNotSupportedOnView for another
    collation.
    """
    _check_graph(store, view)
    namespace = f"{split_namespace(view.ns)[0]}.{SYSTEM_VIEWS}"
    coll = store.collection(namespace) or store.create_collection(unit, namespace)
    unit.insert(coll, view.document())


def redefine_view(store: Store, unit: WriteUnitOfWork, view: ViewDefinition) -> None:
    """Replace the definition of an existing view. Errors: GraphContainsCycle, ViewDepthLimitExceeded."""
    _check_graph(store, view)
    coll, record_id, before = _stored(store, view.ns)
    unit.replace(coll, record_id, before, view.document(), paths=REPLACED)


def remove_view(store: Store, unit: WriteUnitOfWork, ns: str) -> None:
    """Remove an existing view."""
    unit.remove(*_stored(store, ns))


def _stored(store: Store, ns: str) -> tuple[Collection, int, bytes]:
    coll = store.collection(f"{split_namespace(ns)[0]}.{SYSTEM_VIEWS}")
    record = None if coll is None else coll.by_id(store.engine, from_python(ns))
    assert coll is not None, f"there is no view {ns}"
    assert record is not None, f"there is no view {ns}"
    return coll, *record


def _from_document(database: str, raw: bytes) -> ViewDefinition:
    return (_known_view if len(raw) <= MAX_CACHED_VIEW_BYTES else _parsed)(database, raw)


def _parsed(database: str, raw: bytes) -> ViewDefinition:
    """Return what a document of `system.views` says. Errors: InvalidViewDefinition if it is none that could have been
    created, as a damaged one, or one that somebody has restored.
    """
    fields = {name: (code, data) for name, code, data in elements(raw)}
    name, on, stages, rules = (fields.get(field) for field in ("_id", "viewOn", "pipeline", "collation"))
    if (
        name is None
        or name[0] != STRING
        or on is None
        or on[0] != STRING
        or (stages is not None and (stages[0] != ARRAY or any(code != OBJECT for code, _ in values(stages[1]))))
        or (rules is not None and rules[0] != OBJECT)
        or any(not NEVER_IN_VIEWS.isdisjoint(_names(data)) for _, data in (values(stages[1]) if stages else ()))
    ):
        raise CommandError(
            Code.InvalidViewDefinition,
            f"found invalid view definition {display((OBJECT, raw))} while reading '{database}.{SYSTEM_VIEWS}'",
        )
    pipeline = () if stages is None else tuple(array_documents(stages[1]))
    collation = None if rules is None else parse_collation(rules[1])
    return ViewDefinition(str(to_python(name)), f"{database}.{to_python(on)}", pipeline, collation)


def _names(raw: bytes) -> list[str]:
    return [name for name, _, _ in elements(raw)]


_known_view = lru_cache(maxsize=256)(_parsed)


def _check_graph(store: Store, view: ViewDefinition) -> None:
    """Check cycles and depth: down through everything the view reads, and up through everything that reads it."""
    database = split_namespace(view.ns)[0]
    views = {other.ns: other for other in views_of(store, database)} | {view.ns: view}
    graph = {ns: _reads(database, other) for ns, other in views.items()}
    _check_cycle(graph, view.ns)
    for ns, read in graph.items():
        for below in read:
            if view.ns in (ns, below) and below in views and views[below].collation != views[ns].collation:
                raise CommandError(
                    Code.OptionNotSupportedOnView, f"the collations of the views {ns} and {below} are not the same"
                )
    readers: dict[str, list[str]] = {}
    for ns, read in graph.items():
        for below in read:
            readers.setdefault(below, []).append(ns)
    if _longest_way(graph, view.ns, {}) + _longest_way(readers, view.ns, {}) - 1 > MAX_DEPTH + 1:
        raise _too_deep()


def _check_cycle(graph: dict[str, list[str]], start: str) -> None:
    """Errors: GraphContainsCycle if a path from `start` leads back to it."""
    paths: list[tuple[str, ...]] = [(start,)]
    view_names: set[str] = set()
    while paths:
        path = paths.pop()
        for below in graph.get(path[-1], ()):
            if below == start:
                raise CommandError(Code.GraphContainsCycle, f"View cycle detected: {' => '.join((*path, below))}")
            if below not in view_names:
                view_names.add(below)
                paths.append((*path, below))


def _longest_way(graph: dict[str, list[str]], ns: str, lengths: dict[str, int]) -> int:
    """Return the number of namespaces on the longest path from `ns`, both ends included. The graph must be acyclic."""
    if ns not in lengths:
        lengths[ns] = 1 + max((_longest_way(graph, other, lengths) for other in graph.get(ns, ())), default=0)
    return lengths[ns]


def _reads(database: str, view: ViewDefinition) -> list[str]:
    return [view.on, *(f"{database}.{name}" for name in collections_read(view.pipeline))]


def collections_read(stages: Sequence[bytes]) -> Iterator[str]:
    """Yield the names of other collections that a pipeline reads, sub-pipelines included."""
    for stage in stages:
        for name, code, data in elements(stage):
            yield from _read_by(name, (code, data))


def _read_by(stage: str, value: Value) -> Iterator[str]:
    code, data = value
    field = _READERS.get(stage)
    if field is not None and code == STRING:
        yield str(to_python(value))
    elif field is not None and code == OBJECT:
        named, inner = get_field(data, field), get_field(data, "pipeline")
        if named is not None and named[0] == STRING:
            yield str(to_python(named))
        if inner is not None and inner[0] == ARRAY:
            yield from _read_by_stages(inner[1])
    elif stage == "$facet" and code == OBJECT:
        for _, inner_code, inner_data in elements(data):
            if inner_code == ARRAY:
                yield from _read_by_stages(inner_data)


def _read_by_stages(raw: bytes) -> Iterator[str]:
    yield from collections_read([stage for code, stage in values(raw) if code == OBJECT])


def _too_deep() -> CommandError:
    return CommandError(Code.ViewDepthLimitExceeded, f"View depth too deep: at most {MAX_DEPTH} views may be nested")
