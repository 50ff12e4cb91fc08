"""On which places of a document its entries in an index depend."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from docstore.collection.index.key_fields import is_wildcard
from docstore.collection.index.spec import IndexSpec
from docstore.collection.index.text_options import TERMS
from docstore.query.filter.tree import named_paths
from docstore.query.plan.wildcard import WildcardPaths
from docstore.query.text.terms import EVERYWHERE, TextKeys
from docstore.query.value.places import read_place


def places_read(spec: IndexSpec) -> frozenset[bytes] | None:
    """The places (`docstore.query.value.places`), so that a change elsewhere changes no entry, nor which documents the
    index holds; None where that is not plain to see: it may be any place.
    """
    paths = [path for path, _ in spec.fields if path != TERMS and not is_wildcard(path)]
    if spec.partial is not None:
        paths += named_paths(spec.partial)
    if spec.wildcard is not None:
        if spec.wildcard.excluding:
            return None
        paths += _in_wildcard(spec.wildcard)
    if spec.text is not None:
        if any(path == EVERYWHERE for path, _ in spec.text.weights):
            return None
        paths += _in_text(spec.text)
    return frozenset(map(read_place, paths))


def _in_wildcard(wildcard: WildcardPaths) -> Iterator[str]:
    """Whole top-level fields: that a document on the way is empty has an entry of its own."""
    yield from wildcard.tree


def _in_text(text: TextKeys) -> Iterator[str]:
    """The texts, and what names the language of each document around them."""
    yield text.override
    for path, _ in text.weights:
        yield path
        for around in accumulate(path.split(".")[:-1], "{}.{}".format):
            yield f"{around}.{text.override}"
