from docstore.kernel.keys.folding cimport TextFolding
from docstore.kernel.keys.pattern cimport KeyPattern
from docstore.kernel.keys.writer cimport KeyWriter
from docstore.kernel.keys.encoding cimport append_key
from docstore.bson.number cimport integer_at
from docstore.bson.order cimport (
    CLASS_MAX_KEY, CLASS_MIN_KEY, CLASS_NULL, CLASS_NUMBER, CLASS_STRING, CLASS_UNDEFINED, class_of, compare_at,
)
from docstore.kernel.match.predicate cimport MISSING, PathPredicate, Predicate
from docstore.bson.walk cimport (
    ARRAY, BINARY, CODE, DATE, DECIMAL, DOUBLE, INT32, INT64, OBJECT, OBJECT_ID, REGEX, STRING, SYMBOL, TIMESTAMP,
    document_stop, double_at, name_end, part, same_bytes, value_end,
)

cdef enum:
    _LESS = 1
    _EQUAL = 2
    _GREATER = 4

cdef class Compare(PathPredicate):
    cdef readonly str op
    cdef readonly tuple operand
    cdef int _code
    cdef bytes _raw
    cdef Py_ssize_t _end
    cdef int _class
    cdef int _accepted
    cdef bint _nan
    cdef bint _bytewise
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _test_members(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
cdef bint stands_at(bytes raw, Py_ssize_t at, bytes text, Py_ssize_t size) noexcept
cdef bint is_name(bytes raw, Py_ssize_t at, Py_ssize_t named, bytes name) noexcept
cdef bint _is_nan(int code, bytes raw, Py_ssize_t at) except -1

cdef class In(PathPredicate):
    cdef set _keys
    cdef KeyWriter _out
    cdef bint _null
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Present(PathPredicate):
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Exists(Predicate):
    cdef readonly str path
    cdef readonly bint exists
    cdef Predicate _present
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Type(PathPredicate):
    cdef readonly frozenset codes
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Mod(PathPredicate):
    cdef readonly object divisor
    cdef readonly object remainder
    cdef long long _divisor
    cdef long long _remainder
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Size(PathPredicate):
    cdef readonly Py_ssize_t size
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class All(Predicate):
    cdef readonly str path
    cdef list _parts
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class ElemMatch(PathPredicate):
    cdef Predicate _part
    cdef bint _on_values
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Folded(PathPredicate):
    cdef PathPredicate _inner
    cdef TextFolding _fold
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class ValueCall(PathPredicate):
    cdef object _function
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Call(Predicate):
    cdef object _function
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1

cdef class Ranges(Predicate):
    cdef readonly KeyPattern pattern
    cdef list _lows
    cdef list _highs
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
