from docstore.bson.allowance cimport spend
from docstore.bson.walk cimport ARRAY, OBJECT, document_stop, find, name_end, value_end

cpdef enum:
    MISSING = 0

cdef enum:
    _BYTES_SHIFT = 4

cdef class Predicate:
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Always(Predicate):
    cdef bint _holds
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class And(Predicate):
    cdef list _parts
    cdef Py_ssize_t _cost
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Or(Predicate):
    cdef list _parts
    cdef Py_ssize_t _cost
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Not(Predicate):
    cdef Predicate _part
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint test_value(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end) except -1

cdef class Nor(Not):
    pass

cdef class PathPredicate(Predicate):
    cdef readonly str path
    cdef readonly bint into_arrays
    cdef list _names
    cdef list _positions
    cdef Py_ssize_t _last
    cdef bint _elements
    cdef bint test(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint _test_field(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth) except -1
    cdef bint _test_at(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) except -1
    cdef bint _test_members(self, bytes raw, Py_ssize_t start, Py_ssize_t limit) except -1
    cdef bint _test_array(self, bytes raw, Py_ssize_t start, Py_ssize_t limit, Py_ssize_t depth) except -1
    cdef bint _test_member(self, int code, bytes raw, Py_ssize_t at, Py_ssize_t end, Py_ssize_t depth) except -1
