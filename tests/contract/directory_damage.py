"""Damages the files of data directories as a seed says."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

KINDS = (
    "CURRENT", "MANIFEST", "OPTIONS", "IDENTITY", "log", "sst", "DOCSTORE", "SYNCED", "LOG", "mongod.lock",
    "rocksdict-config.json", "rollback", "RESTORED", "journal", "several",
)  # fmt: skip
WEIGHTS = [3 if kind in ("MANIFEST", "log", "sst") else 1 for kind in KINDS]
HARMLESS = ("OPTIONS", "IDENTITY", "LOG", "mongod.lock", "rocksdict-config.json", "rollback", "RESTORED")
_ACTIONS = (
    "flip", "flip", "cut", "zero", "noise", "splice", "remove", "append", "empty", "swap", "swap", "foreign", "foreign",
)  # fmt: skip
_BLOCK_BYTES = (32_768, 32_768, 4096, 512)


def files_of(directory: Path, kind: str) -> list[str]:
    """Return the files of a kind by their names below the directory; all if it is empty."""
    prefix = {"MANIFEST": "MANIFEST-", "OPTIONS": "OPTIONS-", "rollback": "rollback/"}.get(kind, kind)
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and file.parts[-2] != "damaged"]
    names = [str(file.relative_to(directory)) for file in files]
    if kind in ("log", "sst"):
        return [name for name in names if name.endswith(f".{kind}")]
    return [name for name in names if name.startswith(prefix) or (kind == "journal" and name.endswith("/journal"))]


def damage(directory: Path, kind: str, rng: random.Random, foreign: Callable[[], Path]) -> str:
    """Do something to a file of the kind, or to any if it is empty; say what. `foreign` makes another directory."""
    if kind == "several":
        return _remove_several(directory, rng)
    suitable = files_of(directory, kind)
    if not suitable:
        return "nothing"
    name = rng.choice(suitable)
    file = directory / name
    content = bytearray(file.read_bytes())
    size = len(content)
    action = rng.choice(_ACTIONS)
    at, end = sorted((rng.randrange(size + 1), rng.randrange(size + 1)))
    if action == "flip" and size:
        at = rng.randrange(size)
        content[at] ^= 1 << rng.randrange(8)
    elif action == "cut":
        del content[at:]
    elif action == "zero":
        content[at:end] = bytes(end - at)
    elif action == "noise":
        content[at:end] = rng.randbytes(end - at)
    elif action == "splice":
        del content[at:end]
    elif action == "append":
        content += rng.randbytes(rng.randrange(1, 5000))
    elif action == "empty":
        content.clear()
    elif action == "swap":
        at, end = _swap_blocks(content, rng)
    elif action == "foreign":
        other = foreign()
        names = [each for each in files_of(other, kind) if each == name] or files_of(other, kind)
        if names:
            content = bytearray((other / rng.choice(names)).read_bytes())
            if rng.random() < 0.5:
                del content[size:]
    if action == "remove":
        file.unlink()
    else:
        file.write_bytes(content)
    return f"{action} {name} [{at}, {end}) of {size}"


def _swap_blocks(content: bytearray, rng: random.Random) -> tuple[int, int]:
    """Change two blocks for each other; return where they begin."""
    size = rng.choice(_BLOCK_BYTES)
    blocks = len(content) // size
    if blocks < 2:
        return 0, 0
    one, other = (block * size for block in sorted(rng.sample(range(blocks), 2)))
    content[one : one + size], content[other : other + size] = (
        content[other : other + size],
        content[one : one + size],
    )
    return one, other


def _remove_several(directory: Path, rng: random.Random) -> str:
    """Remove files of several kinds, as a copy that forgot them; say which."""
    kinds = ["DOCSTORE", "SYNCED"] if rng.random() < 0.7 else rng.sample(("DOCSTORE", "SYNCED", "CURRENT", "sst"), 2)
    names = [name for kind in kinds for name in files_of(directory, kind) if "/" not in name]
    logs = [name for name in files_of(directory, "log") if "/" not in name]
    fate = rng.choice(("kept", "removed", "empty"))
    for name in names + (logs if fate == "removed" else []):
        (directory / name).unlink()
    for name in logs if fate == "empty" else ():
        (directory / name).write_bytes(b"")
    return f"removed {', '.join(names)}; logs {fate}"
