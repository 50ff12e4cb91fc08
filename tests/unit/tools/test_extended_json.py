"""Extended JSON of the tools: streams of documents, canonical and relaxed text."""

from __future__ import annotations

import io
from typing import Any

import pytest
from bson import Int64
from bson.datetime_ms import DatetimeMS

from docstore.tools.text.extended_json import MALFORMED, as_json, documents_of


class Dribble(io.StringIO):
    """Gives a character at a time, whatever is asked for."""

    def read(self, size: int | None = -1, /) -> str:
        return super().read(1)


@pytest.mark.parametrize("kind", [io.StringIO, Dribble])
def test_documents_of_a_stream(kind: type[io.StringIO]) -> None:
    found = [{"a": 1, "s": "}{"}, {"b": {"c": [1.0, None]}}, {}]
    text = '{"a":1,"s":"}{"}{"b":\n{"c":[1.0,null]}}\n\n {}\n'
    assert list(documents_of(kind(text), is_array=False)) == found
    array = ' [{"a":1,"s":"}{"} , {"b":{"c":[1.0,null]}},{}] \n'
    assert list(documents_of(kind(array), is_array=True)) == found
    assert list(documents_of(kind("[]"), is_array=True)) == []
    assert list(documents_of(kind(""), is_array=False)) == []


@pytest.mark.parametrize(
    ("text", "is_array"),
    [
        ("{", False), ('{"a":1', False), ("5", False), ("[{}]", False), ('{"a":NaN}', False), ("{} x", False),
        ("{}", True), ("[{}", True), ("[{},]", True), ("[{}] {}", True), ("[5]", True), ("", True),
        ('{"a":{"$oid":"x"}}', False), ('{"a":{"$numberLong":"x"}}', False),
    ],
)  # fmt: skip
def test_text_that_is_none(text: str, is_array: bool) -> None:
    with pytest.raises(MALFORMED):
        list(documents_of(io.StringIO(text), is_array=is_array))


def test_canonical_and_relaxed() -> None:
    document: dict[str, Any] = {
        "n": 1,
        "long": Int64(1),
        "x": 1.0,
        "t": DatetimeMS(0),
        "far": DatetimeMS(1 << 60),
        "ä": "é",
    }
    canonical = (
        '{"n":{"$numberInt":"1"},"long":{"$numberLong":"1"},"x":{"$numberDouble":"1.0"},'
        '"t":{"$date":{"$numberLong":"0"}},"far":{"$date":{"$numberLong":"1152921504606846976"}},"ä":"é"}'
    )
    relaxed = (
        '{"n":1,"long":1,"x":1.0,"t":{"$date":"1970-01-01T00:00:00Z"},'
        '"far":{"$date":{"$numberLong":"1152921504606846976"}},"ä":"é"}'
    )
    assert as_json(document) == canonical
    assert as_json(document, relaxed=True) == relaxed
    assert as_json({"a": [1]}, relaxed=True, pretty=True) == '{\n\t"a": [\n\t\t1\n\t]\n}'
    assert list(documents_of(io.StringIO(canonical), is_array=False)) == [document]
