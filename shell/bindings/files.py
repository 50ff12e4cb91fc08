"""The shell's functions on files of its machine, by the names that the prelude calls."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _entries(path: str) -> list[str]:
    """Names as the shell has always listed them: with the path before, and a slash behind a directory."""
    return [f"{entry}/" if entry.is_dir() else str(entry) for entry in sorted(Path(path).iterdir())]


def _details(path: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for entry in sorted(Path(path).iterdir()):
        details: dict[str, Any] = {"name": str(entry), "baseName": entry.name, "isDirectory": entry.is_dir()}
        if not entry.is_dir():
            details["size"] = entry.stat().st_size
        entries.append(details)
    return entries


def _make(path: str) -> dict[str, bool]:
    already_exists = Path(path).is_dir()
    Path(path).mkdir(parents=True, exist_ok=True)
    return {"exists": True, "created": not already_exists}


def _write(path: str, text: str) -> None:
    with Path(path).open("x", encoding="utf-8") as file:
        file.write(text)


def _remove(path: str) -> bool:
    target = Path(path)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    elif target.exists() or target.is_symlink():
        target.unlink()
    else:
        return False
    return True


def _copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)


def _md5(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "read": _read, "pwd": os.getcwd, "cd": os.chdir, "ls": _entries, "files": _details, "mkdir": _make,
    "writeFile": _write, "copyFile": _copy, "removeFile": _remove, "md5": _md5,
}  # fmt: skip
