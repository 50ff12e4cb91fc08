from docstore.bson.number cimport integer_at
from docstore.kernel.match.predicate cimport PathPredicate
from docstore.bson.walk cimport BINARY, DECIMAL, DOUBLE, INT32, INT64

cdef class Bits(PathPredicate):
    cdef readonly bint every
    cdef readonly bint ones
    cdef readonly frozenset positions
    cdef long long _mask
    cdef list _bytes
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
    cdef bint _test_bits(self, long long present, long long mask) noexcept
    cdef bint _test_bytes(self, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1
