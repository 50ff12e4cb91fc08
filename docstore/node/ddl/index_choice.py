"""Index selection of `dropIndexes`: by name, by key pattern, by a list of names, or "*" for all but `_id_`."""

from __future__ import annotations

from docstore.bson import array_value, from_python
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, values
from docstore.collection.collection import Collection, Index
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.notation import display
from docstore.query.value.values import TYPE_NAMES

_STAR = from_python("*")
_ALL = (_STAR, array_value([_STAR]))


def drops_all(selector: Value) -> bool:
    """Return True if all indexes but `_id_` are selected."""
    return selector in _ALL


def chosen_indexes(collection: Collection, selector: Value) -> list[Index]:
    """Return the selected indexes.

    Errors: IndexNotFound, AmbiguousIndexKeyPattern, TypeMismatch; InvalidOptions for the `_id` index.
    """
    code, data = selector
    if code == STRING:
        return _by_names(collection, [text_of(data)])
    if code == ARRAY:
        members = values(data)
        for position, (kind, _) in enumerate(members):
            if kind != STRING:
                raise CommandError(
                    Code.TypeMismatch,
                    f"BSON field 'dropIndexes.index.{position}' is the wrong type '{TYPE_NAMES[kind]}', "
                    "expected type 'string'",
                )
        return _by_names(collection, [text_of(name) for _, name in members])
    if code != OBJECT:
        raise CommandError(
            Code.TypeMismatch,
            f"BSON field 'dropIndexes.index' is the wrong type '{TYPE_NAMES[code]}', expected types '[string, object]'",
        )
    matches = [index for index in collection.indexes.values() if index.key_id == encode_key(selector)]
    if not matches:
        raise CommandError(Code.IndexNotFound, f"can't find index with key: {display(selector)}")
    if len(matches) > 1:
        raise CommandError(
            Code.AmbiguousIndexKeyPattern,
            f"{len(matches)} indexes found for key: {display(selector)}, identify by name instead",
        )
    return [_droppable(matches[0])]


def _by_names(collection: Collection, names: list[str]) -> list[Index]:
    if names == ["*"]:
        return [index for index in collection.indexes.values() if not index.is_id]
    return [_named(collection, name) for name in dict.fromkeys(names)]


def _named(collection: Collection, name: str) -> Index:
    index = collection.indexes.get(name)
    if index is None:
        raise CommandError(Code.IndexNotFound, f"index not found with name [{name}]")
    return _droppable(index)


def _droppable(index: Index) -> Index:
    if index.spec.clustered:
        raise CommandError(5979800, "It is illegal to drop the clusteredIndex")
    if index.is_id:
        raise CommandError(Code.InvalidOptions, "cannot drop _id index")
    return index
