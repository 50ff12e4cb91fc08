"""The fields of `this` that a map function can read, found in its source text.

Decoding only those fields halves the cost of a map over wide documents. The result must never be too small: a
document must look the same to the function whether it is decoded whole or in part. The analysis works on text, not on
a syntax tree, and returns None (every field may be read) whenever it is not certain:

- each occurrence of the word `this`, in comments and strings too, must be `this.name` with a plain ASCII name;
- the text after the name must not be able to call it (`this.name(...)` passes the whole document as receiver). A
  bracket, a template, optional chaining, and anything that may start a comment and hide one of them, end the
  analysis;
- the words that can reach `this` by another way end it too: `eval`, `with`, `Function`, `constructor`, `arguments`,
  `super` and accessor definitions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_THIS = re.compile(r"(?<![\w$])this(?![\w$])")
_FIELD = re.compile(r"\s*\.\s*([A-Za-z_$][A-Za-z0-9_$]*)(?![\w$\\]|[^\x00-\x7f])")
_HARMLESS_NEXT = re.compile(r"\s*(?:[;,)\]}.\[=+*%&|^:>]|!=|-(?!->)|<(?!!--)|\?(?![.])|(?:in|of|instanceof)\b|$)")
_OTHER_WAYS = re.compile(
    r"(?<![\w$])(?:eval|with|Function|constructor|arguments|super|prototype|__proto__|"
    r"__defineGetter__|__defineSetter__|defineProperty|defineProperties)(?![\w$])|\\"
)


def fields_read(map_source: str, other_sources: Sequence[str] = ()) -> list[str] | None:
    """Names of the top-level fields that `map_source` can read, or None when it may read any.

    The other functions of the job run in the same global environment and could define accessors there, so they must
    be free of the other ways to reach `this` as well, and may not mention it at all.
    """
    for source in other_sources:
        if _THIS.search(source) or _OTHER_WAYS.search(source):
            return None
    if _OTHER_WAYS.search(map_source):
        return None
    names: list[str] = []
    for occurrence in _THIS.finditer(map_source):
        field = _FIELD.match(map_source, occurrence.end())
        if field is None or not _HARMLESS_NEXT.match(map_source, field.end()):
            return None
        if field[1] not in names:
            names.append(field[1])
    return names
