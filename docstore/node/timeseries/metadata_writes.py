"""Deletes and updates of measurements by metadata, executed on whole buckets.

Such a statement filters by metadata only, is `multi`, and changes only metadata. Its results are counted in
measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from docstore.bson import ARRAY, OBJECT, STRING, Value, document_from, elements, from_python, values
from docstore.errors import Code, CommandError
from docstore.node.timeseries.indexes import bucket_choice
from docstore.node.timeseries.series import Series
from docstore.node.write.delete import DeleteStatement
from docstore.node.write.update_statements import UpdateStatement
from docstore.query.value.values import text_of
from docstore.timeseries.buckets import measurement_count
from docstore.timeseries.conditions import of_metadata, renamed_metadata

_SAID_BESIDE = frozenset(("$comment",))


def measured_weight(series: Series) -> Callable[[bytes], int]:
    """Return a function that counts the measurements of a bucket."""
    return partial(measurement_count, time_field=series.definition.time_field)


def bucket_delete(series: Series, statement: DeleteStatement) -> DeleteStatement:
    """Return the delete of the buckets. Errors: IllegalOperation, InvalidOptions."""
    if not statement.multi:
        raise CommandError(Code.IllegalOperation, "Cannot perform a non-multi delete on a time-series collection")
    return statement._replace(filter=_filter(series, statement.filter), hint=_hint(series, statement.hint))


def bucket_update(series: Series, statement: UpdateStatement) -> UpdateStatement:
    """Return the update of the buckets. Errors: InvalidOptions."""
    if not statement.multi:
        raise _refused("Cannot perform a non-multi update on a time-series collection")
    if statement.upsert:
        raise _refused("Cannot perform an upsert on a time-series collection")
    if statement.update[0] != OBJECT:
        raise _refused("Cannot perform an update on a time-series collection using a pipeline update")
    return statement._replace(
        filter=_filter(series, statement.filter),
        update=(OBJECT, _update(series, statement.update[1])),
        hint=_hint(series, statement.hint),
    )


def _hint(series: Series, hint: Value | None) -> Value | None:
    if hint is None or (hint[0] == OBJECT and any(name.startswith("$") for name, _, _ in elements(hint[1]))):
        # `$natural` applies to buckets as well.
        return hint
    return bucket_choice(series, hint)


def _filter(series: Series, raw: bytes) -> bytes:
    fields = [field for field in elements(raw) if field[0] not in _SAID_BESIDE]
    if not fields:
        return document_from(fields)
    if _computes(raw):
        raise _refused("Cannot use $expr when performing an update or delete on a time-series collection")
    metadata_filter = of_metadata(document_from(fields), series.definition.meta_field)
    if metadata_filter is None:
        raise _refused(
            "Cannot perform an update or delete on a time-series collection when querying on a field that is not the "
            f"metaField{_named(series)}"
        )
    return metadata_filter


def _computes(raw: bytes) -> bool:
    for name, code, data in elements(raw):
        if name == "$expr":
            return True
        if code == ARRAY and name.startswith("$"):
            return any(kind == OBJECT and _computes(member) for kind, member in values(data))
    return False


def _update(series: Series, raw: bytes) -> bytes:
    operators: list[tuple[str, int, bytes]] = []
    for operator, code, data in elements(raw):
        if not operator.startswith("$"):
            raise _refused("Cannot perform an update on a time-series collection using a replacement document")
        changed = elements(data) if code == OBJECT else []
        fields: list[tuple[str, int, bytes]] = []
        for path, kind, value in changed:
            fields.append((_renamed(series, path), kind, value))
            if operator == "$rename" and kind == STRING:
                fields[-1] = (fields[-1][0], *from_python(_renamed(series, text_of((kind, value)))))
        operators.append((operator, code, document_from(fields) if code == OBJECT else data))
    return document_from(operators)


def _renamed(series: Series, path: str) -> str:
    metadata_path = renamed_metadata(path, series.definition.meta_field)
    if metadata_path is None:
        raise _refused(
            "Cannot perform an update on a time-series collection which updates a field that is not the "
            f"metaField{_named(series)}"
        )
    return metadata_path


def _named(series: Series) -> str:
    meta_field = series.definition.meta_field
    return "" if meta_field is None else f" '{meta_field}'"


def _refused(reason: str) -> CommandError:
    return CommandError(Code.InvalidOptions, reason)
