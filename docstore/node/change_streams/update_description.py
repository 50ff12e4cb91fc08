"""`updateDescription` of update events: `{updatedFields, removedFields, truncatedArrays}` by dotted paths.

Expanded events also have `disambiguatedPaths`: the components of paths with a field name that is a number or contains a
dot.
"""

from __future__ import annotations

from docstore.bson import array_from, document_from, elements, from_python, get_field
from docstore.bson.walk import ARRAY, INT32, OBJECT, Value

_Parts = tuple[str | int, ...]


def update_description(o: bytes, *, expanded: bool = False) -> bytes:
    """Return the description for the `o` of an update entry with a diff."""
    diff = get_field(o, "diff")
    changes = _Changes()
    if diff is not None:
        changes.of_document(diff[1], "", ())
    return changes.described(expanded=expanded)


class _Changes:
    def __init__(self) -> None:
        self._updated: list[tuple[str, int, bytes]] = []
        self._removed: list[str] = []
        self._truncated: list[tuple[str, bytes]] = []
        self._ambiguous: dict[str, _Parts] = {}

    def of_document(self, diff: bytes, prefix: str, parts: _Parts) -> None:
        for name, _, data in elements(diff):
            if name in ("d", "u", "i"):
                for field, code, part in elements(data):
                    path = prefix + field
                    self._note(path, parts, field)
                    if name == "d":
                        self._removed.append(path)
                    else:
                        self._updated.append((path, code, part))
            else:
                self._inside(prefix + name[1:], data, (*parts, name[1:]))

    def _inside(self, path: str, diff: bytes, parts: _Parts) -> None:
        if get_field(diff, "a") is None:
            self.of_document(diff, path + ".", parts)
            return
        for name, code, data in elements(diff):
            if name == "l":
                self._truncated.append((path, data))
                self._note(path, parts[:-1], parts[-1])
            elif name[0] == "u":
                self._updated.append((f"{path}.{name[1:]}", code, data))
                self._note(f"{path}.{name[1:]}", parts, int(name[1:]))
            elif name[0] == "s":
                self._inside(f"{path}.{name[1:]}", data, (*parts, int(name[1:])))

    def _note(self, path: str, parts: _Parts, last: str | int) -> None:
        components = (*parts, last)
        if any(isinstance(part, str) and (part.isdecimal() or "." in part) for part in components):
            self._ambiguous[path] = components

    def described(self, *, expanded: bool) -> bytes:
        removed = [from_python(path) for path in self._removed]
        truncated: list[Value] = [
            (OBJECT, document_from([("field", *from_python(path)), ("newSize", INT32, size)]))
            for path, size in self._truncated
        ]
        fields = [
            ("updatedFields", OBJECT, document_from(self._updated)),
            ("removedFields", ARRAY, array_from(removed)),
            ("truncatedArrays", ARRAY, array_from(truncated)),
        ]
        if expanded and self._ambiguous:
            parts = (
                (path, ARRAY, array_from(map(from_python, components))) for path, components in self._ambiguous.items()
            )
            fields.append(("disambiguatedPaths", OBJECT, document_from(parts)))
        return document_from(fields)
