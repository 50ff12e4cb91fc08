"""What an update's entry says it changed, by dotted paths: `{updatedFields, removedFields, truncatedArrays}`."""

from __future__ import annotations

from docstore.bson import array_from, document_from, elements, from_python, get_field
from docstore.bson.walk import INT32, OBJECT, Value


def update_description(o: bytes) -> bytes:
    """Of the `o` of an update entry with a diff."""
    diff = get_field(o, "diff")
    found = _Changes()
    if diff is not None:
        found.of_document(diff[1], "")
    return found.described()


class _Changes:
    def __init__(self) -> None:
        self._updated: list[tuple[str, int, bytes]] = []
        self._removed: list[str] = []
        self._truncated: list[tuple[str, bytes]] = []

    def of_document(self, diff: bytes, prefix: str) -> None:
        for name, _, data in elements(diff):
            if name == "d":
                self._removed += [prefix + field for field, _, _ in elements(data)]
            elif name in ("u", "i"):
                self._updated += [(prefix + field, code, part) for field, code, part in elements(data)]
            else:
                self._inside(prefix + name[1:], data)

    def _inside(self, path: str, diff: bytes) -> None:
        if get_field(diff, "a") is None:
            self.of_document(diff, path + ".")
            return
        for name, code, data in elements(diff):
            if name == "l":
                self._truncated.append((path, data))
            elif name[0] == "u":
                self._updated.append((f"{path}.{name[1:]}", code, data))
            elif name[0] == "s":
                self._inside(f"{path}.{name[1:]}", data)

    def described(self) -> bytes:
        removed = [from_python(path) for path in self._removed]
        truncated: list[Value] = [
            (OBJECT, document_from([("field", *from_python(path)), ("newSize", INT32, size)]))
            for path, size in self._truncated
        ]
        return document_from(
            [
                ("updatedFields", OBJECT, document_from(self._updated)),
                ("removedFields", 4, array_from(removed)),
                ("truncatedArrays", 4, array_from(truncated)),
            ]
        )
