"""The form of a filter: its document without the values that fields are compared with.

An application sends few forms and many values. What parsing and planning find out about a form holds for all filters
that have it; the values are what is left to be looked at.

Always true: filters of one form differ in nothing but their values, whose types are the same one by one. A value is
taken out where a field of the top level is compared with it (as it is, or by `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, or as
one of those of `$all`) and its type is one of those that compare with each other value by value. So is the array of an
`$in` of such values; the form says which types are among them. So is a regular expression, with or without `$regex`, if
no index can tell where its strings begin, or if it is nothing but the beginning of strings; the form says which of
both, and what its `$options` are. In the branches of an `$or` and the members of an `$and` of the top level, and in an
`$elemMatch`, fields are treated alike. Whatever else a filter says is part of its form, but for searches in indexes of
geometry and of texts: what they ask for is never sent again. Who asks for that has it taken out as one value, which is
the document of the operators on a field, or the argument of `$text`; for others filters with searches have no form.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import Value
from docstore.kernel.keys.writer import KeyWriter

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
    """Stand in a form for the type of a document of operators, of a list, of a disjunction and each of its branches, of
    an $all, of an $elemMatch, of a regular expression of either kind, of a conjunction and each of its members, and of
    a search; no type has these numbers."""

_TOP = 0
_IN_BRANCH = 1
_OF_OPERATORS = 2
_MOST_BYTES = 32 * 1024
_LONGEST_FORM = 1024
"""Longer forms hold data, which is not sent again as it is."""
_MOST_VALUES = 16
_MOST_LISTED = 1_000
"""As many ranges as a step looks at."""
_out: KeyWriter = KeyWriter()
_searches: cython.bint = False


def form_of(raw: bytes, searches: cython.bint = False) -> tuple[bytes, list[Value]] | None:
    """(the form, the values) of a filter, the value of an `$in` being its array; None for one that has no form, or is
    too long to be sent often. `searches`: those have a form that search by a condition of the top level.
    """
    global _searches
    values: list[Value] = []
    _searches = searches
    if len(raw) > _MOST_BYTES:
        return None
    _out.clear()
    if not _fields(raw, 0, len(raw), _TOP, values) or _out.size > _LONGEST_FORM:
        return None
    return _out.taken(), values


def _fields(
    raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, place: cython.int, values: list[Value]
) -> cython.bint:
    """Write the fields of the filter, of a branch of it, or of a document of operators; False where there are too many
    values.
    """
    operators: cython.bint = place == _OF_OPERATORS
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
            if len(values) == _MOST_VALUES:
                return False
            _out.put_part(raw, at, named + 1)
            values.append((code, part(raw, named + 1, end)))
        elif place == _TOP and code == OBJECT and _begins_search(raw, at + 1, named, end):
            if not _search(raw, at + 1, named, end, values):
                return False
        elif code == OBJECT and compared and not operators and raw[named + 5] != 0 and raw[named + 6] == 0x24:
            _out.put(_OPERATORS)
            _out.put_part(raw, at + 1, named + 1)
            if not _fields(raw, named + 1, end, _OF_OPERATORS, values):
                return False
            _out.put(0)
        elif (code == REGEX or operators) and (
            special := _special(raw, start, limit, code, at, named, end, operators, values)
        ):
            if special < 0:
                return False
        elif place == _TOP and code == ARRAY and (mark := _mark_of_filters(raw, at + 1, named, end)):
            if not _filters(raw, named + 1, end, mark, _IN_BRANCH if mark == _BRANCH else _TOP, values):
                return False
        elif operators and code == ARRAY and (types := _types_of_list(raw, at + 1, named, end)):
            if len(values) == _MOST_VALUES:
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


def _special(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    code: cython.int,
    at: cython.Py_ssize_t,
    named: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    operators: cython.bint,
    values: list[Value],
) -> cython.int:
    """Write a regular expression, an $elemMatch or an $all at [at, end); 0 where there is none, or is part of the form,
    -1 where there are too many values.
    """
    kind: cython.int
    count: cython.Py_ssize_t
    if code in (REGEX, STRING):
        kind = _kind_of_pattern(raw, start, limit, code, at + 1, named, operators)
        if kind == 0:
            return 0
        if len(values) == _MOST_VALUES:
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
        if len(values) + count > _MOST_VALUES:
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
    place: cython.int,
    values: list[Value],
) -> cython.bint:
    """Write the filters of a disjunction or a conjunction; False where there are too many values."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    _out.put(mark)
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, OBJECT, named, stop)
        _out.put(mark)
        if not _fields(raw, named, end, place, values):
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
    """How many values are in the array; 0 where it has another one."""
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


def _is_search(raw: bytes, code: cython.int, at: cython.Py_ssize_t, named: cython.Py_ssize_t) -> cython.bint:
    """Whether a value of the type behind the name at [at, named) is that of a search in an index of geometry or of
    texts.
    """
    if code not in (OBJECT, ARRAY) or raw[at] != 0x24 or named - at < 5:
        return False
    if stands_at(raw, at, b"$text", 5) or stands_at(raw, at, b"$geo", 4) or stands_at(raw, at, b"$near", 5):
        return True
    return is_name(raw, at, named, b"$within")


def _begins_search(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the document behind the name at [at, named) is the argument of a $text, or begins with an operator of
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
    """Write a search: the name, and the names of what is asked, which say of which kind it is. False where it is not
    wanted, or there are too many values.
    """
    inner: cython.Py_ssize_t = named + 5
    stop: cython.Py_ssize_t = document_stop(raw, named + 1, end)
    first: cython.Py_ssize_t
    behind: cython.Py_ssize_t
    if not _searches or len(values) == _MOST_VALUES:
        return False
    _out.put(_SEARCH)
    _out.put_part(raw, at, named + 1)
    while inner < stop:
        first = inner
        behind = name_end(raw, inner + 1, stop)
        inner = value_end(raw, raw[first], behind + 1, stop)
        _out.put_part(raw, first, behind + 1)
        if raw[first] == OBJECT and raw[behind + 5] != 0:
            _out.put_part(raw, behind + 5, name_end(raw, behind + 6, stop) + 1)
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
    """What stands in a form for the value behind the name at [at, named) of the document at `start`; 0 where it is no
    regular expression, or one that is part of the form.
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
        # Behind its type, its name and the size of its text.
        options += 14 if options >= 0 else 0
    end = name_end(raw, pattern, limit)
    if code == REGEX:
        options = end + 1
    if options >= 0 and raw[options] != 0:
        # One that looks at lines, or not at case, has no beginning that an index could know; s is no such option.
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


def _is_plain(byte: cython.int) -> cython.bint:
    """Whether the byte of a pattern is a letter, a digit, a space or one of `_-`, and means itself."""
    if 0x61 <= byte <= 0x7A or 0x41 <= byte <= 0x5A:
        return True
    return 0x30 <= byte <= 0x39 or byte in (0x20, 0x2D, 0x5F)


def _types_of_list(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """The types of the values in the array behind the name at [at, named), in bits; 0 where it is no $in, has another
    value, none or very many.
    """
    stop: cython.Py_ssize_t
    left: cython.int = _MOST_LISTED
    types: cython.int = 0
    if named - at != 3 or raw[at + 1] != 0x69 or raw[at + 2] != 0x6E:
        return 0
    stop = document_stop(raw, named + 1, end)
    at = named + 5
    while at < stop:
        named = name_end(raw, at + 1, stop) + 1
        if left == 0 or not _is_value(raw[at], raw, named):
            return 0
        left -= 1
        types |= 1 << raw[at]
        at = value_end(raw, raw[at], named, stop)
    return types


def _mark_of_filters(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """What stands in a form for the $or or $and whose name is at [at, named); 0 where it is neither, or the array
    behind it has something else than documents.
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


def _is_comparison(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the name at [at, end) is $eq, $gt, $gte, $lt or $lte."""
    size: cython.Py_ssize_t = end - at
    if size < 3 or size > 4 or raw[at] != 0x24:
        return False
    if size == 4:
        return raw[at + 3] == 0x65 and raw[at + 2] == 0x74 and raw[at + 1] in (0x67, 0x6C)
    return (raw[at + 2] == 0x74 and raw[at + 1] in (0x67, 0x6C)) or (raw[at + 1] == 0x65 and raw[at + 2] == 0x71)


def _is_value(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    """Whether the value's type is one of those that are taken out of a form. NaN is no number like others."""
    number: cython.double
    if code == DOUBLE:
        number = double_at(raw, at)
        return number == number
    return code in (INT32, INT64, STRING, OBJECT_ID, BOOL, DATE, TIMESTAMP, BINARY)
