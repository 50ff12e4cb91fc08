"""The files of the page, read once. Their path has the hash of them all, so that browsers may keep them for ever."""

from __future__ import annotations

import hashlib
from importlib.resources import files

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PLACE = "{assets}"
_INDEX = "index.html"


class Assets:
    """`index`: the page itself, which names the others by their path."""

    def __init__(self) -> None:
        found = {each.name: each.read_bytes() for each in files("docstore.console.page").iterdir() if each.is_file()}
        served = {name: body for name, body in found.items() if _type_of(name) is not None}
        digest = hashlib.sha256()
        for name in sorted(served):
            digest.update(b"%d %s %d " % (len(name), name.encode(), len(served[name])) + served[name])
        self.version = digest.hexdigest()[:16]
        self.index = found[_INDEX].decode().replace(_PLACE, f"assets/{self.version}").encode()
        self._served = served

    def find(self, version: str, name: str) -> tuple[str, bytes] | None:
        """The type and the bytes of a file of the page; None for anything else."""
        body = self._served.get(name) if version == self.version else None
        return None if body is None else (f"{_type_of(name)}; charset=utf-8", body)


def _type_of(name: str) -> str | None:
    return next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), None)
