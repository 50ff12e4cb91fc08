"""The compiled and the interpreted kernel are the same thing."""

from __future__ import annotations

import os
import subprocess
import sys
from operator import attrgetter
from random import Random

import pytest

from docstore.errors import CommandError
from tests.unit.kernel import kernels
from tests.unit.kernel.samples import document, value

COMPILED = kernels.installed()
INTERPRETED = kernels.interpreted()


def test_the_second_copy_is_interpreted_and_leaves_the_first_in_place() -> None:
    assert not kernels.is_compiled(INTERPRETED)
    assert sys.modules["docstore.bson"] is COMPILED.bson
    assert sys.modules["docstore.bson.walk"] is COMPILED.bson.walk


@pytest.mark.skipif(not kernels.is_compiled(COMPILED), reason="the kernel is not compiled here")
def test_the_environment_can_ask_for_the_interpreted_kernel() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import docstore.bson.walk as walk; print(walk.__file__)"],
        env={**os.environ, "DOCSTORE_KERNEL": "interpreted"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip().endswith("walk.py")


def test_constants_are_the_same_in_c_and_in_python() -> None:
    for module in ("bson.walk", "bson.order", "match.predicate"):
        interpreted = vars(attrgetter(module)(INTERPRETED))
        compiled = vars(attrgetter(module)(COMPILED))
        names = [name for name, thing in interpreted.items() if name.isupper() and isinstance(thing, int)]
        assert names
        for name in names:
            assert compiled.get(name, interpreted[name]) == interpreted[name], name


def test_both_give_the_same_results_for_random_documents() -> None:
    rnd = Random(1)
    patterns = [[("a", 1)], [("a.b", -1), ("c", 1)], [("b", 1), ("a.0", -1)]]
    for _ in range(300):
        raw, other = document(rnd, 3), document(rnd, 3)
        one, two = value(rnd), value(rnd)
        assert COMPILED.elements(raw) == INTERPRETED.elements(raw)
        assert COMPILED.compare_documents(raw, other) == INTERPRETED.compare_documents(raw, other)
        assert COMPILED.compare(one, two) == INTERPRETED.compare(one, two)
        assert COMPILED.encode_key(one) == INTERPRETED.encode_key(one)
        assert COMPILED.encode_key(one, True) == INTERPRETED.encode_key(one, True)
        for fields in patterns:
            assert _keys(COMPILED, fields, raw) == _keys(INTERPRETED, fields, raw)


def _keys(kernel: object, fields: list[tuple[str, int]], raw: bytes) -> object:
    try:
        return kernel.KeyPattern(fields).keys(raw)  # type: ignore[attr-defined]
    except CommandError as error:
        return error.code
