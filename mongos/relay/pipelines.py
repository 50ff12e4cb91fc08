"""Which pipelines are relayed: those that read one collection and nothing else, write nothing, and run no scripts.

Always true: what is relayed would have been sent to that shard as a whole (`mongos.merge.pipelines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from docstore.bson import OBJECT, elements, get_field
from docstore.bson.walk import ARRAY, EMPTY_DOCUMENT, INT32, INT64, Value, values
from docstore.commands.arguments import Arguments
from mongos.relay.targets import Aim, Language, NamespaceTargets

_STAGES = frozenset(
    (
        "$addFields", "$bucket", "$bucketAuto", "$count", "$densify", "$facet", "$group", "$limit", "$match",
        "$project", "$redact", "$replaceRoot", "$replaceWith", "$sample", "$set", "$setWindowFields", "$skip", "$sort",
        "$sortByCount", "$unset", "$unwind",
    )
)  # fmt: skip
_SCRIPTS = (b"$function\0", b"$accumulator\0", b"$where\0")
_MOST_BYTES = 4096


def of_pipeline(arguments: Arguments, targets: NamespaceTargets, language: Language) -> Aim | None:
    """The shard that an aggregate is for as a whole, by the `$match` in front."""
    stages: Sequence[bytes] = arguments["pipeline"]
    if not isinstance(arguments.value, str) or not _is_plain_cursor(arguments["cursor"]):
        return None
    filter_ = leading_filter(stages)
    behind = stages if filter_ is None else stages[1:]
    if leading_filter(behind) is not None:
        # Both say where the documents are.
        return None
    if sum(map(len, behind)) > _MOST_BYTES or not are_plain(tuple(behind)):
        return None
    return targets.of_filter(filter_ or EMPTY_DOCUMENT, language)


def leading_filter(stages: Sequence[bytes]) -> bytes | None:
    """What stands in the `$match` in front; None where there is none."""
    fields = elements(stages[0]) if stages else []
    return fields[0][2] if len(fields) == 1 and fields[0][:2] == ("$match", OBJECT) else None


@lru_cache(maxsize=512)
def are_plain(stages: tuple[bytes, ...]) -> bool:
    """Whether stages are of those that are relayed."""
    for stage in stages:
        fields = elements(stage)
        if len(fields) != 1 or fields[0][0] not in _STAGES or any(each in stage for each in _SCRIPTS):
            return False
        name, code, data = fields[0]
        if name == "$facet":
            inner = elements(data) if code == OBJECT else []
            if not all(kind == ARRAY and _are_stages(values(each)) for _, kind, each in inner):
                return False
    return True


def _are_stages(found: list[Value]) -> bool:
    return all(code == OBJECT for code, _ in found) and are_plain(tuple(raw for _, raw in found))


def _is_plain_cursor(cursor: bytes | None) -> bool:
    """Whether it says nothing, or how many documents are wanted at first."""
    if cursor is None:
        return False
    if cursor == EMPTY_DOCUMENT:
        return True
    size = get_field(cursor, "batchSize")
    return size is not None and size[0] in (INT32, INT64) and size[1][-1] < 0x80
