"""The text index of a sharded collection, for scores calculated on the router.

Shards order by text scores that they calculate from the documents. The merge on the router calculates the same
scores, and so needs the fields, weights and language of the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.namespace import split_namespace
from docstore.query.filter.special_conditions import special_condition
from docstore.query.filter.tree import Filter, TextSearch
from docstore.query.text.languages import language_named
from docstore.query.text.terms import TextKeys
from mongos.router import router_of

if TYPE_CHECKING:
    from collections.abc import Iterable


async def settle_text_search(context: Context, namespace: str, tree: Filter, shard: str) -> None:
    """Give the `$text` of a filter, if any, the text index of the shard that answers it. Without an index the filter
    stays unchanged: the shards refuse it.
    """
    text = special_condition(tree)
    if not isinstance(text, TextSearch):
        return
    target_shard = await router_of(context).shards.of_routing(shard)
    database, collection = split_namespace(namespace)
    body = {"listIndexes": collection, "cursor": {}}
    answer = await target_shard.command(database, body, repeatable=True, deadline=context.deadline)
    keys = _text_keys(document_to_python(answer.body)["cursor"]["firstBatch"])
    if keys is not None:
        text.matcher.settle(text.search, text.language, text.exactness, keys)


def _text_keys(indexes: Iterable[dict[str, Any]]) -> TextKeys | None:
    """Return the keys of the text index among the index specifications; None if there is none."""
    for index in indexes:
        if "textIndexVersion" in index:
            language = language_named(index["default_language"])
            assert language is not None, "the shard has made an index of it"
            weights = tuple((path, int(weight)) for path, weight in index["weights"].items())
            return TextKeys(weights, language, index["language_override"])
    return None
