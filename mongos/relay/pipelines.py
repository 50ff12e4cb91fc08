"""Which pipelines are relayed: those that write nothing, run no scripts, and read of other collections only what the
shard has.

Always true: what is relayed would have been sent to that shard as a whole (`mongos.merge.pipelines`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from docstore.bson import OBJECT, elements, get_field
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, INT64, STRING, Value, values
from docstore.commands.arguments import Arguments
from docstore.query.value.values import text_of
from mongos.relay.targets import Aim, Language, NamespaceTargets

_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$bucketAuto", "$count", "$densify", "$facet", "$group", "$limit", "$match",
        "$project", "$redact", "$replaceRoot", "$replaceWith", "$sample", "$set", "$setWindowFields", "$skip", "$sort",
        "$sortByCount", "$unset", "$unwind",
    )
)  # fmt: skip
_READING = {"$graphLookup": "from", "$lookup": "from", "$unionWith": "coll"}
"""Where those say what they read that read another collection."""
_SCRIPTS = (b"$function\0", b"$accumulator\0", b"$where\0")
_MOST_BYTES = 4096


def of_pipeline(arguments: Arguments, targets: NamespaceTargets, language: Language) -> Aim | None:
    """The shard that an aggregate is for as a whole, by the `$match` in front."""
    stages: Sequence[bytes] = arguments["pipeline"]
    if not isinstance(arguments.value, str) or not is_plain_cursor(arguments["cursor"]):
        return None
    filter_ = leading_filter(stages)
    behind = stages if filter_ is None else stages[1:]
    if leading_filter(behind) is not None:
        # Both say where the documents are.
        return None
    others = read_beside(tuple(behind)) if are_few(behind) else None
    aim = None if others is None else targets.of_filter(filter_ or EMPTY_DOCUMENT, language)
    if aim is None or not others:
        return aim
    beside = targets.beside(others, aim.shard)
    return None if beside is None else aim._replace(more=beside)


def are_few(stages: Sequence[bytes]) -> bool:
    """Whether stages are short enough to be looked at, and to be remembered."""
    return sum(map(len, stages)) <= _MOST_BYTES


def leading_filter(stages: Sequence[bytes]) -> bytes | None:
    """What stands in the `$match` in front; None where there is none."""
    fields = elements(stages[0]) if stages else []
    return fields[0][2] if len(fields) == 1 and fields[0][:2] == ("$match", OBJECT) else None


@lru_cache(maxsize=512)
def read_beside(stages: tuple[bytes, ...]) -> frozenset[str] | None:
    """The other collections that stages read; None where they are not all of those that are relayed."""
    found: set[str] = set()
    for stage in stages:
        fields = elements(stage)
        if len(fields) != 1 or any(each in stage for each in _SCRIPTS):
            return None
        name, code, data = fields[0]
        read: Iterable[str] | None
        if name == "$facet":
            read = _of_each([(kind, each) for _, kind, each in elements(data)]) if code == OBJECT else None
        elif name in _READING:
            read = _of_reading(code, data, _READING[name])
        else:
            read = () if name in _STAGES else None
        if read is None:
            return None
        found.update(read)
    return frozenset(found)


def _of_reading(code: int, data: bytes, field: str) -> set[str] | None:
    """What a stage reads that names a collection in that field, and may have a pipeline over it."""
    if code == STRING:
        return {text_of((code, data))} if field == "coll" else None
    fields = {name: (kind, value) for name, kind, value in elements(data)} if code == OBJECT else {}
    name, pipeline = fields.get(field), fields.get("pipeline")
    if name is None or name[0] != STRING:
        return None
    inner = frozenset[str]() if pipeline is None else _of_each([pipeline])
    return None if inner is None else {text_of(name), *inner}


def _of_each(pipelines: Iterable[Value]) -> frozenset[str] | None:
    """What the stages of several pipelines read."""
    found: set[str] = set()
    for code, data in pipelines:
        stages = values(data) if code == ARRAY else [(code, data)]
        inner = read_beside(tuple([raw for _, raw in stages])) if all(kind == OBJECT for kind, _ in stages) else None
        if inner is None:
            return None
        found |= inner
    return frozenset(found)


def is_plain_cursor(cursor: bytes | None) -> bool:
    """Whether it says nothing, or how many documents are wanted at first."""
    if cursor is None:
        return False
    if cursor == EMPTY_DOCUMENT:
        return True
    size = get_field(cursor, "batchSize")
    return size is not None and size[0] in (INT32, INT64) and size[1][-1] < 0x80
