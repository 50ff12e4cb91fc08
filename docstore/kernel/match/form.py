"""The form of a filter: its query shape as bytes, the document without the values that fields are compared with.

An application sends few forms and many values. The results of parsing and planning a form serve all filters that have
it; only the values must be read for each filter.

Invariant: filters of one form differ only in their values, and these have the same types one by one. The form omits

- the value of a comparison with a top-level field, if values of its type compare with each other one by one. The
  comparison is an implicit equality, `$eq`, `$gt`, `$gte`, `$lt`, `$lte` or a member of `$all`;
- the array of an `$in` of such values; the form has the set of their types;
- a regular expression, with or without `$regex`, if no index can use its prefix, or if it is a pure prefix; the form
  records which of the two, and its `$options`.

The branches of a top-level `$or`, the members of a top-level `$and`, and an `$elemMatch` are treated alike. Everything
else in a filter is part of its form.

Searches in geometry and text indexes rarely recur, so a filter with one has no form unless the caller asks for it
(`searches`). The search is then one value: the document of the operators on a field, or the argument of `$text`.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_FILTER_BYTES, MAX_FORM_BYTES, MAX_FORM_VALUES, MAX_LIST_MEMBERS

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        BINARY,
        BOOL,
        DATE,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        OBJECT_ID,
        REGEX,
        STRING,
        TIMESTAMP,
        document_stop,
        double_at,
        find,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.match.path_predicates import is_name, stands_at

    _OPERATORS = 0x15
    _LISTED = 0x16
    _BRANCH = 0x17
    _EVERY = 0x18
    _ELEMENT = 0x19
    _PATTERN = 0x1A
    _BEGINNING = 0x1B
    _CONJUNCT = 0x1C
    _SEARCH = 0x1D
    """Marks in a form, in place of a type: a document of operators, a list, a disjunction and each of its branches, an
    $all, an $elemMatch, a regular expression of either kind, a conjunction and each of its members, and a search. No
    type has these numbers.
    """

_TOP: cython.int = 0
_IN_BRANCH: cython.int = 1
_OF_OPERATORS: cython.int = 2
_out: KeyWriter = KeyWriter()
_searches: cython.bint = False


@cython.ccall
def form_of(raw: bytes, searches: cython.bint = False) -> tuple[bytes, list[Value]] | None:
    """Return (the form, the values) of a filter; the value of an `$in` is its array. None for one that has no form, or
    is too long to recur. `searches`: filters with a search at the top level have a form, too.
    """
    global _searches
    values: list[Value] = []
    _searches = searches
    if len(raw) > MAX_FILTER_BYTES:
        return None
    _out.clear()
    if not _fields(raw, 0, len(raw), _TOP, values) or _out.size > MAX_FORM_BYTES:
        return None
    return _out.contents(), values


def _fields(
    raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, context: cython.int, values: list[Value]
) -> cython.bint:
    """Write the fields of the filter, of a branch, or of a document of operators. False if there are too many
    values.
    """
    operators: cython.bint = context == _OF_OPERATORS
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    code: cython.int
    compared: cython.bint
    types: cython.int
    mark: cython.int
    special: cython.int
    while at < stop:
        code = raw[at]
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, code, named + 1, stop)
        compared = _is_comparison(raw, at + 1, named) if operators else raw[at + 1] != 0x24
        if compared and _is_value(code, raw, named + 1):
            if len(values) == MAX_FORM_VALUES:
                return False
            _out.put_part(raw, at, named + 1)
            values.append((code, part(raw, named + 1, end)))
        elif context == _TOP and code == OBJECT and _begins_search(raw, at + 1, named, end):
            if not _search(raw, at + 1, named, end, values):
                return False
        elif code == OBJECT and compared and not operators and raw[named + 5] != 0 and raw[named + 6] == 0x24:
            _out.put(_OPERATORS)
            _out.put_part(raw, at + 1, named + 1)
            if not _fields(raw, named + 1, end, _OF_OPERATORS, values):
                return False
            _out.put(0)
        elif (code == REGEX or operators) and (
            special := _special(raw, start, limit, at, named, end, operators, values)
        ):
            if special < 0:
                return False
        elif context == _TOP and code == ARRAY and (mark := _mark_of_filters(raw, at + 1, named, end)):
            if not _filters(raw, named + 1, end, mark, _IN_BRANCH if mark == _BRANCH else _TOP, values):
                return False
        elif operators and code == ARRAY and (types := _types_of_list(raw, at + 1, named, end)):
            if len(values) == MAX_FORM_VALUES:
                return False
            _out.put(_LISTED)
            _out.put_part(raw, at + 1, named + 1)
            _out.put_little(types, 4)
            values.append((code, part(raw, named + 1, end)))
        elif _is_search(raw, code, at + 1, named):
            return False
        else:
            _out.put_part(raw, at, end)
        at = end
    return True


@cython.exceptval(-2)
def _special(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    named: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    operators: cython.bint,
    values: list[Value],
) -> cython.int:
    """Write a regular expression, an $elemMatch or an $all at [at, end). Return 0 if it is none of these, or part of
    the form; -1 if there are too many values.
    """
    kind: cython.int
    count: cython.Py_ssize_t
    code: cython.int = raw[at]
    if code in (REGEX, STRING):
        kind = _kind_of_pattern(raw, start, limit, code, at + 1, named, operators)
        if kind == 0:
            return 0
        if len(values) == MAX_FORM_VALUES:
            return -1
        _out.put(kind)
        _out.put_part(raw, at, named + 1)
        values.append((code, part(raw, named + 1, end)))
        return 1
    if code == OBJECT and raw[named + 5] != 0 and is_name(raw, at + 1, named, b"$elemMatch"):
        _out.put(_ELEMENT)
        if not _fields(raw, named + 1, end, _OF_OPERATORS if raw[named + 6] == 0x24 else _IN_BRANCH, values):
            return -1
        _out.put(0)
        return 1
    if code == ARRAY and is_name(raw, at + 1, named, b"$all"):
        count = _size_of_values(raw, named + 1, end)
        if count == 0:
            return 0
        if len(values) + count > MAX_FORM_VALUES:
            return -1
        _out.put(_EVERY)
        _members(raw, named + 1, end, values)
        _out.put(0)
        return 1
    return 0


def _filters(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    mark: cython.int,
    context: cython.int,
    values: list[Value],
) -> cython.bint:
    """Write the filters of a disjunction or a conjunction; False if there are too many values."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    _out.put(mark)
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, OBJECT, named, stop)
        _out.put(mark)
        if not _fields(raw, named, end, context, values):
            return False
        _out.put(0)
        at = end
    _out.put(0)
    return True


def _members(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, values: list[Value]) -> None:
    """Write the types of the values of an array."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, raw[at], named, stop)
        _out.put(raw[at])
        values.append((raw[at], part(raw, named, end)))
        at = end


def _size_of_values(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of values in the array; 0 if a member's type is not one that forms omit."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        if not _is_value(raw[at], raw, named):
            return 0
        count += 1
        at = value_end(raw, raw[at], named, stop)
    return count


@cython.exceptval(check=False)
def _is_search(raw: bytes, code: cython.int, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> cython.bint:
    """True if the name at [at, named), with a value of this type, is an operator of a geometry or text search."""
    if code not in (OBJECT, ARRAY) or raw[at] != 0x24 or named - at < 5:
        return False
    if stands_at(raw, at, b"$text", 5) or stands_at(raw, at, b"$geo", 4) or stands_at(raw, at, b"$near", 5):
        return True
    return is_name(raw, at, named, b"$within")


def _begins_search(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """True if the document after the name at [at, named) is the argument of a $text, or begins with an operator of
    another search.
    """
    if raw[at] == 0x24:
        return is_name(raw, at, named, b"$text")
    if raw[named + 5] == 0 or raw[named + 6] != 0x24:
        return False
    return _is_search(raw, raw[named + 5], named + 6, name_end(raw, named + 6, end))


def _search(
    raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t, values: list[Value]
) -> cython.bint:
    """Write a search: its name, and the names of its arguments, which determine its kind. False if forms of searches
    are not requested, or there are too many values.
    """
    inner: cython.Py_ssize_t = named + 5
    stop: cython.Py_ssize_t = document_stop(raw, named + 1, end)
    first: cython.Py_ssize_t
    name_stop: cython.Py_ssize_t
    if not _searches or len(values) == MAX_FORM_VALUES:
        return False
    _out.put(_SEARCH)
    _out.put_part(raw, at, named + 1)
    while inner < stop:
        first = inner
        name_stop = name_end(raw, inner + 1, stop)
        inner = value_end(raw, raw[first], name_stop + 1, stop)
        _out.put_part(raw, first, name_stop + 1)
        if raw[first] == OBJECT and raw[name_stop + 5] != 0:
            _out.put_part(raw, name_stop + 5, name_end(raw, name_stop + 6, stop) + 1)
    _out.put(0)
    values.append((OBJECT, part(raw, named + 1, end)))
    return True


def _kind_of_pattern(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    code: cython.int,
    at: cython.Py_ssize_t,
    named: cython.Py_ssize_t,
    operators: cython.bint,
) -> cython.int:
    """Return the mark for the value after the name at [at, named) of the document at `start`. 0 if it is not a regular
    expression, or one that is part of the form.
    """
    options: cython.Py_ssize_t = -1
    pattern: cython.Py_ssize_t = named + (5 if code == STRING else 1)
    end: cython.Py_ssize_t
    if not operators:
        if raw[at] == 0x24:
            return 0
    else:
        if not is_name(raw, at, named, b"$regex"):
            return 0
        options = find(raw, start, limit, b"$options")
        if options >= 0 and (code == REGEX or raw[options] != STRING):
            return 0
        # Skip its type, its name and the size of its text.
        options += 14 if options >= 0 else 0
    end = name_end(raw, pattern, limit)
    if code == REGEX:
        options = end + 1
    if options >= 0 and raw[options] != 0:
        # A multiline or caseless pattern has no prefix that an index could use; `s` does not matter to that.
        if raw[pattern] != 0x5E or raw[options] != 0x73 or raw[options + 1] != 0:
            return _PATTERN
        return 0
    if raw[pattern] != 0x5E:
        return _PATTERN
    pattern += 1
    if pattern == end:
        return 0
    while pattern < end:
        if not _is_plain(raw[pattern]):
            return 0
        pattern += 1
    return _BEGINNING


@cython.exceptval(check=False)
def _is_plain(byte: cython.int) -> cython.bint:
    """True if the byte of a pattern is a letter, a digit, a space or one of `_-`, and so is literal."""
    if 0x61 <= byte <= 0x7A or 0x41 <= byte <= 0x5A:
        return True
    return 0x30 <= byte <= 0x39 or byte in (0x20, 0x2D, 0x5F)


def _types_of_list(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return the types of the values in the array after the name at [at, named), as bits. 0 if it is not an $in, has
    another value, none or too many.
    """
    stop: cython.Py_ssize_t
    remaining: cython.int = MAX_LIST_MEMBERS
    types: cython.int = 0
    if named - at != 3 or raw[at + 1] != 0x69 or raw[at + 2] != 0x6E:
        return 0
    stop = document_stop(raw, named + 1, end)
    at = named + 5
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        if remaining == 0 or not _is_value(raw[at], raw, named):
            return 0
        remaining -= 1
        types |= 1 << raw[at]
        at = value_end(raw, raw[at], named, stop)
    return types


def _mark_of_filters(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return the mark for the $or or $and whose name is at [at, named); 0 if it is neither, or its array has a member
    that is not a document.
    """
    stop: cython.Py_ssize_t
    mark: cython.int = _BRANCH
    if not is_name(raw, at, named, b"$or"):
        mark = _CONJUNCT
        if not is_name(raw, at, named, b"$and"):
            return 0
    stop = document_stop(raw, named + 1, end)
    at = named + 5
    while at < stop:
        if raw[at] != OBJECT:
            return 0
        at = value_end(raw, OBJECT, name_end(raw, at + 1, stop) + 1, stop)
    return mark


@cython.exceptval(check=False)
def _is_comparison(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """True if the name at [at, end) is $eq, $gt, $gte, $lt or $lte."""
    size: cython.Py_ssize_t = end - at
    if size < 3 or size > 4 or raw[at] != 0x24:
        return False
    if size == 4:
        return raw[at + 3] == 0x65 and raw[at + 2] == 0x74 and raw[at + 1] in (0x67, 0x6C)
    return (raw[at + 2] == 0x74 and raw[at + 1] in (0x67, 0x6C)) or (raw[at + 1] == 0x65 and raw[at + 2] == 0x71)


@cython.exceptval(check=False)
def _is_value(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    """True if forms omit values of this type. NaN does not compare like other numbers."""
    number: cython.double
    if code == DOUBLE:
        number = double_at(raw, at)
        return number == number
    return code in (INT32, INT64, STRING, OBJECT_ID, BOOL, DATE, TIMESTAMP, BINARY)
