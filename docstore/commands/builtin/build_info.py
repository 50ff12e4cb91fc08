"""buildInfo: the MongoDB version whose behaviour drivers may expect, and what this server really is (`docstore`)."""

from __future__ import annotations

import platform

import docstore
from docstore.bson.compilation import kernel_form
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import PUBLIC, Command, Result, Role
from docstore.commands.limits import COMPATIBLE_VERSION, MAX_DOCUMENT_BYTES


def run(_context: Context, _arguments: Arguments) -> Result:
    return {
        "version": COMPATIBLE_VERSION,
        "gitVersion": "none",
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "v8",
        "sysInfo": "deprecated",
        "versionArray": [*map(int, COMPATIBLE_VERSION.split(".")), 0],
        "docstore": {
            "version": docstore.__version__,
            "python": platform.python_version(),
            "kernel": kernel_form(),
        },
        "buildEnvironment": {"target_arch": platform.machine(), "target_os": platform.system().lower()},
        "bits": 64,
        "debug": False,
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "storageEngines": ["inMemory", "rocksdb"],
    }


COMMAND = Command(
    "buildInfo", run, aliases=("buildinfo",), privilege=PUBLIC, role=Role.ANY, tolerant=True,
    help="version and build of this server",
)  # fmt: skip
