"""The JavaScript of docstore: BSON types, codec, `tojson`, order, and the parts specific to the server and the shell.

The files are made to be joined: each is a run of declarations in one strict function, so that they see each other's
names and user code sees none of them. The last file joined returns the object for Python.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

CORE = ("values", "decimal", "dates", "parse", "compile", "decode", "encode", "tojson", "order", "globals")
SERVER = (*CORE, "mapreduce", "group", "evaluate", "server")


@cache
def source(names: tuple[str, ...], *, input_bytes: int, fixed_output: int = 0, further: tuple[str, ...] = ()) -> str:
    """Return one expression whose value is the result of the last file.

    `input_bytes`: the capacity of the decoder's buffer. The encoder's buffer grows and moves, unless `fixed_output`
    gives its size: then it stays in place, and larger output is refused. `further`: texts of files from elsewhere
    (the shell's), joined after the named ones.
    """
    package = resources.files(__name__)
    files = [(package / f"{name}.js").read_text(encoding="utf-8") for name in names]
    body = "\n".join((*files, *further))
    return f'(function (INPUT_BYTES, FIXED_OUTPUT) {{ "use strict";\n{body}\n}})({input_bytes}, {fixed_output})'
