"""What rollbacks have kept below a database directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bson


def kept_documents(dbpath: Path, ns: str) -> list[dict[str, Any]]:
    """The documents of a collection in all files that the index names for it."""
    directory = dbpath / "rollback"
    lines = (directory / "namespaces.json").read_text().splitlines()
    files = [line["file"] for line in map(json.loads, lines) if line["ns"] == ns]
    return [document for name in files for document in bson.decode_all((directory / name).read_bytes())]
