"""The states of accumulators over raw values, one for each field of each group.

States return their contents in parts, from which the caller's own accumulators can continue and compute the result: see
`State.partial`. Values that machine arithmetic cannot add exactly (decimals, infinities, sums beyond 62 bits) go to
`State.extras`; a state without extras can compute its result.

There may be hundreds of thousands of states. They take part in no reference cycles and are not tracked by the garbage
collector.
"""

from __future__ import annotations

from struct import pack

import cython

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import EMPTY_DOCUMENT, Value
from docstore.errors import MOST_MEMBERS, too_many_members
from docstore.kernel.group.double_sum import DoubleSum
from docstore.kernel.group.sources import ValueRef
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.number import double_bytes, integer_bytes
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        NULL,
        OBJECT,
        UNDEFINED,
        document_stop,
        double_at,
        int32_at,
        int64_at,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.keys.encoding import append_key

_NO_DECIMAL = (0x3040 << 112).to_bytes(16, "little")
_ZERO_DECIMAL: Value = (0x13, _NO_DECIMAL)


@cython.no_gc
@cython.cclass
class State:
    """The state of one accumulator for one group; `following` is that of the group's next field."""

    extras: list[Value] | None
    following: State | None

    def __init__(self) -> None:
        self.extras = None
        self.following = None

    def add(self, value: ValueRef) -> cython.int:
        """Add a value; return the bytes of memory that it takes."""
        raise NotImplementedError

    def merge(self, partial: ValueRef) -> cython.bint:
        """Add another state's `partial`. False, with the state unchanged, if the kernel's arithmetic is not enough."""
        raise NotImplementedError

    @cython.ccall
    def partial(self) -> Value:
        """Return the contents, without `extras`."""
        raise NotImplementedError

    @cython.ccall
    def result(self) -> Value:
        """Return the result. Not for a state with `extras`."""
        raise NotImplementedError


@cython.no_gc
@cython.cclass
class SumState(State):
    """A sum. Its parts are [type byte of the widest number, integers, two doubles, decimals].

    With `counted`, the number of numbers comes first. The steps are those of `docstore.query.value.summation`, with one
    exception: the doubles are omitted, because they would be the sum and zero, while all numbers are integers within 53
    bits.
    """

    _counted: cython.bint
    _count: cython.longlong
    _kind: cython.int
    _integer_sum: cython.longlong
    _binary: cython.bint
    _sum: DoubleSum

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self._counted = counted
        self._count = 0
        self._kind = INT32
        self._integer_sum = 0
        self._binary = False
        self._sum = DoubleSum()

    def add(self, value: ValueRef) -> cython.int:
        if value.code == INT32:
            return self._add_integer(int32_at(value.raw, value.at), value)
        if value.code == INT64:
            return self._add_integer(int64_at(value.raw, value.at), value)
        if value.code == DOUBLE:
            return self._add_double(double_at(value.raw, value.at), value)
        if value.code == DECIMAL:
            return self._keep(value)
        return 0

    def _add_integer(self, number: cython.longlong, value: ValueRef) -> cython.int:
        top: cython.longlong = number >> 61
        sum_top: cython.longlong = self._integer_sum >> 61
        if not (-1 <= top <= 0 and -1 <= sum_top <= 0):
            return self._keep(value)
        if self._binary or not (-1 <= number >> 53 <= 0 and -1 <= (self._integer_sum + number) >> 53 <= 0):
            self._begin_binary()
            if value.code == INT32:
                self._sum.plus(cython.cast(cython.double, number))
            else:
                self._sum.plus_long(number)
        self._integer_sum += number
        self._count += 1
        if value.code == INT64 and self._kind == INT32:
            self._kind = INT64
        return 0

    def _add_double(self, number: cython.double, value: ValueRef) -> cython.int:
        self._begin_binary()
        if self._sum.overflows(number):
            return self._keep(value)
        self._sum.plus(number)
        self._count += 1
        self._kind = DOUBLE
        return 0

    def _begin_binary(self) -> cython.int:
        """Start to maintain the doubles."""
        if not self._binary:
            self._binary = True
            self._sum.plus_long(self._integer_sum)
        return 0

    def _keep(self, value: ValueRef) -> cython.int:
        if self.extras is None:
            self.extras = []
        self.extras.append(value.value())
        return 100

    def merge(self, partial: ValueRef) -> cython.bint:
        raw: bytes = partial.raw
        stop: cython.Py_ssize_t = document_stop(raw, partial.at, partial.end)
        at: cython.Py_ssize_t = partial.at + 4
        count: cython.longlong = 0
        integer_sum: cython.longlong
        kind: cython.int
        high: cython.double
        low: cython.double
        if self._counted:
            at = name_end(raw, at + 1, stop) + 1
            count = int64_at(raw, at)
            at += 8
        at = name_end(raw, at + 1, stop) + 1
        kind = int32_at(raw, at)
        at += 4
        if raw[at] != INT64:
            return False
        at = name_end(raw, at + 1, stop) + 1
        integer_sum = int64_at(raw, at)
        at = name_end(raw, at + 9, stop) + 1
        high = double_at(raw, at)
        at = name_end(raw, at + 9, stop) + 1
        low = double_at(raw, at)
        at = name_end(raw, at + 9, stop) + 1
        if kind == DECIMAL or part(raw, at, at + 16) != _NO_DECIMAL:
            return False
        if self._sum.overflows(high + low) or not (-1 <= integer_sum >> 61 <= 0 and -1 <= self._integer_sum >> 61 <= 0):
            return False
        if self._binary or kind == DOUBLE or not (-1 <= (self._integer_sum + integer_sum) >> 53 <= 0):
            self._begin_binary()
            self._sum.plus_long(integer_sum)
            self._sum.plus(high)
            self._sum.plus(low)
        self._integer_sum += integer_sum
        self._count += count
        if kind == DOUBLE or (kind == INT64 and self._kind == INT32):
            self._kind = kind
        return True

    def partial(self) -> Value:
        only_integers: cython.bint = self._kind != DOUBLE
        parts = [
            (INT32, self._kind.to_bytes(4, "little")),
            (INT64, (self._integer_sum if only_integers else 0).to_bytes(8, "little", signed=True)),
            (DOUBLE, pack("<d", 0.0 if only_integers else self._sum.high)),
            (DOUBLE, pack("<d", 0.0 if only_integers else self._sum.low)),
            _ZERO_DECIMAL,
        ]
        if self._counted:
            parts.insert(0, (INT64, self._count.to_bytes(8, "little")))
        return ARRAY, array_from(parts)

    def result(self) -> Value:
        total: cython.double = self._sum.high if self._kind == DOUBLE else cython.cast(cython.double, self._integer_sum)
        if self._counted:
            return (NULL, b"") if self._count == 0 else (DOUBLE, double_bytes(total / self._count))
        if self._kind == DOUBLE:
            return DOUBLE, double_bytes(total)
        if self._kind == INT32 and -0x80000000 <= self._integer_sum <= 0x7FFFFFFF:
            return INT32, integer_bytes(self._integer_sum, 4)
        return INT64, integer_bytes(self._integer_sum, 8)


@cython.no_gc
@cython.cclass
class ExtremeState(State):
    """The least (`sign` -1) or greatest (1) value, null if there was none; null and missing values do not count.

    Of equal values the first one is kept, or with `last` the last.
    """

    _sign: cython.int
    _last: cython.bint
    _code: cython.int
    _raw: bytes

    def __init__(self, sign: int, last: bool) -> None:
        super().__init__()
        self._sign = sign
        self._last = last
        self._code = NULL
        self._raw = b""

    def add(self, value: ValueRef) -> cython.int:
        if value.code in (0, NULL, UNDEFINED):
            return 0
        order: cython.int = self._sign
        if self._code != NULL:
            order = compare_at(value.code, value.raw, value.at, value.end, self._code, self._raw, 0, len(self._raw), 0)
        if order != self._sign and not (self._last and order == 0):
            return 0
        grown: cython.int = value.end - value.at - len(self._raw)
        self._code = value.code
        self._raw = part(value.raw, value.at, value.end)
        # Compiled, a negative value would be taken for an exception.
        return grown if grown > 0 else 0

    def merge(self, partial: ValueRef) -> cython.bint:
        self.add(partial)
        return True

    def partial(self) -> Value:
        return self._code, self._raw

    def result(self) -> Value:
        return self._code, self._raw


@cython.no_gc
@cython.cclass
class EndState(State):
    """The first or the last value, a missing one as null. Its parts are {v: value}, or {} if there was no document."""

    _last: cython.bint
    _value: Value | None
    _counted: cython.Py_ssize_t

    def __init__(self, last: bool) -> None:
        super().__init__()
        self._last = last
        self._value = None
        self._counted = 0

    def add(self, value: ValueRef) -> cython.int:
        grown: cython.Py_ssize_t = 0
        if self._value is None or self._last:
            grown = _PER_VALUE - self._counted
            if value.code == 0:
                self._value = (NULL, b"")
            else:
                self._value = value.value()
                grown += value.end - value.at
            if grown > 0:
                self._counted += grown
        # Compiled, a negative value would be taken for an exception.
        return grown if grown > 0 else 0

    def merge(self, partial: ValueRef) -> cython.bint:
        at: cython.Py_ssize_t = partial.at + 7
        if partial.end - partial.at > 5 and (self._value is None or self._last):
            self._value = (
                partial.raw[partial.at + 4],
                part(partial.raw, at, value_end(partial.raw, partial.raw[at - 3], at, partial.end)),
            )
        return True

    def partial(self) -> Value:
        if self._value is None:
            return OBJECT, EMPTY_DOCUMENT
        return OBJECT, document_from([("v", *self._value)])

    def result(self) -> Value:
        return (NULL, b"") if self._value is None else self._value


_key_writer: KeyWriter = KeyWriter()
_array_writer: KeyWriter = KeyWriter()
"""A shared buffer for members' keys and for arrays; no other task runs while it is in use."""

_KEPT_ROOM = 1 << 16
_PER_KEY = 150
"""Bytes of memory charged for a remembered key besides its own."""

_PER_VALUE = 120
"""Bytes of memory charged for a kept value besides its own."""

_FIRST_MEMBER = 100
"""Bytes of memory charged for the container of the members."""


@cython.no_gc
@cython.cclass
class MembersState(State):
    """The values that are not missing, in order of arrival; if `distinct`, without those equal to an earlier one. Its
    part is the resulting array.

    The members are stored contiguously, each as its type byte and its bytes. `_size`: these bytes, their keys, and 16
    for each.
    """

    _members: bytearray
    _keys: dict[bytes, None] | None
    _size: cython.Py_ssize_t

    def __init__(self, distinct: bool) -> None:
        super().__init__()
        self._size = 0
        self._members = bytearray()
        self._keys = {} if distinct else None

    def add(self, value: ValueRef) -> cython.int:
        if value.code == 0:
            return 0
        return self._take(value.code, value.raw, value.at, value.end)

    def _take(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        memory: cython.Py_ssize_t = 1 + end - at + (0 if self._size else _FIRST_MEMBER)
        key: bytes
        if self._keys is not None:
            _key_writer.clear()
            append_key(_key_writer, code, raw, at, end)
            key = _key_writer.contents()
            if key in self._keys:
                return 0
            self._keys[key] = None
            memory += len(key) + _PER_KEY
        self._size += memory + 16
        if self._size > MOST_MEMBERS:
            raise too_many_members("$push" if self._keys is None else "$addToSet")
        self._members.append(code)
        self._members += part(raw, at, end)
        return memory

    def merge(self, partial: ValueRef) -> cython.bint:
        raw: bytes = partial.raw
        stop: cython.Py_ssize_t = document_stop(raw, partial.at, partial.end)
        at: cython.Py_ssize_t = partial.at + 4
        begin: cython.Py_ssize_t
        code: cython.int
        while at < stop:
            code = raw[at]
            begin = name_end(raw, at + 1, stop) + 1
            at = value_end(raw, code, begin, stop)
            self._take(code, raw, begin, at)
        return True

    def partial(self) -> Value:
        return self.result()

    def result(self) -> Value:
        global _array_writer
        out: KeyWriter = _array_writer
        spend(3 * self._size)
        members: bytes = bytes(self._members)
        stop: cython.Py_ssize_t = len(members)
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        out.clear()
        out.put_little(0, 4)
        while at < stop:
            end = value_end(members, members[at], at + 1, stop)
            out.put(members[at])
            out.put_digits(position)
            out.put(0)
            out.put_part(members, at + 1, end)
            position += 1
            at = end
        out.put(0)
        out.set_little(0, out.size, 4)
        if out.size > _KEPT_ROOM:
            _array_writer = KeyWriter()
        return ARRAY, out.contents()
