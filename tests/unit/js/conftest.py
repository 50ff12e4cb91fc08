"""An isolate with the runtime's core loaded, and a way to move BSON in and out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from docstore.js.engine import Isolate
from docstore.js.runtime import CORE, source

TAIL = """
installGlobals({ decode: () => { at = 0; return readDocument(); },
  canonical, compareValues, wantOnly, readFields, compileFunction, compileCondition, joinedFields,
  at: (position) => { at = position; }, encode: (value) => { rewind(); writeDocument(value); return end; } });
return { input: () => bytes.buffer, output: () => output.buffer };
"""


class Runtime:
    """Evaluates expressions; `decode()` in them is the document put in by `load`."""

    def __init__(self) -> None:
        self.isolate = Isolate()
        self.isolate.evaluate(f"var entry = {source(CORE, input_bytes=1 << 20, further=(TAIL,))}")
        self._input = self.isolate.evaluate("entry.input()")

    def load(self, raw: bytes) -> None:
        assert isinstance(self._input, memoryview)
        self._input[: len(raw)] = raw

    def value(self, expression: str) -> object:
        """The JSON value of an expression, or the text of what it threw after "EXC "."""
        guarded = f"try {{ return JSON.stringify(({expression})) }} catch (e) {{ return JSON.stringify('EXC ' + e) }}"
        text = self.isolate.evaluate(f"(() => {{ {guarded} }})()")
        return None if text is None else json.loads(str(text))

    def encoded(self, expression: str) -> bytes:
        """The BSON of an object."""
        length = self.isolate.evaluate(f"encode({expression})")
        output = self.isolate.evaluate("entry.output()")
        assert isinstance(length, int)
        assert isinstance(output, memoryview)
        return bytes(output[:length])


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    runtime = Runtime()
    yield runtime
    runtime.isolate.close()
