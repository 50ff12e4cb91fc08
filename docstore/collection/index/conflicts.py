"""The one place that decides if a new index conflicts with the existing indexes of a collection."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.collection.index.spec import IndexSpec
from docstore.errors import Code, CommandError


def is_among(spec: IndexSpec, specs: Iterable[IndexSpec]) -> bool:
    """True if an identical index exists among `specs`.

    Errors, if a similar one exists: IndexKeySpecsConflict, IndexOptionsConflict, CannotCreateIndex.
    """
    specs = list(specs)
    for other in specs:
        if other.name == spec.name:
            if not other.holds_the_same(spec):
                raise CommandError(
                    Code.IndexKeySpecsConflict,
                    f"An index named {spec.name} with another key or other options exists already",
                )
            if other.expire_after != spec.expire_after or other.other_options != spec.other_options:
                raise CommandError(
                    Code.IndexOptionsConflict, f"An equivalent index with other options exists already: {spec.name}"
                )
            return True
    for other in specs:
        if spec.text is not None and other.text is not None and other.key != spec.key:
            raise CommandError(
                Code.CannotCreateIndex,
                f'only one text index per collection allowed, found existing text index "{other.name}"',
            )
        if other.holds_the_same(spec):
            raise CommandError(Code.IndexOptionsConflict, f"Index already exists with a different name: {other.name}")
    return False
