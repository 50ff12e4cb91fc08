"""What README.md and ARCHITECTURE.md name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED_PATH = re.compile(r"`((?:docstore|mongod|mongos|configsvr|shell|scripts|tests)/[\w./-]*)`")
NAMED_MODULE = re.compile(r"`((?:docstore|mongod|mongos|configsvr|shell)(?:\.\w+)+)")


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_named_paths_exist(name: str) -> None:
    text = read(name)
    assert not [path for path in NAMED_PATH.findall(text) if not (ROOT / path).exists()]


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_named_modules_exist(name: str) -> None:
    assert not [module for module in NAMED_MODULE.findall(read(name)) if not is_there(module)]


def read(name: str) -> str:
    path = ROOT / name
    if not path.exists():
        pytest.skip(f"there is no {name}")
    return path.read_text()


def is_there(module: str) -> bool:
    """Whether a dotted name is a package, a module, or something that a module's text defines."""
    parts = module.split(".")
    for depth in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:depth])
        rest = parts[depth:]
        if place.is_dir() and not rest:
            return True
        source = place.with_suffix(".py")
        if source.exists():
            return all(re.search(rf"\b{name}\b", source.read_text()) for name in rest)
    return False
