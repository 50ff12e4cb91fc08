"""The fields of a document that determine its entries in an index."""

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
    """Return the places (`docstore.query.value.places`) outside of which a change affects neither entries nor coverage.

    None if they are not evident: any place may.
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
    """Yield whole top-level fields: an empty document on a path has an entry of its own."""
    yield from wildcard.tree


def _in_text(text: TextKeys) -> Iterator[str]:
    """Yield the text fields, and the fields with the language of each document around them."""
    yield text.override
    for path, _ in text.weights:
        yield path
        for around in accumulate(path.split(".")[:-1], "{}.{}".format):
            yield f"{around}.{text.override}"
