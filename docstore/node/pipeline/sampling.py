"""Sampling by record ids: a leading `$sample` reads documents of random record ids instead of scanning all.

A record id is drawn uniformly between the first and the newest. One without a document, or drawn before, is drawn
again. So every document, and every order, is equally likely. It pays if the sample is small and most record ids are in
use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from docstore.aggregation.stage import DOING_MERGE, WILL_BE_MERGED, Pipeline
from docstore.aggregation.stages.sample import Sample, numbered
from docstore.collection.collection import Collection
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import last_long
from docstore.node.limits import MAX_SAMPLE_BYTES, MAX_SAMPLE_DOCUMENTS, MIN_SAMPLED_DOCUMENTS, MIN_SAMPLED_RATIO
from docstore.query.find import FindQuery
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

_THINNEST = 4
_DRAWS_EACH, _DRAWS = 16, 64


def drawn_documents(
    collection: Collection | None,
    query: FindQuery,
    rest: Pipeline,
    reader: Reader,
    owned: Predicate | None,
    dice: Callable[[], float],
) -> list[bytes] | None:
    """Return the documents of a leading `$sample` over all documents; None if sampling by record ids does not pay."""
    first = rest.stages[0] if rest.stages else None
    if collection is None or not isinstance(first, Sample) or first.mark == DOING_MERGE or query != FindQuery():
        return None
    size = first.size
    if collection.count < max(MIN_SAMPLED_DOCUMENTS, size * MIN_SAMPLED_RATIO) or size > MAX_SAMPLE_DOCUMENTS:
        return None
    key = next(iter(reader.keys(Family.RECORDS, collection.prefix, collection.end)), None)
    if key is None:
        return None
    lowest = last_long(key)
    span = collection.next_record_id - lowest
    if span > _THINNEST * collection.count:
        return None
    sample: dict[int, bytes] = {}
    room = MAX_SAMPLE_BYTES
    for _ in range(_DRAWS_EACH * size + _DRAWS):
        if len(sample) == size or room < 0:
            break
        record_id = lowest + int(dice() * span)
        raw = None if record_id in sample else collection.record(reader, record_id)
        if raw is not None and (owned is None or owned.matches(raw)):
            sample[record_id] = raw
            room -= len(raw)
    if len(sample) < size:
        return None
    documents = list(sample.values())
    return documents if first.mark != WILL_BE_MERGED else _numbered(documents, collection.count, dice)


def _numbered(documents: list[bytes], count: int, dice: Callable[[], float]) -> list[bytes]:
    """Return the documents with the greatest random numbers, as if all `count` stored documents had drawn one.

    Stored documents that the shard does not own count among them.
    """
    number, sent = 1.0, []
    for remaining, document in zip(range(count, 0, -1), documents, strict=False):
        number *= dice() ** (1 / remaining)
        sent.append(numbered(number, document))
    return sent
