"""The files of the page, read once. Their path has the hash of them all, so that browsers may keep them for ever.

The shell's JavaScript is one of them, where the shell is installed: it stands above this package, so it is looked for
by its name.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from importlib.resources import files

import docstore
from docstore.js.runtime import CORE, source

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PLACE = "{assets}"
_INDEX = "index.html"
SHELL_WORKER = "shell_worker.js"
_SHELL = "shell.prelude"
_SHELL_RUNTIME = "shell_runtime.js"
_SHELL_BYTES = 17 << 20
"""Room for the longest document that the shell in the page sends or gets."""


class Assets:
    """`index`: the page itself, which names the others by their path."""

    def __init__(self) -> None:
        bodies = {
            entry.name: entry.read_bytes() for entry in files("docstore.console.page").iterdir() if entry.is_file()
        }
        served = {name: body for name, body in bodies.items() if _type_of(name) is not None}
        runtime = _shell_runtime()
        self.has_shell = runtime is not None
        if runtime is not None:
            served[_SHELL_RUNTIME] = runtime
        digest = hashlib.sha256()
        for name in sorted(served):
            digest.update(b"%d %s %d " % (len(name), name.encode(), len(served[name])) + served[name])
        self.version = digest.hexdigest()[:16]
        self.index = bodies[_INDEX].decode().replace(_PLACE, f"assets/{self.version}").encode()
        self._served = served

    def find(self, version: str, name: str) -> tuple[str, bytes] | None:
        """The type and the bytes of a file of the page; None for anything else."""
        body = self._served.get(name) if version == self.version else None
        return None if body is None else (f"{_type_of(name)}; charset=utf-8", body)


def _shell_runtime() -> bytes | None:
    """A script that hands the shell's entry points to the worker, as a global name that the worker takes away; None
    where there is no shell.
    """
    try:
        prelude: tuple[str, ...] = import_module(_SHELL).texts()
    except ModuleNotFoundError:
        return None
    runtime = source(CORE, input_bytes=_SHELL_BYTES, fixed_output=_SHELL_BYTES, further=prelude)
    return f'self.shellEntry = {{ VERSION: "{docstore.__version__}", shell: {runtime} }};\n'.encode()


def _type_of(name: str) -> str | None:
    return next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), None)
